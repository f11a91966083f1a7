//! Where a run that is wrong could still have been right: what comes after is of no use to a reader.

use std::collections::BTreeSet;

use crate::choice::Choice;
use crate::state::{Part, View, without_faults};

/// States to look at from each state of a way before it counts as undecided.
const MOST_STATES: usize = 1 << 14;

/// After how many steps of a way no run is right any more, if no more faults happen; the number of its states where none of them is
/// known to be so. Once it is so it stays so.
pub(crate) fn after(view: &mut View<'_, '_>, states: &[Vec<u32>]) -> usize {
    states.partition_point(|state| may_end(view, state))
}

/// Whether some run from a state ends right without more faults, as far as that can be seen.
fn may_end(view: &mut View<'_, '_>, state: &[u32]) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![without_faults(state)];
    while let Some(mut state) = waiting.pop() {
        view.compress_chain(&mut state);
        if !seen.insert(view.fingerprint(&state)) {
            continue;
        }
        if view.is_end(&state) || seen.len() > MOST_STATES {
            return true;
        }
        let choice = view.choose(&state, None);
        let part = match &choice {
            Choice::Only(frames) => Part::Only(frames),
            Choice::All | Choice::Unknown => Part::All,
        };
        view.each_step(&state, part, &mut |_, _, next| waiting.extend(next.ok().map(<[u32]>::to_vec)));
    }
    false
}
