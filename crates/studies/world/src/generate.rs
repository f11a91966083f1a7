//! From a seed to a plan. Sizes, jobs, weather and faults are drawn apart, so that each may be crossed with any other.

use crate::plan::{Difference, Fault, FaultKind, JobPlan, Mistake, Moment, Plan, StoreKind, Weather};
use crate::settings;
use quincunx_collective::{Collective, SplitMix64};
use quincunx_design::{Catalog, FabricKind, Placement};
use quincunx_fabric::{IncTree, TreeShape};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::Framing;
use std::collections::BTreeMap;

/// For how long faults happen, unless somebody says otherwise.
pub const USUAL: Duration = Duration::from_secs(20);

/// Packets that the ranks of a job send in a round, at most: more of the same finds nothing more, and a round that
/// has many is not repeated at once.
const LONGEST: u64 = 600;

struct Draws(SplitMix64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.draw() % limit.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn hits(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn time(&mut self, from: Duration, to: Duration) -> Duration {
        Duration::from_millis(self.between(millis(from), millis(to)))
    }
}

fn millis(time: Duration) -> u64 {
    time.as_nanos() / 1_000_000
}

/// Designs that jobs may ask for: on a tree, above queue pairs, in frames as all nodes have them. Those that need switches come first, and how
/// many they are.
pub fn designs(catalog: Catalog) -> (Vec<&'static str>, usize) {
    let (mut in_switches, mut among_hosts) = (Vec::new(), Vec::new());
    for design in catalog.above_queue_pairs() {
        let about = design.about();
        let adds = design.collectives(FabricKind::Tree).contains(&Collective::AllReduce);
        let Ok(plan) = design.smallest_plan() else { continue };
        if about.framing == Framing::RoceV2 && adds && about.is_exact {
            match plan.switches.is_empty() {
                true => among_hosts.push(design.name()),
                false => in_switches.push(design.name()),
            }
        }
    }
    let count = in_switches.len();
    in_switches.extend(among_hosts);
    (in_switches, count)
}

/// The plan of a seed, with faults for so long.
pub fn generate(seed: u64, lasts: Duration, catalog: Catalog) -> Plan {
    let mut draws = Draws(SplitMix64::new(seed ^ 0x005e_ed0f_a11f_a017));
    let leaves = draws.between(1, 3);
    let hosts: Vec<u16> = (0..leaves).map(|_| draws.between(2, 4) as u16).collect();
    let spines = if leaves == 1 { 0 } else { draws.between(1, 2) as u16 };
    let managers = draws.between(1, 2) as u16;
    let store = if managers == 2 || draws.hits(2) { StoreKind::Lease } else { StoreKind::File };
    let mut jobs = jobs(&mut draws, hosts.iter().sum(), catalog);
    let weather = weather(&mut draws);
    // Drawn apart, so that the plan is the same but for them.
    let mut apart = Draws(SplitMix64::new(seed ^ 0x0005_e771_0065));
    for job in &mut jobs {
        let design = catalog.named(&job.design).expect("it has just been drawn from the catalog");
        job.settings = settings::draw(&mut apart.0, design);
    }
    let mut plan = Plan {
        seed,
        hosts,
        spines,
        managers,
        store,
        memory: ByteCount::new([64 << 10, 256 << 10, 1 << 20][draws.below(3) as usize]),
        jobs,
        weather,
        clocks: BTreeMap::new(),
        faults: Vec::new(),
        calm_at: Duration::from_secs(2) + lasts,
        mutation: None,
    };
    let machines = names(&plan);
    if draws.hits(2) {
        // Up to two in a hundred: more than any clock that ships.
        let skew = |draws: &mut Draws| draws.between(0, 40_000) as i32 - 20_000;
        plan.clocks = machines.iter().map(|name| (name.clone(), skew(&mut draws))).collect();
    }
    let count = match draws.below(8) {
        0 => 0,
        1 | 2 => draws.between(1, 2),
        3..=6 => draws.between(3, 8),
        _ => draws.between(8, 16),
    };
    let count = count * lasts.as_nanos().div_ceil(USUAL.as_nanos());
    for _ in 0..count {
        let last = plan.faults.last().map(|fault: &Fault| fault.at);
        let mut fault = fault(&mut draws, &plan, lasts);
        // Faults meet more often than chance would have them.
        if let Some(last) = last.filter(|_| draws.hits(3)) {
            fault.at = last + draws.time(Duration::ZERO, Duration::from_millis(400));
            fault.lasts = fault.lasts.min(plan.calm_at - fault.at);
        }
        plan.faults.push(fault);
    }
    for fault in &mut plan.faults {
        if matches!(fault.kind, FaultKind::Isolate(_)) && apart.hits(2) {
            fault.kind =
                FaultKind::Part([one_of(&mut apart, &machines, "hsee"), one_of(&mut apart, &machines, "m")]);
        }
    }
    for job in &mut plan.jobs {
        // Without confirmations nothing is promised to who calls something else.
        let is_safe = job.settings.get("group.confirm") != Some(&false.into());
        job.mistake = (is_safe && apart.hits(6)).then(|| Mistake {
            rank: apart.below(job.hosts.len() as u64) as u16,
            one_in: apart.between(1, 4),
            differs_in: Difference::ALL[apart.below(Difference::ALL.len() as u64) as usize],
        });
    }
    for job in &mut plan.jobs {
        let design = catalog.named(&job.design).expect("it has just been drawn from the catalog");
        if settings::tighten(&mut apart.0, design, &mut job.settings) {
            job.elements = 100;
        }
    }
    if apart.hits(4) {
        upgrade(&mut apart, &mut plan, lasts);
    }
    if apart.hits(3) {
        crowd(&mut apart, &mut plan, catalog);
    }
    plan.faults.sort_by_key(|fault| fault.at);
    plan
}

/// Switches have memory for about as much as all jobs take, in parts of different lengths: what is free is in pieces, and is moved together or found
/// too little. For a job alone there is always enough: two groups of it may be there at once, one that ends and one that begins.
fn crowd(draws: &mut Draws, plan: &mut Plan, catalog: Catalog) {
    let (mut most, mut all) = (0, 0);
    for job in &mut plan.jobs {
        let design = catalog.named(&job.design).expect("it has just been drawn from the catalog");
        let window = draws.between(1, 8) as u32;
        if !job.settings.contains_key("group.window") {
            settings::widen(design, &mut job.settings, window);
        }
        let settings = settings::of(design, &job.settings).expect("they have been tried");
        let longest = ByteCount::new(u64::from(job.elements) * 4);
        // At one switch, and at one of two levels.
        let ranks = job.hosts.len().next_multiple_of(2);
        let mut needed = 0;
        for shape in [format!("star-{ranks}"), format!("tree-2x{}", ranks / 2)] {
            let tree = IncTree::from_shape(&shape.parse::<TreeShape>().expect("it is a shape"));
            let placement = Placement::new(ranks as u16, Some(tree), longest);
            if let Ok(plan) = design.plan(&settings, &placement) {
                let memory = plan.switches.iter().map(|part| part.memory.bytes()).max().unwrap_or(0);
                needed = needed.max(memory * u64::from(plan.channels));
            }
        }
        (most, all) = (most.max(needed), all + 2 * needed);
    }
    if most > 0 {
        plan.memory = ByteCount::new((all * draws.between(10, 18) / 16).max(most * 9 / 4));
    }
}

/// Some of the nodes run the program of the version before, until they are upgraded, one after the other.
fn upgrade(draws: &mut Draws, plan: &mut Plan, lasts: Duration) {
    let nodes: Vec<String> = names(plan).into_iter().filter(|name| name.starts_with(['h', 's'])).collect();
    let few = Duration::from_secs(2);
    for _ in 0..draws.between(1, 4) {
        let name = one_of(draws, &nodes, "hss");
        let at = Duration::from_secs(1) + draws.time(Duration::ZERO, lasts);
        let lasts =
            draws.time(Duration::from_millis(50), few).min(plan.calm_at - Duration::from_millis(1) - at);
        let is_first = !plan.faults.iter().any(|fault| fault.kind == FaultKind::Upgrade(name.clone()));
        if is_first {
            plan.faults.push(Fault { at, lasts, kind: FaultKind::Upgrade(name), moment: None });
        }
    }
}

/// All machines.
fn names(plan: &Plan) -> Vec<String> {
    let switches = plan.hosts.len() as u16 + plan.spines;
    let all = [('h', plan.hosts()), ('s', switches), ('m', plan.managers), ('e', 1)];
    all.into_iter()
        .flat_map(|(letter, count)| (0..count).map(move |number| format!("{letter}{number}")))
        .collect()
}

fn jobs(draws: &mut Draws, hosts: u16, catalog: Catalog) -> Vec<JobPlan> {
    let (names, in_switches) = designs(catalog);
    let mut free: Vec<u16> = (0..hosts).collect();
    let mut jobs = Vec::new();
    let wanted = draws.between(1, 3);
    while (jobs.len() as u64) < wanted && free.len() >= 2 {
        let size = draws.between(2, free.len().min(5) as u64) as usize;
        let of_job: Vec<u16> =
            (0..size).map(|_| free.remove(draws.below(free.len() as u64) as usize)).collect();
        let count = if draws.hits(6) { names.len() } else { in_switches };
        let design = names[draws.below(count as u64) as usize].to_owned();
        let elements = [8, 200, 900, 1600][draws.below(4) as usize];
        let collectives = match draws.below(4) {
            0 => draws.between(10, 40),
            _ => draws.between(1, 6),
        };
        let packets = size as u64 * u64::from(1 + elements / 64);
        let collectives = collectives.min(LONGEST / packets).max(1);
        jobs.push(JobPlan {
            tenant: ["blue", "green", "red"][jobs.len()].to_owned(),
            hosts: of_job,
            design,
            elements,
            collectives,
            pause: Duration::from_millis([0, 10, 100, 500][draws.below(4) as usize]),
            think: Duration::from_micros([10, 200, 1000, 5000][draws.below(4) as usize]),
            rest: Duration::from_millis([50, 300, 1000][draws.below(3) as usize])
                .max(Duration::from_millis(collectives * packets)),
            lease: draws.hits(4).then(|| Duration::from_secs(draws.between(3, 9))),
            settings: BTreeMap::new(),
            mistake: None,
        });
    }
    jobs
}

fn weather(draws: &mut Draws) -> Weather {
    // Mostly fair; of a million so many at most.
    let mut some = |most: u64| {
        let share = draws.below(1000).pow(3);
        if draws.hits(2) { (most * share / 1_000_000_000) as u32 } else { 0 }
    };
    Weather { loss: some(80_000), copies: some(80_000), late: some(50_000), corruption: some(30_000) }
}

fn fault(draws: &mut Draws, plan: &Plan, lasts: Duration) -> Fault {
    let start = Duration::from_secs(1);
    let at = start + draws.time(Duration::ZERO, lasts);
    // Most are short; some outlast every time-out.
    let longest = match draws.below(4) {
        0 => Duration::from_millis(100),
        1 => Duration::from_secs(1),
        2 => Duration::from_secs(4),
        _ => Duration::from_secs(18),
    };
    let end =
        (at + draws.time(Duration::from_millis(1), longest)).min(plan.calm_at - Duration::from_millis(1));
    let lasts = if end > at { end - at } else { Duration::from_millis(1) };
    let all = names(plan);
    let of = |draws: &mut Draws, letters: &str| one_of(draws, &all, letters);
    let kind = match draws.below(13) {
        0 | 1 => FaultKind::Cut(link(draws, plan)),
        2 => {
            let mut ends = link(draws, plan);
            if draws.hits(2) {
                ends.reverse();
            }
            FaultKind::Deaf(ends)
        }
        3 => FaultKind::Isolate(of(draws, "hhssme")),
        4 => FaultKind::Mute(of(draws, "hhssme")),
        5 | 6 => FaultKind::Kill(of(draws, "hsssme")),
        7 => FaultKind::PowerOff(of(draws, "hssm")),
        8 | 9 => FaultKind::Pause(of(draws, "hsssme")),
        10 => match draws.below(2) {
            0 => FaultKind::FullStore,
            _ => FaultKind::SlowStore,
        },
        11 => FaultKind::TornWrite { kept: draws.hits(2) },
        _ => FaultKind::Stranger(of(draws, "hs")),
    };
    let waits = !matches!(kind, FaultKind::TornWrite { .. } | FaultKind::Stranger(_)) && draws.hits(2);
    let moment = waits.then(|| Moment::ALL[draws.below(Moment::ALL.len() as u64) as usize]);
    Fault { at, lasts, kind, moment }
}

/// A machine whose name begins with one of these letters.
fn one_of(draws: &mut Draws, names: &[String], letters: &str) -> String {
    let letter = &letters[draws.below(letters.len() as u64) as usize..][..1];
    let fit: Vec<&String> = names.iter().filter(|name| name.starts_with(letter)).collect();
    fit[draws.below(fit.len() as u64) as usize].clone()
}

/// A link of the fabric.
fn link(draws: &mut Draws, plan: &Plan) -> [String; 2] {
    let leaves = plan.hosts.len() as u64;
    if plan.spines > 0 && draws.hits(2) {
        let (leaf, spine) = (draws.below(leaves), leaves + draws.below(u64::from(plan.spines)));
        return [format!("s{leaf}"), format!("s{spine}")];
    }
    let host = draws.below(u64::from(plan.hosts())) as u16;
    let mut below = 0;
    let leaf = plan.hosts.iter().position(|count| {
        below += count;
        host < below
    });
    [format!("h{host}"), format!("s{}", leaf.unwrap_or(0))]
}
