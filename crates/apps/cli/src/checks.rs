//! What `quincunx check` is asked to explore: arguments as the checker wants them, and help made from the designs and studies that there
//! are.

use clap::{Args, Command};
use quincunx_check::{Arguments, MOST_GROUPS, STUDIES, Subject, names_of_designs, studies_summary};
use quincunx_design::Catalog;
use quincunx_scenario::Override;

use crate::Failure;

/// What is explored.
#[derive(Args)]
pub(crate) struct Target {
    /// A design, or a study
    pub(crate) design: String,
    /// A collective that the design offers, several with commas in sequence, or what the study takes
    pub(crate) collective: String,
    /// star-N, tree-X-Y, tree-AxB, ring-N or mesh-DxM, memory-N or memory-NxS for N accelerators around one or S switches, a preset or a
    /// scenario's file; studies have networks of their own [default: tree-3-2; of a design on meshes mesh-2x2, of one on memory fabrics
    /// alone memory-2]
    #[arg(long, visible_alias = "fabric")]
    tree: Option<String>,
    /// Packets of data from each sender; a design may send others before them [default: two windows and one, so that slots are
    /// used again; on a mesh 2; of studies 3 or 2; on a memory fabric 2, or two waves and one]
    #[arg(long)]
    packets: Option<u32>,
    /// On a mesh: ranks that send anything of their own, in whole domains; the others relay [default: the first domain; of those that dispatch
    /// tokens any number, 1]
    #[arg(long)]
    senders: Option<u16>,
    /// Of designs that relay: relaying takes its time, until nothing else is on its way or as an early time-out
    #[arg(long)]
    slow: bool,
    /// Packets that a rank may have in flight; short for --set group.window [default: 2, or what a file says]. On a memory fabric packets
    /// of each virtual channel that a link has buffers for [default: they never run out, and credits are not explored]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// How often in sequence
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    times: u8,
    /// Of locks: how often a group that is refused asks again, before it runs among its hosts
    #[arg(long, default_value_t = 0)]
    tries: u8,
    /// How many groups of all ranks do that, side by side
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=MOST_GROUPS as i64))]
    pub(crate) groups: u8,
    /// How many of those in sequence a rank starts before the first of them has ended
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    in_flight: u8,
    /// Each rank of a design's group begins when it likes, not at once: what others send reaches some before
    #[arg(long)]
    late_start: bool,
    /// The root of reduce and broadcast; one for each in sequence, with commas [default: 0]
    #[arg(long, value_delimiter = ',', value_name = "RANK")]
    root: Vec<u16>,
    /// Break a rule of the protocol
    #[arg(long, value_name = "NAME")]
    pub(crate) mutate: Option<String>,
    /// Have the last rank ask for something else than the others (collective, type, operation, root or length), or never ask (absence)
    #[arg(long, value_name = "WHAT")]
    pub(crate) disagree: Option<String>,
    /// Of the studies of earlier systems: which of their rules [default: the system's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// Set a parameter of the design, such as group.message=2; packets of 4 bytes, messages of one packet and no end of retries
    /// are the checker's defaults
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
}

impl Target {
    /// What is to be explored.
    pub(crate) fn find(&self, catalog: Catalog) -> Result<Subject, Failure> {
        let arguments = Arguments {
            tree: self.tree.clone(),
            packets: self.packets,
            senders: self.senders,
            slow: self.slow,
            window: self.window,
            times: self.times,
            tries: self.tries,
            groups: self.groups,
            in_flight: self.in_flight,
            late_start: self.late_start,
            roots: self.root.clone(),
            mutate: self.mutate.clone(),
            disagree: self.disagree.clone(),
            rule: self.rule.clone(),
            set: self.set.clone(),
        };
        Subject::find(catalog, &self.design, &self.collective, &arguments).map_err(Failure::input)
    }
}

