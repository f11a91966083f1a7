//! `quincunx sim`.

use clap::{Args, Subcommand};
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog, FabricKind, Form, Parameter};
use quincunx_report::Columns;
use quincunx_scenario::{Key, NetworkName, Override, RankPlacement, Scenario, read_text};
use quincunx_sim::traffic::Offered;
use quincunx_sim::{AUTO, Contents, Request};
use quincunx_units::{ByteCount, SizeRange};

use crate::chakra::Chakra;
use crate::jobs::Jobs;
use crate::layer::Layer;
use crate::options::{CollectiveOptions, OutputOptions, SeedOptions, placement_override};
use crate::out::say;
use crate::results::{Printed, envelope};
use crate::settings::SettingsInForce;
use crate::simulations::{Case, candidates_header, simulate};
use crate::tenancy::Clusters;
use crate::traffic::Traffic;
use crate::train::Train;
use crate::{Failure, interrupt};

/// What is simulated that is no collective.
#[derive(Subcommand)]
enum Other {
    /// Simulate synthetic traffic: what the fabric accepts, and how long packets take
    Traffic(Traffic),
    /// Simulate several collectives at once, in groups of some of the hosts, with traffic beside them
    Jobs(Jobs),
    /// Simulate an iteration of data-parallel training: how much communication overlaps with computation
    Train(Train),
    /// Replay Chakra execution traces: what ranks compute, and wait for, on a fabric
    Chakra(Chakra),
    /// Simulate a layer of a tensor-parallel model: compute kernels whose loads and reductions cross the fabric
    Layer(Layer),
    /// Simulate the jobs of a cluster by flows: who gets switches under which policy, and how long jobs take
    Cluster(Clusters),
}

/// `quincunx sim`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  quincunx sim all_reduce --fabric epic-star8 --design epic-3,ring --size 4KiB:16MiB:4
  quincunx sim all_reduce --fabric tree-3-2 --design epic-2 --size 1MiB --set link.rate=200Gbit/s --loss 5%@3
  quincunx sim all_reduce --design epic-3 --size 64KiB --trace run.pftrace
  quincunx sim all_reduce --fabric scin-dgx8 --design scin --size 16MiB --set isa.waves=4
  quincunx sim all_reduce --fabric scin-dgx8 --design scin --size 256KiB --trace waves.pftrace
  quincunx sim all_reduce --design epic-3,ring --background uniform:0.3 --seeds 8
  quincunx sim dispatch --fabric two-servers --design multiwrite,direct --set tokens=2048
  quincunx sim combine --fabric two-servers --design multiwrite --set tokens=2048 --set gate=skewed
  quincunx sim dispatch --fabric two-servers --design multiwrite --set gate=layer3.jsonl
  quincunx sim all_gather --fabric mesh8 --design auto --size 256KiB:256MiB:4
  quincunx sim all_reduce --fabric leaf-spine-8x4x8 --design ring --size 16MiB --placement spread
  quincunx sim traffic --fabric star-16 --pattern uniform --load 0.5,0.9
  quincunx sim jobs examples/jobs/leaf-spine-64.toml
  quincunx sim cluster epic-128
  quincunx sim train --model resnet-50 --fabric ars-star8 --design netreduce,ring
  quincunx sim chakra traces/all_reduce --fabric star-8 --design epic-3,ring
  quincunx sim layer --model llama-7b --sublayer L2 --design cais,cais-base,sp-nvls,t3
  quincunx sim all_reduce --fabric my-cluster.toml --design epic-3 --size 64MiB --json --utilisation

