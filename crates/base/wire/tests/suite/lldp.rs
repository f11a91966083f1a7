//! LLDP: what a frame looks like, that nothing is lost on the way, that a frame of Debian's lldpd is understood, and that whatever breaks a rule says
//! nothing.

use crate::common::vector;
use proptest::prelude::*;
use quincunx_wire::MacAddress;
use quincunx_wire::lldp::{LONGEST_FRAME, LldpError, LldpFrame, LldpId};

const SOURCE: MacAddress = MacAddress([2, 0, 0, 0, 0, 7]);

fn frame<'a>(chassis: &'a str, port: &'a str, system_name: &'a str) -> LldpFrame<'a> {
    let (chassis, port) = (LldpId::local(chassis), LldpId::interface(port));
    LldpFrame { chassis, port, time_to_live: 8, system_name: system_name.as_bytes() }
}

fn emitted(frame: &LldpFrame<'_>) -> Vec<u8> {
    let mut bytes = vec![0xff; LONGEST_FRAME];
    let length = frame.emit(SOURCE, &mut bytes);
    bytes.truncate(length);
    bytes
}

/// A frame of these elements: type and value.
fn of(elements: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7, 0x88, 0xcc];
    for (kind, value) in elements {
        bytes.extend((u16::from(*kind) << 9 | value.len() as u16).to_be_bytes());
        bytes.extend(*value);
    }
    bytes
}

const CHASSIS: (u8, &[u8]) = (1, b"\x07s0");
const PORT: (u8, &[u8]) = (2, b"\x05eth1");
const TIME: (u8, &[u8]) = (3, &[0, 8]);
const END: (u8, &[u8]) = (0, &[]);

#[test]
fn a_frame_lies_as_the_diagram_has_it_and_is_filled_up() {
    let mut expected = b"\x01\x80\xc2\0\0\x0e\x02\0\0\0\0\x07\x88\xcc\
        \x02\x03\x07s0\x04\x05\x05eth1\x06\x02\0\x08\x0a\x02s0\0\0"
        .to_vec();
    expected.resize(60, 0);
    assert_eq!(emitted(&frame("s0", "eth1", "s0")), expected);
}

#[test]
fn a_frame_of_lldpd_is_understood() {
    let [captured] = &vector("lldpd.pcap")[..] else { panic!("one frame") };
    let read = LldpFrame::parse(captured).expect("it is LLDP");
    assert_eq!(read.chassis.to_string(), "mac 02:00:00:00:00:0a");
    assert_eq!(read.port.to_string(), "mac 02:00:00:00:00:0a");
    assert_eq!((read.time_to_live, read.system_name), (120, &b"office"[..]));
}

#[test]
fn identities_of_each_kind_are_told_apart_by_their_text() {
    let chassis = |value: &[u8]| {
        LldpFrame::parse(&of(&[(1, value), PORT, TIME, END])).expect("a frame").chassis.to_string()
    };
    assert_eq!(chassis(b"\x07s0"), "local s0");
    assert_eq!(chassis(b"\x06s0"), "ifname s0");
    assert_eq!(chassis(b"\x04\x02\0\0\0\0\x01"), "mac 02:00:00:00:00:01");
    assert_eq!(chassis(b"\x05\x01\x0a\0\0\x01"), "ip 10.0.0.1");
    assert_eq!(chassis(b"\x05\x02\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09"), "ip fd00::9");
    assert_eq!(chassis(b"\x04s0"), "mac s0", "of a length that no address has");
    assert_eq!(chassis(b"\x09s0"), "kind-9 s0");
    assert_eq!(chassis(b"\x07s0\n\x1b[2J\xff"), "local s0\\n\\x1b[2J\\xff", "no terminal obeys a name");
}

#[test]
fn what_follows_the_first_three_may_be_left_out_and_the_rest_is_passed_over() {
    let name = |more: &[(u8, &[u8])]| {
        let frame = of(&[&[CHASSIS, PORT, TIME][..], more].concat());
        LldpFrame::parse(&frame).map(|read| read.system_name.to_vec())
    };
    assert_eq!(name(&[END]), Ok(vec![]));
    assert_eq!(name(&[]), Ok(vec![]), "without an end");
    assert_eq!(name(&[(127, b"\0\x80\xc2\x01"), (5, b"leaf"), (8, b"\x05"), END]), Ok(b"leaf".to_vec()));
    assert_eq!(name(&[(5, b"leaf"), (5, b"liar"), END]), Ok(b"leaf".to_vec()));
    assert_eq!(name(&[END, (5, b"behind the end")]), Ok(vec![]));
}

#[test]
fn a_frame_that_breaks_a_rule_says_nothing() {
    let refused = |elements: &[(u8, &[u8])]| LldpFrame::parse(&of(elements)).map(|_| ());
    assert_eq!(refused(&[PORT, CHASSIS, TIME, END]), Err(LldpError::WrongOrder));
    assert_eq!(refused(&[CHASSIS, PORT, END]), Err(LldpError::WrongOrder));
    assert_eq!(refused(&[CHASSIS, PORT, TIME, CHASSIS, END]), Err(LldpError::WrongOrder));
    assert_eq!(refused(&[(1, b"\x07"), PORT, TIME, END]), Err(LldpError::WrongLength));
    assert_eq!(refused(&[(1, &[7; 257]), PORT, TIME, END]), Err(LldpError::WrongLength));
    assert_eq!(refused(&[CHASSIS, (2, b""), TIME, END]), Err(LldpError::WrongLength));
    assert_eq!(refused(&[CHASSIS, PORT, (3, b"\x01"), END]), Err(LldpError::WrongLength));
    assert_eq!(refused(&[CHASSIS, PORT, TIME, (0, b"more")]), Err(LldpError::WrongLength));
    assert_eq!(refused(&[]), Err(LldpError::WrongOrder));
}

#[test]
fn frames_for_others_and_of_other_types_are_none() {
    let whole = of(&[CHASSIS, PORT, TIME, END]);
    for at in [0, 5, 12, 13] {
        let mut bytes = whole.clone();
        bytes[at] ^= 2;
        assert_eq!(LldpFrame::parse(&bytes), Err(LldpError::NotLldp), "byte {at}");
    }
    assert_eq!(LldpFrame::parse(&whole[..13]), Err(LldpError::NotLldp));
}

proptest! {
    #[test]
    fn a_frame_says_what_was_written(
        chassis in "[^\0]{1,60}", port in "[a-z0-9.]{1,15}", name in ".{0,60}", time_to_live in any::<u16>(),
    ) {
        let written = LldpFrame { time_to_live, ..frame(&chassis, &port, &name) };
        let bytes = emitted(&written);
        prop_assert_eq!(LldpFrame::parse(&bytes), Ok(written));
    }

    #[test]
    fn a_frame_that_is_cut_short_within_an_element_says_nothing(length in 0_usize..21 + 14) {
        let whole = of(&[CHASSIS, PORT, TIME, (5, b"leaf")]);
        // Where an element ends, the frame may end, behind the first three.
        prop_assume!(length != 14 + 5 + 7 + 4);
        prop_assert!(LldpFrame::parse(&whole[..length]).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = LldpFrame::parse(&bytes);
        let _ = LldpFrame::parse(&[&of(&[]), &bytes[..]].concat());
        let _ = LldpFrame::parse(&[&of(&[CHASSIS, PORT, TIME]), &bytes[..]].concat());
    }
}