const EXAMPLES: &str = "Examples:
  quincunx check epic-3 all_reduce                       five packets, one loss
  quincunx check epic-2 broadcast --reorder --duplicate  and one frame may be late, and one may come twice
  quincunx check epic-3 all_reduce --times 2 --packets 1  two in sequence on one group
  quincunx check epic-2 reduce,broadcast --root 2,0 --packets 1 --late-start
                                                         different ones in sequence, whose roots differ
  quincunx check epic-2 all_gather --tree star-2 --packets 1 --times 2 --in-flight 2
                                                         two in sequence, and both under way at once
  quincunx check epic-2 all_reduce --tree star-2 --packets 1 --groups 2
                                                         two groups at one switch; and one that mixes them up:
  quincunx check epic-2 all_reduce --tree star-2 --packets 1 --groups 2 --mutate finds-groups-by-port
  quincunx check epic-3 all_reduce --tree star-2 --set group.message=2 --set group.selective=false
                                                         with other parameters of the design
  quincunx check ring all_reduce --tree ring-3           hosts alone
  quincunx check epic-2 broadcast --packets 1 --set group.retry_count=0
                                                         senders give up: the group ends with an error everywhere
  quincunx check epic-3 reduce --mutate mode-ii-recycling
                                                         break a rule, and see a short way to the fault
  quincunx check epic-2 broadcast --tree star-3 --packets 1 --disagree root
                                                         one rank asks for another root: nobody may be told of a result
  quincunx check epic-2 all_reduce --tree star-2 --duplicate --mutate no-duplicate-check --trace fault.pftrace
                                                         and see it in Perfetto
  quincunx check epic-3 all_reduce --tree star-2 --clock
                                                         and time passes, once, at any moment
  quincunx check ring all_reduce --tree ring-2 --packets 1 --set group.dcqcn=1Gbit/s --marks
                                                         and a congested link marks a frame
  quincunx check multiwrite dispatch --packets 2         tokens to experts, over a relay
  quincunx check scin all_reduce --tree star-3           accelerators around a switch that reads, adds and writes
  quincunx check ring all_gather --tree memory-3 --times 2
                                                         accelerators alone, each after the other twice
  quincunx check nvls all_reduce --packets 1 --window 1 --mutate answers-load-early
                                                         with one buffer a channel, and a rule broken
  quincunx check roce send --times 2 --reorder           the queue pair alone: two messages of three packets, go-back-N
  quincunx check multiwrite write --tree ring-4 --reorder
                                                         two ranks write to all others, over relays
  quincunx check switchml-rules all_reduce --window 1 --reorder
                                                         what an earlier system's rule admits
  quincunx check switchml-rules all_reduce --window 1 --reorder --rule chunk-numbers
                                                         and what repairs it
  quincunx check netreduce all_reduce --tree star-2 --packets 3 --mutate fifth-message
                                                         a message more under way than the switch has columns";

const LIMITS: &str = "Explored are the engines that run on real sockets; the rules of earlier systems are written for this alone. Nothing is sampled:
`correct` means that every run within the limits gives every rank the right elements of the right ranks, once each, and ends;
`never-mattered` that nobody answers otherwise than without the rule that --mutate breaks. The limits: as many losses, late frames, copies, marks, early time-outs and moves of the clock as are asked for; all other frames keep
 their order on each link (on a memory fabric those of each virtual channel, and nothing is lost), but for those of two groups, and time-outs expire when nothing else is on its way. The clock stands still, but with `--clock`: then it moves on
 by more than any time-out. With a finite group.retry_count senders give up: then
 `correct` means that whoever is not given its result is told that the group has failed, and that nobody waits for ever or sends any more; the
 manager takes part, which ends a group that a node reports as failed at every other node, at any later time. Nodes send as soon as they may; `--full` explores when they
do not, too, and leaves the other reductions out: try it on tree-2-2. With --disagree `correct` means that no rank is ever told of a result;
ranks may fail or wait for ever, which the control plane ends. A rank whose process is stopped and goes on is one whose frames are late, while the others'
time-outs come early: `--reorder` with `--early-timeouts` explores it.
Exit status 1: a fault was found, a broken rule never mattered, or memory did not suffice.";

/// The command with what the catalog and the studies say of themselves in its help.
pub(crate) fn with_help(command: Command, catalog: Catalog) -> Command {
    let mut names = names_of_designs(catalog);
    names.extend(STUDIES.iter().map(|study| study.name()).filter(|name| catalog.named(name).is_err()));
    let (designs, memory) = (catalog.summary(), catalog.memory_summary());
    let (studies, rules) = (studies_summary(), rules(catalog));
    let help = format!(
        "{EXAMPLES}\n\nDesigns:\n{designs}\n\nDesigns on memory fabrics:\n{memory}\n\nStudies, which are no designs:\n{studies}\n\n\
         Rules of designs that --mutate breaks:\n{rules}\nof switches with --groups 2: finds-groups-by-port, lock-ignored; where senders give up: stays-when-removed\n\n{LIMITS}"
    );
    crate::help::with_help(command, "design", &names.join(", ")).after_help(help)
}

/// The rules that can be broken, those of designs that have the same ones together.
fn rules(catalog: Catalog) -> String {
    let mut sets: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    let all = catalog.iter().flat_map(|design| {
        let about = design.about();
        about.offers.iter().map(|(fabric, _)| (about.name, (about.model.mutations)(*fabric)))
    });
    for (name, rules) in all {
        match sets.iter_mut().find(|(_, known)| *known == rules) {
            Some((names, _)) if names.contains(&name) => {}
            Some((names, _)) => names.push(name),
            None => sets.push((vec![name], rules)),
        }
    }
    sets.retain(|(_, rules)| !rules.is_empty());
    let line =
        |(names, rules): &(Vec<&str>, Vec<&str>)| format!("{}: {}", names.join(", "), rules.join(", "));
    sets.iter().map(line).collect::<Vec<_>>().join("\n")
}