Fabrics are presets, shapes (star-N, tree-X-Y, leaf-spine-LxSxH, fat-tree-K, clos-PxLxHxSxC, rail-VxAxS, dragonfly-AxPxG, ring-N, mesh-DxM, servers-SxM, memory-NxS) or TOML files; `quincunx sim --show epic-star8` or `--show star-16` prints one to start from,
`quincunx sim --show packet` the keys of a kind of file (packet, memory, mesh, memory-mesh, servers, jobs), `quincunx sim --show epic-3` the parameters of a design.
Vectors of up to 1 MiB hold numbers, and every result is checked; of longer ones only the lengths travel.
Columns: as nccl-tests has them, and netbw: the bytes that crossed the busiest link of a rank over the time, because busbw counts what a host
algorithm would move. Below a row: frames that were lost and sent again, if there were some; without loss there are none.
--design auto lists every candidate: its time, the most bytes on a link from a rank (up) and to one (down), and the verdict."
)]
pub(crate) struct Sim {
    #[command(subcommand)]
    other: Option<Other>,
    /// all_reduce, reduce, broadcast, barrier, reduce_scatter, all_gather, dispatch or combine
    #[arg(required_unless_present = "show")]
    collective: Option<Collective>,
    /// A preset, a shape or a file
    #[arg(long, default_value = "epic-star8")]
    fabric: String,
    /// Designs, several with commas; auto: the fastest of those that change no result
    #[arg(long, value_delimiter = ',', default_value = "epic-3")]
    design: Vec<String>,
    /// One size, or first:last:factor, 4K is 4KiB; a dispatch or combine has the fabric's `tokens` instead [default: 1MiB]
    #[arg(long, visible_alias = "sizes")]
    size: Option<SizeRange>,
    /// f32, f16, bf16, i32, f64, i64, u64, u32, i16, i8, u8, e4m3 or e5m2 (8-bit floats); mxfp8 or nvfp4: blocks
    /// that share a scale, in tiles of 1024 or 64 bytes
    #[arg(long, default_value = "f32")]
    dtype: DataType,
    /// sum, min, max or prod; band, bor or bxor of integers [default: sum]
    #[arg(long)]
    op: Option<ReduceOp>,
    /// The root of reduce and broadcast [default: 0]
    #[arg(long)]
    root: Option<u16>,
    /// Set a key of the scenario, or a parameter of the designs: link.rate=200Gbit/s, group.selective=false
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Which host each rank is on: packed, spread over switches, random:SEED, or hosts such as 0-56:8,1-57:8; short for --set placement
    #[arg(long)]
    placement: Option<RankPlacement>,
    /// Lose frames on the links of all hosts: 5%, or 5%@3 for the first three; on fabrics of packets, for nothing is lost on those of memory
    #[arg(long, value_name = "RATE[@LINKS]")]
    loss: Option<String>,
    /// Let all hosts send to each other meanwhile: uniform, neighbor or hotspot, and how much of their links they take
    #[arg(long, value_name = "PATTERN:LOAD")]
    background: Option<Offered>,
    #[command(flatten)]
    seed_options: SeedOptions,
    #[command(flatten)]
    output_options: OutputOptions,
    /// Add each link's utilisation over time to the JSON, in up to 64 bins; `quincunx report` draws it
    #[arg(long, requires = "json", conflicts_with = "seeds")]
    utilisation: bool,
    #[command(flatten)]
    printed: Printed,
    /// Print the settings in force first, as keys of a file; the JSON has them anyway
    #[arg(long)]
    settings: bool,
    /// Print a preset, a shape or a file as a file of a fabric, the keys of a kind of file or the parameters of a design, and simulate nothing
    #[arg(long, value_name = "PRESET|SHAPE|FILE|KIND|DESIGN", exclusive = true)]
    show: Option<String>,
}

