//! `quincunx demo`: the main job, in one command.

use clap::Args;
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog, FabricKind};
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, Row};
use quincunx_report::Columns;
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::{Contents, Outputs, Request};
use quincunx_units::{BitRate, ByteCount, SizeRange};
use std::collections::BTreeMap;
use std::path::Path;

use crate::out::say;
use crate::progress::run_with_bar;
use crate::results::envelope;
use crate::simulations::{self, simulate};
use crate::{Failure, interrupt};

/// Three switches, eight ranks.
const TREE: &str = "tree-2x4";
const RANKS: u16 = 8;

/// The smallest vector.
const LEAST: u64 = 4096;

/// `quincunx demo`.
#[derive(Args)]
pub(crate) struct Demo {
    /// Bytes of the vectors on real processes, and of the largest in simulation
    #[arg(long, default_value = "1MiB")]
    size: ByteCount,
    /// How often each collective runs on real processes
    #[arg(long, default_value_t = 2)]
    iterations: u32,
    /// What each link between real processes carries in a second, each way
    #[arg(long, default_value = "100Mbit/s")]
    rate: BitRate,
}

impl Demo {
    pub(crate) fn run(&self, catalog: Catalog) -> Result<(), Failure> {
        if self.size.bytes() < LEAST || !self.size.bytes().is_multiple_of(LEAST) || self.iterations == 0 {
            return Err(Failure::Input(format!(
                "expected a size of a multiple of 4KiB and an iteration at least, found {} and {}; change --size or --iterations",
                self.size, self.iterations
            )));
        }
        let rate = format!("link.rate={}", self.rate).parse::<Override>().map_err(Failure::input)?;
        let scenario =
            Scenario::find_for(&RealLinks::PACED, TREE, &[rate], catalog).map_err(Failure::input)?;
        let shape = scenario.fabric.shape().expect("a tree");
        let mut designs = real(catalog);
        let mut refused = Vec::new();
        // A design may have no use for this tree; the others are shown all the same.
        designs.retain(|design| {
            let setup = GroupsSetup::new(catalog, &[*design], &scenario);
            setup.map_err(|refusal| refused.push(format!("{}: {refusal}", design.name()))).is_ok()
        });
        let primitives = |design: &&'static dyn AnyDesign| {
            let name = design.name();
            design.collectives(FabricKind::Tree).iter().map(move |&collective| self.case(name, collective))
        };
        let cases: Vec<Case> = designs.iter().flat_map(primitives).collect();
        let setup = GroupsSetup::new(catalog, &designs, &scenario).map_err(Failure::input)?;
        let plan = Plan { setup, cases };
        say!(
            "A manager, {} switches ({TREE}) and {RANKS} ranks, each a process, exchange RoCEv2 frames on loopback,",
            shape.switches()
        );
        say!("where they hold themselves to links of {} each way.", self.rate);
        say!("Every result is compared with the reference, to the bit.");
        refused.iter().for_each(|line| say!("Left out here, {line}"));
        say!();
        let program = std::env::current_exe().map_err(Failure::input)?;
        let start = |framing| {
            let arguments = ChildArguments { framing, ..ChildArguments::default() };
            Processes::start(&shape, LinkKind::Paced { rate: self.rate }, &program, arguments, None)
        };
        let mut rows = Vec::new();
        let wrong = run_with_bar(catalog, &plan, start, true, &mut rows, &mut BTreeMap::new())
            .map_err(Failure::input)?;
        if wrong > 0 {
            return Err(Failure::Wrong(format!("expected right results, found {wrong} wrong elements")));
        }
        say!("\n{0} of {0} runs right at every rank.", plan.cases.len());
        if let Some(gain) = gain(&rows) {
            say!("{gain}");
        }
        simulate_designs(catalog, self.size)
    }

    fn case(&self, design: &str, collective: Collective) -> Case {
        Case {
            design: design.into(),
            collective: collective.name().into(),
            in_place: false,
            root: 0,
            bytes: self.size.bytes(),
            data_type: "f32".into(),
            op: "sum".into(),
            iterations: self.iterations,
            warm_up: 1,
            tokens: None,
        }
    }
}

