//! Which transports queue pairs can carry out.

use quincunx_design::Transport;
use quincunx_units::{ByteCount, Duration, Messages, Packets};

fn with(change: impl Fn(&mut Transport)) -> Result<(), String> {
    let mut transport = Transport::default();
    change(&mut transport);
    transport.check().map_err(|refusal| refusal.to_string())
}

#[test]
fn the_default_can_be_carried_out() {
    assert_eq!(with(|_| ()), Ok(()));
}

#[test]
fn a_window_beyond_half_the_psn_space_is_refused() {
    let window = |message, window| {
        with(|transport| {
            (transport.message, transport.window) = (Packets::new(message), Messages::new(window));
        })
    };
    assert_eq!(window(1 << 11, 1 << 11), Ok(()));
    for (message, messages) in
        [(1 << 11, 0), (0, 4), (1 << 11, (1 << 11) + 1), (1 << 20, 1 << 20), (u32::MAX, u32::MAX)]
    {
        let error = window(message, messages).unwrap_err();
        assert!(
            error.starts_with("expected `group.message` times `group.window` of 1 to 4194304 packets"),
            "{error}"
        );
    }
}

#[test]
fn packets_are_of_whole_words_and_no_longer_than_a_path_carries() {
    let mtu = |mtu| with(|transport| transport.mtu = ByteCount::new(mtu));
    assert_eq!([4, 1024, 4096].map(mtu), [Ok(()), Ok(()), Ok(())]);
    for bytes in [0, 5, 1022, 4100, 8192, u64::MAX] {
        let error = mtu(bytes).unwrap_err();
        assert!(error.starts_with("expected `group.mtu` of a multiple of 4 bytes up to 4096"), "{error}");
    }
}

#[test]
fn senders_must_get_somewhere() {
    assert!(with(|transport| transport.acknowledge_every = Some(Packets::new(0))).is_err());
    assert!(with(|transport| transport.retry_timeout = Duration::ZERO).is_err());
    assert_eq!(with(|transport| transport.acknowledge_every = Some(Packets::new(u32::MAX))), Ok(()));
}

#[test]
fn an_acknowledge_is_asked_for_with_every_message_if_nothing_is_said() {
    assert_eq!(Transport::default().acknowledge_every(), Packets::new(16));
    assert_eq!(Transport::default().window_packets(), Packets::new(16 * 32));
    assert_eq!(Transport::default().window_bytes(), ByteCount::new(16 * 32 * 4096));
}
