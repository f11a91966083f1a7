//! What a manager has decided is done in order, behind what is kept of it, or not at all.

use quincunx_collective::GroupId;
use quincunx_control::{Action, Change, Instruction, Journal};

fn tell(node: &str) -> Action {
    Action::Instruct { node: node.to_string(), instruction: Instruction::Remove(GroupId(1)) }
}

const KEEP: Action = Action::Keep(Change::Numbers(65));

#[test]
fn nothing_behind_a_change_is_done_before_it_is_kept() {
    let mut journal = Journal::default();
    journal.add(vec![tell("a"), KEEP, tell("b")]);
    assert_eq!(journal.next(), Some(tell("a")));
    assert_eq!(journal.next(), Some(KEEP));
    assert_eq!(journal.next(), None);
    // Another step meanwhile.
    journal.add(vec![tell("c")]);
    assert_eq!(journal.next(), None);
    journal.kept(true);
    assert_eq!([(); 3].map(|()| journal.next()), [Some(tell("b")), Some(tell("c")), None]);
}

#[test]
fn nothing_at_all_is_done_once_a_change_was_refused_and_no_later_step_is_either() {
    let mut journal = Journal::default();
    journal.add(vec![KEEP, tell("a")]);
    assert_eq!(journal.next(), Some(KEEP));
    journal.add(vec![tell("b")]);
    journal.kept(false);
    journal.add(vec![tell("c"), KEEP]);
    assert!(journal.is_closed());
    assert_eq!(journal.next(), None);
}
