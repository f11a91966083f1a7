//! The committed corpus of the fuzz target `roce_host`, put through the same check on stable Rust.

#[test]
fn the_seeds_pass() {
    crate::replay::replay("roce_host", crate::roce_host::check);
}