impl Sim {
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        match self.other {
            Some(Other::Jobs(jobs)) => return jobs.run(catalog, fallback),
            Some(Other::Traffic(traffic)) => return traffic.run(catalog),
            Some(Other::Train(train)) => return train.run(catalog),
            Some(Other::Chakra(chakra)) => return chakra.run(catalog, fallback),
            Some(Other::Layer(layer)) => return layer.run(catalog),
            Some(Other::Cluster(cluster)) => return cluster.run(catalog),
            None => {}
        }
        if let Some(name) = &self.show {
            return show(catalog, name);
        }
        let Some(collective) = self.collective else {
            return Err(Failure::Input(
                "expected a collective, found none; name one, such as all_reduce".into(),
            ));
        };
        let scenario =
            Scenario::find(&self.fabric, &self.changes(catalog)?, catalog).map_err(Failure::input)?;
        let collective_options = CollectiveOptions {
            root: self.root,
            op: self.op.map(Into::into),
            sizes: self.size,
            data_type: self.dtype,
        };
        let collective = collective_options.collective(collective, scenario.ranks())?;
        if self.size.is_some() && scenario.workload.is_some() {
            return Err(Failure::Input(format!(
                "expected no --size with {}, whose tokens say it, found one; set tokens, or leave it out",
                collective.name()
            )));
        }
        let sizes: Vec<ByteCount> = match (&scenario.workload, collective) {
            (Some(batch), _) => vec![batch.bytes()],
            (_, Collective::Barrier) => vec![ByteCount::new(0)],
            _ => collective_options.sizes("1MiB")?,
        };
        let is_choice = self.design == [AUTO];
        if !is_choice && self.design.iter().any(|design| design == AUTO) {
            return Err(Failure::Input(format!(
                "expected designs, or {AUTO} alone, found \"{}\"; {AUTO} tries every design that changes no result",
                self.design.join(",")
            )));
        }
        let rows: Vec<Vec<&'static dyn AnyDesign>> = if is_choice {
            vec![candidates(catalog, &scenario)]
        } else {
            let find = |name: &String| Ok(vec![scenario.design(catalog, name).map_err(Failure::input)?]);
            self.design.iter().map(find).collect::<Result<_, Failure>>()?
        };
        for design in rows.concat().into_iter().filter(|_| !is_choice) {
            let offered = design.collectives(scenario.kind());
            // One that does not run here at all says so itself.
            if !offered.is_empty() && !design.about().offers(collective, scenario.kind()) {
                let offered: Vec<_> = offered.iter().map(|one| one.name()).collect();
                return Err(Failure::Input(format!(
                    "expected a collective that {} offers on {} ({}), found {}; name one of them, or another design or fabric",
                    design.name(),
                    self.fabric,
                    offered.join(", "),
                    collective.name()
                )));
            }
        }
        scenario.refuse_unused(&rows.concat()).map_err(Failure::input)?;
        scenario.refuse_training().map_err(Failure::input)?;
        let settings = SettingsInForce::of(&scenario, rows.concat())?;
        let rows: Vec<_> =
            rows.iter().flat_map(|designs| sizes.iter().map(move |&size| (designs, size))).collect();
        let runs: usize = rows.iter().map(|(designs, _)| designs.len()).sum();
        let SeedOptions { seed, seeds } = self.seed_options;
        self.output_options.refuse_several("one design, one size and one seed", runs as u64 * seeds)?;
        let mut cases = Vec::new();
        for (designs, size) in rows {
            let request = Request {
                scenario: scenario.clone(),
                design: designs[0],
                collective,
                reduction: Reduction { op: self.op.unwrap_or(ReduceOp::Sum), data_type: self.dtype },
                size,
                contents: Contents::on(&scenario, size),
                background: self.background,
                seed,
            };
            cases.push(Case {
                request,
                designs: designs.clone(),
                seeds,
                over_time: self.utilisation,
                outputs: self.output_options.open()?,
            });
        }
        let (stop, rows) = (interrupt::flag()?, cases.len());
        let width = Columns::width(cases.iter().flat_map(Case::names));
        if !self.printed.is_for_programs() {
            if self.settings {
                say!("{settings}");
            }
            for design in inexact(&cases) {
                say!("# {}: {}", design.name(), rounding(design));
            }
            say!("{}", Columns::header(width));
            if is_choice {
                say!("{}", candidates_header());
            }
        }
        let simulated = simulate(cases, width, &stop, |line| {
            if !self.printed.is_for_programs() {
                say!("{line}");
            }
        })?;
        if self.printed.is_for_programs() {
            let mut object = envelope("sim", &simulated.rows);
            object["settings"] = settings.to_json();
            if !simulated.refused().is_empty() {
                object["refused"] = simulated.refused().into();
            }
            self.printed.print(&object);
        }
        simulated.check(rows)
    }

    /// What is to be set: `--loss` is short for two keys.
    fn changes(&self, catalog: Catalog) -> Result<Vec<Override>, Failure> {
        let mut changes = self.set.clone();
        changes.extend(self.placement.as_ref().map(placement_override));
        if let Some(loss) = &self.loss {
            let scenario = Scenario::find(&self.fabric, &changes, catalog).map_err(Failure::input)?;
            if scenario.fabric.packet_link().is_none() {
                return Err(Failure::Input(format!(
                    "expected a fabric of packets for --loss, found {}; on a memory fabric nothing is lost: leave it out",
                    self.fabric
                )));
            }
            let all = scenario.ranks().to_string();
            let (rate, links) = loss.split_once('@').unwrap_or((loss, &all));
            for (key, value) in [("loss.probability", rate), ("loss.links", links)] {
                changes.push(format!("{key}={value}").parse().map_err(Failure::input)?);
            }
        }
        Ok(changes)
    }
}