/// What switches have saved an AllReduce of: the fastest design that has used their memory beside the fastest that has not.
fn gain(rows: &[Row]) -> Option<String> {
    let fastest = |uses_switches: bool| {
        let is_meant = |row: &&Row| {
            row.collective == Collective::AllReduce.name()
                && (row.switch_buffer_bytes > Some(0)) == uses_switches
        };
        rows.iter().filter(is_meant).min_by(|a, b| a.time_us.total_cmp(&b.time_us))
    };
    let (with, without) = (fastest(true)?, fastest(false)?);
    Some(format!(
        "The fastest AllReduce in the switches ({}, {:.1} ms) takes {:.2} of the time of the fastest among the hosts alone\n({}, {:.1} ms): each rank sends its vector up once and gets the sum once, where hosts move nearly twice as much.",
        with.design,
        with.time_us / 1e3,
        with.time_us / without.time_us,
        without.design,
        without.time_us / 1e3
    ))
}

/// The designs that run on real hosts and switches, and offer what each of them can be compared by.
fn real(catalog: Catalog) -> Vec<&'static dyn AnyDesign> {
    let reduces =
        |design: &&dyn AnyDesign| design.collectives(FabricKind::Tree).contains(&Collective::AllReduce);
    catalog.on(FabricKind::Tree).filter(reduces).collect()
}

/// Fabrics of the papers.
const DEFAULT_FABRICS: [&str; 2] = ["epic-star8", "scin-dgx8"];

/// From each size that is simulated to the next.
const FACTOR: u64 = 16;

/// Simulates an AllReduce of up to `largest` by every design on its paper's fabric, with numbers, so that every result is checked; draws
/// the report.
fn simulate_designs(catalog: Catalog, largest: ByteCount) -> Result<(), Failure> {
    say!("\nThe same engines in simulation, AllReduce on the fabrics of the papers, results checked:\n");
    let sizes: Vec<ByteCount> = format!("{LEAST}:{}:{FACTOR}", largest.bytes())
        .parse::<SizeRange>()
        .map_err(Failure::input)?
        .sizes()
        .collect();
    let folder = Path::new("quincunx-demo");
    let stop = interrupt::flag()?;
    let mut fabrics = Vec::new();
    for name in DEFAULT_FABRICS {
        let scenario = Scenario::find(name, &[], catalog).map_err(Failure::input)?;
        let kind = scenario.kind();
        let reduces = |design: &&dyn AnyDesign| {
            design.about().is_exact && design.about().offers(Collective::AllReduce, kind)
        };
        let designs: Vec<_> = catalog.choices(kind).filter(reduces).collect();
        fabrics.push((name, scenario, designs));
    }
    let names = fabrics.iter().flat_map(|(_, _, designs)| designs).map(|design| design.name());
    let width = Columns::width(names);
    say!("{:<11} {}", "fabric", Columns::header(width).replace('\n', &format!("\n{:12}", "")));
    for (name, scenario, designs) in fabrics {
        let runs = designs.iter().flat_map(|&design| sizes.iter().map(move |&size| (design, size)));
        let case = |(design, size): (&'static dyn AnyDesign, ByteCount)| {
            let request = Request {
                scenario: scenario.clone(),
                design,
                collective: Collective::AllReduce,
                reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                size,
                contents: Contents::Numbers,
                background: None,
                seed: 1,
            };
            let designs = vec![design];
            simulations::Case { request, designs, seeds: 1, over_time: true, outputs: Outputs::default() }
        };
        let cases: Vec<_> = runs.map(case).collect();
        let rows = cases.len();
        let simulated = simulate(cases, width, &stop, |line| say!("{name:<11} {line}"))?;
        let text = envelope("sim", &simulated.rows).to_string();
        let saved = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join(format!("{name}.json")), text));
        saved.map_err(Failure::input)?;
        simulated.check(rows)?;
    }
    let page = quincunx_report::write(folder, None).map_err(Failure::input)?;
    say!("\nPlots: {}", page.path.display());
    Ok(())
}
