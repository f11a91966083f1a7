//! AGG_PORT_CFG: what it says, and what is refused.

use quincunx_netreduce::{PortConfig, RefusedRegister};

#[test]
fn all_eight_ports_are_the_published_value_after_reset() {
    assert_eq!(PortConfig::all(8).to_bits(), 0x4000_00ff);
    let value = PortConfig::from_bits(0x4000_00ff, 8).unwrap();
    assert_eq!((value.number(), value.ports().collect::<Vec<_>>()), (8, (0..8).collect()));
}

#[test]
fn ports_five_to_eight_are_the_published_example() {
    let value = PortConfig::from_bits(0x2000_00f0, 8).unwrap();
    assert_eq!(value.ports().collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert_eq!(value.to_bits(), 0x2000_00f0);
}

#[test]
fn what_makes_no_sense_is_refused_and_says_why() {
    let refused = |value, ports| PortConfig::from_bits(value, ports).unwrap_err();
    assert_eq!(refused(0x2400_00f0, 8), RefusedRegister::Reserved { value: 0x2400_00f0 });
    assert_eq!(refused(0x2000_00ff, 8), RefusedRegister::Number { number: 4, bits: 8 });
    assert_eq!(refused(0x0800_0001, 8), RefusedRegister::Few { number: 1 });
    assert_eq!(refused(0, 8), RefusedRegister::Few { number: 0 });
    assert_eq!(refused(0x2000_00f0, 6), RefusedRegister::NoSuchPort { ports: 6, enabled: 0xf0 });
    let line = refused(0x2000_00ff, 8).to_string();
    assert_eq!(
        line,
        "expected as many ports in agg_port_num as bits in agg_port_en, found 4 for 8; make them equal"
    );
}
