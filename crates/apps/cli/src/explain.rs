//! `quincunx cais explain`: what the compiler step makes of a kernel.

use clap::{Args, Subcommand};
use quincunx_compiler::{Compiled, Interval, Kernel, Lowered, Statement, StatementKind, compile};
use serde_json::{Value, json};
use std::path::PathBuf;

use crate::Failure;
use crate::out::say;
use crate::results::envelope;

/// `quincunx cais`.
#[derive(Args)]
pub(crate) struct Compiler {
    #[command(subcommand)]
    command: CompilerCommand,
}

#[derive(Subcommand)]
enum CompilerCommand {
    /// Say which loads and reductions of a kernel merge in the switch, and which thread blocks are groups
    Explain(Explain),
}

/// `quincunx cais explain`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx cais explain examples/kernels/ag-gemm.toml
  quincunx cais explain examples/kernels/rotated.toml --json

Shipped in examples/kernels: ag-gemm, gemm-rs, layernorm (nothing merges), layernorm-all and gemm (behind an AllReduce), rotated (indices that
hide the GPU, or only seem to name it).

An access merges if all GPUs with one blockIdx name the same element of a shared array: its index does not depend on gpuId, not through a
definition or a loop either, and what cancels does not count. What is not proved does not merge. Blocks of all GPUs that access the same
regions by merged instructions are a group. A kernel is a TOML file:

  name = \"small\"
  gpus = 8
  grid = [64]                                  # blocks: x, y, z; numbers, or expressions of constants
  threads = [128]                              # of a block
  constants = { K = 1024 }
  define = { row = \"blockIdx.x * 2\" }          # names for expressions
  [[arrays]]
  name = \"X\"
  element = \"f16\"                              # f16, bf16, f32, s32, u32
  length = \"128 * K\"
  home = \"index / (length / gpus)\"             # the GPU that holds it; \"local\": each has its own
  [[statements]]
  kind = \"load\"                                # or reduce, store
  array = \"X\"
  index = \"row * K + k * 128 + threadIdx.x\"    # + - * / % ( ), gpuId, gpus, blockIdx, threadIdx
  loops = [{ name = \"k\", from = \"0\", to = \"K / 128\" }]
  width = 1                                    # elements of an instruction: 1, 2, 4, 8")]
pub(crate) struct Explain {
    /// A kernel's description
    #[arg(value_name = "KERNEL.toml")]
    kernel: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Compiler {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            CompilerCommand::Explain(explain) => explain.run(),
        }
    }
}

impl Explain {
    fn run(self) -> Result<(), Failure> {
        let file = self.kernel.display().to_string();
        let text = quincunx_scenario::read_text(&self.kernel).map_err(|error| {
            Failure::Input(format!("expected a kernel's description, found {file}: {error}; name a file"))
        })?;
        let kernel = Kernel::parse(&file, &text).map_err(Failure::input)?;
        let compiled = compile(&kernel);
        if self.json {
            say!("{}", to_json(&kernel, &compiled));
        } else {
            crate::out::print(&to_text(&kernel, &compiled));
        }
        Ok(())
    }
}

const fn kind(statement: &Statement) -> &'static str {
    match statement.kind {
        StatementKind::Load => "load",
        StatementKind::Reduce => "reduce",
        StatementKind::Store => "store",
    }
}

/// The instruction as text; stores are not ours to encode.
fn ptx(lowered: &Lowered) -> String {
    lowered.instruction.as_ref().map_or_else(|| "st (unchanged)".to_owned(), ToString::to_string)
}

fn span(interval: Interval) -> String {
    let Interval { low, high } = interval;
    if low == high { low.to_string() } else { format!("{low} to {high}") }
}

/// Blocks by their coordinates, the first few.
fn blocks(kernel: &Kernel, of: impl Iterator<Item = u32>) -> String {
    const SHOWN: usize = 4;
    let all: Vec<u32> = of.collect();
    let shown = all.iter().take(SHOWN).map(|&number| {
        let [x, y, z] = kernel.block(number);
        format!("({x}, {y}, {z})")
    });
    let more = if all.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.collect::<Vec<_>>().join(" "))
}