/// What `auto` chooses from: the designs of the fabric's kind that leave what a collective is to leave.
fn candidates(catalog: Catalog, scenario: &Scenario) -> Vec<&'static dyn AnyDesign> {
    let kind = scenario.kind();
    catalog.choices(kind).filter(|design| design.about().is_exact && design.about().offers_any()).collect()
}

/// The designs of the cases whose results are not those of the vectors' own values, each once.
fn inexact(cases: &[Case]) -> Vec<&'static dyn AnyDesign> {
    let mut found: Vec<&'static dyn AnyDesign> = Vec::new();
    for &design in cases.iter().flat_map(|case| &case.designs) {
        if !design.about().is_exact && !found.iter().any(|other| other.name() == design.name()) {
            found.push(design);
        }
    }
    found
}

/// What a design makes of numbers.
fn rounding(design: &dyn AnyDesign) -> &'static str {
    match design.smallest_plan().map(|plan| plan.form) {
        Ok(Form::FixedPoint) => {
            "values of f32 are added up in fixed point, and their results are rounded; others are exact"
        }
        _ => {
            "values cross links as codes of fewer bytes, and results are rounded; algbw and busbw count the vector's own"
        }
    }
}

/// What may be given as `--design`.
pub(crate) fn designs(catalog: Catalog) -> String {
    let kinds = [
        ("on trees", FabricKind::Tree),
        ("on memory", FabricKind::Memory),
        ("on a mesh", FabricKind::Mesh),
        ("on servers", FabricKind::Servers),
    ];
    let on = |(place, kind)| {
        let designs = catalog.choices(kind).filter(|design| design.about().offers_any());
        let names: Vec<&str> = designs.map(|design| design.name()).collect();
        format!("{} {place}", names.join(", "))
    };
    let all: Vec<String> = kinds.into_iter().map(on).collect();
    format!(
        "{}; several with commas. {AUTO}: the fastest of them, and why; those that change the result are left out",
        all.join("; ")
    )
}

/// Prints a preset, a shape or a file as a file of a fabric, the keys of a kind of file, or the parameters of a design on each kind of fabric that it has them on.
fn show(catalog: Catalog, name: &str) -> Result<(), Failure> {
    if let Ok(text) = Scenario::preset(name) {
        crate::out::print(&text);
        return Ok(());
    }
    if let Some(text) = Scenario::shape(name) {
        crate::out::print(&text);
        return Ok(());
    }
    if name.contains(['/', '.']) {
        // What is wrong with a file is said in its place.
        Scenario::find(name, &[], catalog).map_err(Failure::input)?;
        let text = read_text(name).map_err(|error| {
            Failure::Input(format!(
                "expected to read {name}, found \"{error}\"; look at the path and its permissions"
            ))
        })?;
        crate::out::print(&text);
        return Ok(());
    }
    if let Some(keys) = Key::of(name) {
        let width = |of: fn(&Key) -> usize| keys.iter().map(of).max().unwrap_or_default();
        let (paths, values) = (width(|one| one.key.len()), width(|one| one.value.len()));
        let defaults = width(|one| one.default.len());
        for Key { key, value, default, help } in &keys {
            say!("{key:paths$}  {value:values$}  {default:defaults$}  {help}");
        }
        return Ok(());
    }
    let mut tables: Vec<Vec<Parameter>> = Vec::new();
    for design in catalog.iter().filter(|design| design.name() == name) {
        let on = |(fabric, _): &(FabricKind, _)| design.defaults_on(*fabric).describe(&design.help());
        tables.extend(design.about().offers.iter().map(on));
    }
    tables.dedup();
    if tables.is_empty() {
        return Err(Failure::Input(format!(
            "expected a preset ({}), a shape ({}), a kind of file ({}) or a design ({}), found \"{name}\"; name one of them",
            Scenario::presets().join(", "),
            NetworkName::KNOWN,
            Key::files().join(", "),
            catalog.names().join(", ")
        )));
    }
    for table in tables {
        let width = |of: fn(&Parameter) -> usize| table.iter().map(of).max().unwrap_or_default();
        let (keys, values) = (width(|one| one.key.len()), width(|one| one.default.len()));
        for Parameter { key, default, help } in &table {
            say!("{key:keys$}  {default:values$}  {help}");
        }
    }
    Ok(())
}
