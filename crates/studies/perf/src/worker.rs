//! A rank process: joins a group for each design, runs its cases, and says what it measured, a line of JSON a case.

use quincunx_collective::wrong_elements;
use quincunx_collective::{Collective, Numbers, Payload, Rank as RankNumber};
use quincunx_design::{Catalog, FabricKind};
use quincunx_driver_net::{Profile, Traffic};
use quincunx_runtime::{Finished, JoinedGroup, ProcessOptions, Rank, RuntimeError, encapsulation};
use std::io::Write;
use std::time::Instant;

use crate::error::WorkerError;
use crate::groups::{Groups, Joined};
use crate::job::Job;
use crate::library;
use crate::measured::{Measured, Ways, bytes_below, link_bytes, say, since, times_of};
use crate::plan::{Case, Plan};
use crate::processor::Processors;

/// Runs a plan as one of its ranks, `members[me]`, with the designs of a catalog. Rank 0 makes the groups.
///
/// # Errors
/// The first that any collective meets.
pub fn work(
    catalog: Catalog,
    plan: &Plan,
    options: &ProcessOptions,
    members: &[String],
    out: &mut impl Write,
) -> Result<(), WorkerError> {
    if plan.cases.iter().any(Case::is_for_the_library) {
        return library::work(catalog, plan, options, members, out);
    }
    let mut rank = Rank::attach(catalog, options)?;
    let leads = members.first() == Some(&options.description.name);
    if leads {
        rank.control().wait_for_nodes(members, plan.setup.switches, plan.setup.join)?;
    }
    let mut groups = Groups::new(catalog, plan, members, leads);
    let mut group: Option<(String, Joined)> = None;
    for (index, case) in plan.cases.iter().enumerate() {
        if group.as_ref().is_none_or(|(design, _)| *design != case.design) {
            if let Some((_, old)) = group.take() {
                groups.leave(&mut rank, &old.group)?;
            }
            group = Some((case.design.clone(), groups.join(&mut rank, &case.design)?));
        }
        let Some((_, joined)) = &group else { unreachable!("joined above") };
        let measured = Measured {
            case: index,
            switch_buffer_bytes: Some(joined.switch_buffer),
            split: joined.split,
            fallback: joined.fallback.clone(),
            ..measure(
                &mut rank,
                &joined.group,
                case,
                plan,
                bytes_below(options.description.address, encapsulation(&options.transport)),
            )?
        };
        say(&measured, out)?;
    }
    if let Some((_, old)) = group.take() {
        groups.leave(&mut rank, &old.group)?;
    }
    Ok(())
}

/// Measures a case; around what the node counts of a frame, `below` bytes are on the link.
fn measure(
    rank: &mut Rank,
    group: &JoinedGroup,
    case: &Case,
    plan: &Plan,
    below: u64,
) -> Result<Measured, WorkerError> {
    let job = Job::new(case, group.together())?;
    let drops_before = rank.drops();
    let ways_before = rank.ways(group.id);
    let limit = plan.setup.limit;
    let expected = job.expected(group.rank);
    let data_type = job.reduction.data_type;
    let mut buffers = Finished { input: job.vector(group.rank), output: Numbers::zeroed(job.output) };
    let (mut wrong, mut compared) = (0, 0);
    let mut check = |output: &Numbers| {
        if let Some(expected) = &expected {
            wrong += wrong_elements(expected, output, data_type) as u64;
            compared += (expected.length() / data_type.size()) as u64;
        }
    };
    let once = |rank: &mut Rank, buffers: &mut Finished| {
        let Finished { input, output } =
            std::mem::replace(buffers, Finished { input: Numbers::zeroed(0), output: Numbers::zeroed(0) });
        *buffers = rank.run(group.id, job.collective, job.reduction, input, output, limit)?;
        job.finish(&mut buffers.output);
        let recreations = rank.take_recreations();
        if group.rank == RankNumber(0) {
            // Results go to the standard output: this is for people.
            recreations.iter().for_each(|recreation| eprintln!("{recreation}"));
        }
        Ok::<_, RuntimeError>(())
    };
    for repetition in 0..case.warm_up.max(1) {
        once(rank, &mut buffers)?;
        if repetition == 0 {
            check(&buffers.output);
            buffers.output = Numbers::zeroed(job.output);
        }
    }
    let barrier = |rank: &mut Rank| {
        let nothing = || Numbers::zeroed(0);
        rank.run(group.id, Collective::Barrier, job.reduction, nothing(), nothing(), limit)
    };
    // All start together.
    barrier(rank)?;
    let (before, before_to) = (*rank.statistics(), rank.sent_to().clone());
    let mut times = Vec::with_capacity(case.iterations as usize);
    let processors = Processors::new(&plan.setup.switch_processes);
    let spent = processors.now();
    let start = Instant::now();
    for _ in 0..case.iterations {
        let begun = Instant::now();
        once(rank, &mut buffers)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let repetitions = f64::from(case.iterations.max(1));
    let mean_us = start.elapsed().as_secs_f64() * 1e6 / repetitions;
    let spent = processors.now().since(spent, repetitions);
    let (after, after_to) = (*rank.statistics(), rank.sent_to().clone());
    // Nobody goes on to another group while somebody is not done: it may need this rank to answer, or to relay.
    barrier(rank)?;
    check(&buffers.output);
    let link_bytes = |before: &Traffic, after: &Traffic| link_bytes(before, after, below);
    let [sent, received] = if group.fabric == FabricKind::Mesh {
        let nothing = Traffic::default();
        let links = after_to.iter().map(|(peer, after)| (before_to.get(peer).unwrap_or(&nothing), after));
        [links.map(|(before, after)| link_bytes(before, after)).fold(0.0, f64::max), 0.0]
    } else {
        [link_bytes(&before.sent, &after.sent), link_bytes(&before.received, &after.received)]
    };
    let [median_us, p99_us] = times_of(&mut times);
    Ok(Measured {
        case: 0,
        mean_us,
        median_us,
        p99_us,
        wrong,
        compared,
        ranks: group.together().len() as u16,
        sent_bytes: sent / repetitions,
        received_bytes: received / repetitions,
        cross_server_bytes: None,
        peak_memory_bytes: None,
        split: None,
        fallback: None,
        switch_buffer_bytes: None,
        // Another one, if the group was made anew meanwhile.
        design: rank.group(group.id).unwrap_or(group).design.clone(),
        ways: rank.ways(group.id).zip(ways_before).map(|(after, before)| Ways {
            // A group that was made anew counts from zero.
            tree: after.tree.checked_sub(before.tree).unwrap_or(after.tree),
            hosts: after.hosts.checked_sub(before.hosts).unwrap_or(after.hosts),
        }),
        drops: since(&drops_before, rank.drops()),
        rank_processor_us: spent.own,
        switch_processor_us: spent.switches,
        profile_s: Profile::PHASES.map(|phase| {
            after.profile.spent(phase).as_secs_f64() - before.profile.spent(phase).as_secs_f64()
        }),
    })
}
