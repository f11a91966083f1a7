//! Sub-layers that have been run, kept by all that decides what they give: for as long as the program runs, and from one run of it to the next in
//! a folder, if there is one.
//!
//! A file there has the whole description of its run, which is compared, and lies in a folder of the program's own: another build of the program
//! may simulate something else and sees none of it. What cannot be read or written is run again.

use super::run::{KernelSpan, LayerError, LayerOutcome, LayerRun, run_sampled};
use crate::progress::ProgressFn;
use quincunx_collective::{LengthOnly, Payload};
use quincunx_driver_des::BusyOverTime;
use quincunx_units::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sub-layers that have been run, by all that decides what they give: models and figures have many of them in common.
#[derive(Debug, Default)]
pub struct Remembered {
    outcomes: Mutex<BTreeMap<String, LayerOutcome<LengthOnly>>>,
    folder: Option<PathBuf>,
    ran: AtomicUsize,
}

impl Remembered {
    /// With those that earlier runs of `program` have left in `folder`, where those of this one are left, too. What other builds of it have left
    /// there goes: nobody would read it any more.
    pub fn in_folder(folder: &Path, program: &Path) -> Self {
        let bytes = fs::read(program).unwrap_or_default();
        let mine = folder.join(format!("{:016x}", hash(&bytes)));
        for other in fs::read_dir(folder).into_iter().flatten().flatten() {
            if other.path() != mine {
                let _ = fs::remove_dir_all(other.path());
            }
        }
        // Without its bytes nothing says which program it is.
        Self { folder: (!bytes.is_empty()).then_some(mine), ..Self::default() }
    }

    /// What a run gives, run once. Two that want the same at the same time may both run it.
    ///
    /// # Errors
    /// If it does not end.
    ///
    /// # Panics
    /// If another has.
    pub fn run(
        &self,
        run: &LayerRun<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<LayerOutcome<LengthOnly>, LayerError> {
        let LayerRun { fabric, setup, planes, layer, schedule, unit, seed } = run;
        let unit = unit.as_ref().map(|(design, settings)| (design.name(), settings));
        let key = format!("{:?}", (fabric, setup, planes, layer, schedule.name(), unit, seed));
        let all = || self.outcomes.lock().expect("nobody panics with it");
        if let Some(outcome) = all().get(&key) {
            return Ok(outcome.clone());
        }
        let file = self.folder.as_ref().map(|folder| folder.join(format!("{:016x}.toml", hash(&key))));
        let outcome = match file.as_deref().and_then(|file| read(file, &key)) {
            Some(outcome) => outcome,
            None => {
                let outcome = run_sampled(run, None, progress)?;
                self.ran.fetch_add(1, Ordering::Relaxed);
                if let Some(file) = file {
                    // Whoever cannot keep it runs it again.
                    let _ = write(&file, &key, &outcome);
                }
                outcome
            }
        };
        all().insert(key, outcome.clone());
        Ok(outcome)
    }

    /// Sub-layers that are here.
    ///
    /// # Panics
    /// If a run has.
    pub fn count(&self) -> usize {
        self.outcomes.lock().expect("nobody panics with it").len()
    }

    /// Those of them that were run here, and not read.
    pub fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }
}

fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A file: what was run, and what it gave. Times are in picoseconds.
#[derive(Serialize, Deserialize)]
struct Kept {
    run: String,
    time: u64,
    sm_utilisation: f64,
    link_utilisation: f64,
    directions: [f64; 2],
    bin: u64,
    busy: Vec<Vec<f64>>,
    kernels: Vec<(String, u16, u64, u64)>,
    packets: u64,
    steps: u64,
    drops: u64,
    counted: BTreeMap<String, (u64, u64)>,
    memories: Vec<usize>,
}

fn read(file: &Path, key: &str) -> Option<LayerOutcome<LengthOnly>> {
    let kept: Kept = toml::from_str(&fs::read_to_string(file).ok()?).ok()?;
    let span = |(name, rank, from, to)| KernelSpan {
        name,
        rank,
        from: Duration::from_picos(from),
        to: Duration::from_picos(to),
    };
    (kept.run == key).then(|| LayerOutcome {
        time: Duration::from_picos(kept.time),
        sm_utilisation: kept.sm_utilisation,
        link_utilisation: kept.link_utilisation,
        directions: kept.directions,
        busy_over_time: BusyOverTime { bin: Duration::from_picos(kept.bin), directions: kept.busy },
        over_time: None,
        kernels: kept.kernels.into_iter().map(span).collect(),
        packets: kept.packets,
        steps: kept.steps,
        drops: kept.drops,
        counted: kept.counted,
        memories: kept.memories.into_iter().map(LengthOnly::new).collect(),
    })
}

/// Under another name first: nobody sees half a file.
fn write(file: &Path, key: &str, outcome: &LayerOutcome<LengthOnly>) -> std::io::Result<()> {
    let span = |KernelSpan { name, rank, from, to }: &KernelSpan| {
        (name.clone(), *rank, from.as_picos(), to.as_picos())
    };
    let kept = Kept {
        run: key.to_owned(),
        time: outcome.time.as_picos(),
        sm_utilisation: outcome.sm_utilisation,
        link_utilisation: outcome.link_utilisation,
        directions: outcome.directions,
        bin: outcome.busy_over_time.bin.as_picos(),
        busy: outcome.busy_over_time.directions.clone(),
        kernels: outcome.kernels.iter().map(span).collect(),
        packets: outcome.packets,
        steps: outcome.steps,
        drops: outcome.drops,
        counted: outcome.counted.clone(),
        memories: outcome.memories.iter().map(Payload::length).collect(),
    };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let half = file.with_extension(format!("{}.half", std::process::id()));
    fs::write(&half, toml::to_string(&kept).map_err(std::io::Error::other)?)?;
    fs::rename(half, file)
}
