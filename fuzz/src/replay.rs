//! Puts a committed corpus through a check on stable Rust.

use std::path::{Path, PathBuf};

/// The folder of a target's seeds.
pub fn corpus(target: &str) -> PathBuf {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("fuzz/corpus"));
    let fuzz = fuzz.into_iter().find(|folder| folder.is_dir()).expect("the repository's fuzz/corpus");
    fuzz.join(target)
}

/// Puts every seed of `target` through `check`.
pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let folder = corpus(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut replayed = 0;
    for entry in entries {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        check(&std::fs::read(&path).expect("a seed"));
        replayed += 1;
    }
    assert!(replayed > 0, "{} is empty", folder.display());
}
