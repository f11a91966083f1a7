//! What the codes of an acknowledge mean.

use quincunx_units::Duration;
use quincunx_wire::aeth::{receiver_not_ready_code, receiver_not_ready_delay};

#[test]
fn receiver_not_ready_delays_are_those_of_the_architecture() {
    let micros = |code| receiver_not_ready_delay(code).as_nanos() / 1_000;
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(micros), [655_360, 10, 20, 30, 40, 60, 80, 120]);
    // From code 2 on, every second code doubles.
    for code in 2..30 {
        assert_eq!(micros(code + 2), 2 * micros(code), "code {}", code + 2);
    }
    assert_eq!(micros(31), 491_520);
    assert_eq!(micros(32), micros(0));
}

#[test]
fn the_code_of_a_delay_is_the_longest_that_is_not_longer() {
    for code in 1..32 {
        let delay = receiver_not_ready_delay(code);
        assert_eq!(receiver_not_ready_code(delay), code);
        assert_eq!(receiver_not_ready_code(delay + Duration::from_micros(1)), code);
    }
    // There is none below the shortest one.
    assert_eq!(receiver_not_ready_code(Duration::ZERO), 1);
    assert_eq!(receiver_not_ready_code(Duration::from_secs(9)), 31);
}
