//! `quincunx demo`: the main job, in one command.

use clap::Args;
use quincunx_collective::Collective;
use quincunx_fabric::TreeShape;
use quincunx_perf::launch::{ChildArguments, Fabric, LinkKind};
use quincunx_perf::{Case, Plan, Setup};

use crate::Failure;
use crate::progress::run_with_bar;

/// Three switches, eight ranks.
const TREE: &str = "tree-2x4";
const RANKS: u16 = 8;
const DESIGNS: [&str; 4] = ["epic-1", "epic-2", "epic-3", "ring"];
const BYTES: u64 = 1 << 20;

/// Bytes of payload in a full packet: RoCE's largest.
const PAYLOAD: u64 = 4096;

/// `quincunx demo`.
#[derive(Args)]
pub(crate) struct Demo {}

impl Demo {
    #[expect(clippy::unused_self, reason = "a command like the others")]
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shape: TreeShape = TREE.parse().map_err(Failure::input)?;
        let cases: Vec<Case> = DESIGNS
            .into_iter()
            .flat_map(|design| Collective::ALL.into_iter().map(move |collective| case(design, collective)))
            .collect();
        let setup = Setup {
            ranks: RANKS,
            switches: shape.switches(),
            tree: TREE.into(),
            mtu: PAYLOAD,
            message: Setup::message_for(PAYLOAD),
            window: Setup::WINDOW,
            reproducible: false,
            limit_seconds: 60,
        };
        let plan = Plan { setup, cases };
        println!(
            "A manager, {} switches ({TREE}) and {RANKS} ranks, each a process, exchange RoCEv2 frames on loopback.",
            shape.switches()
        );
        println!("Every result is compared with the reference, to the bit.\n");
        let program = std::env::current_exe().map_err(Failure::input)?;
        let mut fabric = Fabric::start(&shape, LinkKind::Udp, &program, ChildArguments::default(), None)
            .map_err(Failure::input)?;
        let wrong = run_with_bar(&mut fabric, &plan, None).map_err(Failure::input)?;
        if wrong > 0 {
            return Err(Failure::Wrong(format!("expected right results, found {wrong} wrong elements")));
        }
        println!("\n{0} of {0} runs right at every rank.", plan.cases.len());
        Ok(())
    }
}

fn case(design: &str, collective: Collective) -> Case {
    Case {
        design: design.into(),
        collective: collective.name().into(),
        root: 0,
        bytes: BYTES,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 20,
        warm_up: 3,
    }
}
