//! Addresses as 16 bytes: shown, compared and looked up as the addresses that they are.

use proptest::prelude::*;
use quincunx_wire::{Endpoint, Gid};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[test]
fn an_ipv4_address_is_the_mapped_one_and_stays_ipv4() {
    let gid = Gid::from([10, 0, 0, 7]);
    assert_eq!(gid.octets(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]);
    assert_eq!((gid.is_ipv4(), gid.address()), (true, IpAddr::from([10, 0, 0, 7])));
    assert_eq!(gid, Gid::from(Ipv4Addr::new(10, 0, 0, 7).to_ipv6_mapped()));
}

#[test]
fn what_only_looks_like_a_mapped_address_is_ipv6() {
    for text in
        ["::", "::1", "::10.0.0.7", "::fffe:10.0.0.7", "::1:ffff:10.0.0.7", "64:ff9b::10.0.0.7", "fd00::7"]
    {
        let address: Ipv6Addr = text.parse().expect("an address");
        let gid = Gid::from(address);
        assert_eq!((gid.is_ipv4(), gid.address()), (false, IpAddr::from(address)), "{text}");
    }
}

#[test]
fn it_is_shown_as_people_write_the_address() {
    for text in ["10.0.0.7", "fd00::7", "::1"] {
        let gid = Gid::of(text.parse().expect("an address"));
        assert_eq!([format!("{gid}"), format!("{gid:?}")], [text, text]);
        assert_eq!(format!("{gid:>12}|"), format!("{text:>12}|"));
    }
}

#[test]
fn an_end_of_a_flow_is_20_bytes() {
    assert_eq!((size_of::<Gid>(), size_of::<Endpoint>()), (16, 20));
}

proptest! {
    #[test]
    fn an_address_comes_back(address: IpAddr) {
        prop_assert_eq!(Gid::of(address).address(), address.to_canonical());
    }

    #[test]
    fn the_order_is_that_of_the_bytes(a: [u8; 16], b: [u8; 16], shared in 0_usize..=16) {
        // Two that differ late, too.
        let b: [u8; 16] = std::array::from_fn(|at| if at < shared { a[at] } else { b[at] });
        prop_assert_eq!(Gid::from(a).cmp(&Gid::from(b)), a.cmp(&b));
        prop_assert_eq!(Gid::from(a) == Gid::from(b), a == b);
    }

    #[test]
    fn addresses_of_one_family_are_in_their_order(a: [u8; 4], b: [u8; 4]) {
        prop_assert_eq!(Gid::from(a).cmp(&Gid::from(b)), IpAddr::from(a).cmp(&IpAddr::from(b)));
    }

    #[test]
    fn it_is_found_by_either_form(a: [u8; 4]) {
        let known = BTreeMap::from([(Gid::from(a), 1)]);
        prop_assert_eq!(known.get(&Gid::from(Ipv4Addr::from(a).to_ipv6_mapped())), Some(&1));
    }
}
