//! The studies that there are.

use crate::control::ControlStudy;
use crate::exchange::QueuePairStudy;
use crate::locks::LockStudy;
use crate::prior_systems::PriorSystemStudy;
use crate::relays::RelayStudy;
use crate::study::Study;

/// All studies.
pub static STUDIES: [&dyn Study; 7] = [
    &QueuePairStudy::GO_BACK_N,
    &QueuePairStudy::SELECTIVE,
    &RelayStudy,
    &ControlStudy,
    &LockStudy,
    &PriorSystemStudy::POOLS,
    &PriorSystemStudy::ATP,
];

/// A few lines for each study: its name and what it is, what can be asked of it, its options.
pub fn summary() -> String {
    let width = STUDIES.iter().map(|study| study.name().len()).max().unwrap_or_default();
    let mut text = String::new();
    for study in STUDIES {
        text +=
            &format!("{:width$}  {}; {}\n", study.name(), study.summary(), study.collectives().join(", "));
        let options = study.options().iter().filter(|(_, meaning)| !meaning.is_empty());
        for (option, meaning) in options {
            text += &format!("{:width$}    {option}: {meaning}\n", "");
        }
        if !study.mutations().is_empty() {
            text += &format!("{:width$}    --mutate: {}\n", "", study.mutations().join(", "));
        }
    }
    text.trim_end().to_owned()
}
