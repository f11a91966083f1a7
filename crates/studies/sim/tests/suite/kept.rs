//! Layers that an earlier run has kept on disk: the same to the bit, and only for whom they were kept.

use crate::layers::{LAYER, scenario, with_run};
use quincunx_collective::LengthOnly;
use quincunx_schedules::find;
use quincunx_sim::ignore_progress;
use quincunx_sim::layer::{LayerOutcome, Remembered};
use std::fs;
use std::path::{Path, PathBuf};

/// A program and a folder for what it keeps; gone with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let place = Self(std::env::temp_dir().join(format!("quincunx-kept-{name}-{}", std::process::id())));
        fs::create_dir_all(place.folder()).unwrap();
        place.build("a program");
        place
    }

    fn folder(&self) -> PathBuf {
        self.0.join("layers")
    }

    fn build(&self, program: &str) {
        fs::write(self.0.join("program"), program).unwrap();
    }

    fn open(&self) -> Remembered {
        Remembered::in_folder(&self.folder(), &self.0.join("program"))
    }

    /// Files in the folder of the one build that has one.
    fn files(&self) -> Vec<PathBuf> {
        let inside = |folder: &Path| {
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        inside(&self.folder()).iter().flat_map(|build| inside(build)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A small layer by CAIS, and whether it was run for it.
fn run(remembered: &Remembered, seed: u64) -> (LayerOutcome<LengthOnly>, bool) {
    let before = remembered.ran();
    let outcome = with_run(find("cais").unwrap(), &scenario(&[]), LAYER, seed, |run| {
        remembered.run(run, &mut ignore_progress).unwrap()
    });
    (outcome, remembered.ran() > before)
}

#[test]
fn a_later_run_finds_what_an_earlier_one_gave_to_the_bit() {
    let place = Place::new("later");
    let (first, ran) = run(&place.open(), 1);
    assert!(ran);
    assert_eq!(run(&place.open(), 1), (first, false));
}

#[test]
fn another_seed_is_another_run() {
    let place = Place::new("seed");
    run(&place.open(), 1);
    assert!(run(&place.open(), 2).1);
    assert_eq!(place.files().len(), 2);
}

#[test]
fn another_build_of_the_program_takes_nothing_of_it_and_leaves_nothing_of_it() {
    let place = Place::new("build");
    run(&place.open(), 1);
    place.build("another program");
    assert!(run(&place.open(), 1).1);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_damaged_file_or_one_of_another_run_is_run_again() {
    let place = Place::new("damaged");
    let (first, _) = run(&place.open(), 1);
    let file = &place.files()[0];
    let text = fs::read_to_string(file).unwrap();
    for damaged in [&text[..text.len() / 2], "", &text.replace("\"cais\"", "\"t3\"")] {
        assert_ne!(damaged, text);
        fs::write(file, damaged).unwrap();
        assert_eq!(run(&place.open(), 1), (first.clone(), true));
    }
}

#[test]
fn whoever_cannot_write_runs_all_the_same() {
    let place = Place::new("full");
    fs::remove_dir_all(place.folder()).unwrap();
    fs::write(place.folder(), "a file where the folder should be").unwrap();
    assert!(run(&place.open(), 1).1);
}