fn to_text(kernel: &Kernel, compiled: &Compiled) -> String {
    let Kernel { name, gpus, grid: [x, y, z], threads: [a, b, c], .. } = kernel;
    let mut text = format!("{name}: {gpus} GPUs, grid {x} x {y} x {z}, {} threads\n\n", a * b * c);
    let width = |of: &dyn Fn(&Statement) -> usize, least: usize| {
        kernel.statements.iter().map(of).max().unwrap_or(0).max(least)
    };
    let arrays = width(&|statement| kernel.arrays[statement.array].name.len(), 5);
    let indices = width(&|statement| statement.text.len(), 5);
    text += &format!("{:<3} {:<7} {:<arrays$} {:<indices$} merges\n", "#", "access", "array", "index");
    for ((statement, lowered), number) in kernel.statements.iter().zip(&compiled.statements).zip(1..) {
        let merges = lowered
            .plain
            .as_ref()
            .map_or_else(|| "yes: GPU-invariant".to_owned(), |why| format!("no: {why}"));
        let array = &kernel.arrays[statement.array].name;
        text += &format!(
            "{number:<3} {:<7} {array:<arrays$} {:<indices$} {merges}\n",
            kind(statement),
            statement.text
        );
    }
    text += "\ninstructions\n";
    for (lowered, number) in compiled.statements.iter().zip(1..) {
        text += &format!("{number:<3} {}\n", ptx(lowered));
    }
    let groups = &compiled.groups;
    if groups.count == 0 {
        return text + "\nno thread-block groups: nothing merges\n";
    }
    text += &format!(
        "\n{} thread-block groups, each of {} GPUs\n    group 0: blocks {} on each GPU\n",
        groups.count,
        groups.gpus,
        blocks(kernel, groups.blocks_of(0))
    );
    text += "\nregions\n";
    for ((statement, lowered), number) in kernel.statements.iter().zip(&compiled.statements).zip(1..) {
        if let Some(region) = &lowered.region {
            text += &format!(
                "{number:<3} {}: {} regions; that of block (0, 0, 0) is in elements {}, held by GPU {}\n",
                kernel.arrays[statement.array].name,
                lowered.regions,
                span(region.elements),
                span(region.homes)
            );
        }
    }
    text
}

fn to_json(kernel: &Kernel, compiled: &Compiled) -> Value {
    let rows = kernel.statements.iter().zip(&compiled.statements).map(|(statement, lowered)| {
        let instruction = lowered.instruction.as_ref();
        let bits = instruction.map(|instruction| u64::from_be_bytes(instruction.emit()));
        let pair = |Interval { low, high }: Interval| [low as i64, high as i64];
        json!({
            "access": kind(statement),
            "array": kernel.arrays[statement.array].name,
            "index": statement.text,
            "merges": lowered.plain.is_none(),
            "why_not": lowered.plain.as_ref().map(ToString::to_string),
            "ptx": instruction.map(ToString::to_string),
            "encoding": bits.map(|bits| format!("{bits:#018x}")),
            "regions": lowered.regions,
            "region_of_first_block": lowered.region.as_ref().map(
                |region| json!({ "elements": pair(region.elements), "homes": pair(region.homes) })
            ),
        })
    });
    let mut object = envelope(&format!("{} explain", quincunx_compiler::OF), &rows.collect::<Vec<_>>());
    object["kernel"] = json!({
        "name": kernel.name,
        "gpus": kernel.gpus,
        "grid": kernel.grid,
        "threads": kernel.threads,
    });
    object["groups"] = json!({
        "gpus": compiled.groups.gpus,
        "count": compiled.groups.count,
        "of_block": compiled.groups.of_block,
    });
    object
}
