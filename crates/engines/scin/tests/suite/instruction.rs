//! Instructions as bytes and back, and what is refused (SCIN figure 6).

use proptest::prelude::*;
use quincunx_scin::{Accelerators, Addresses, Instruction, InstructionError};

prop_compose! {
    fn masks(count: u16)(bits in proptest::collection::vec(any::<bool>(), usize::from(count))) -> Accelerators {
        let chosen = bits.iter().zip(0..).filter(|(bit, _)| **bit).map(|(_, number)| Accelerators::only(number));
        chosen.fold(Accelerators::default(), Accelerators::union)
    }
}

fn instructions() -> impl Strategy<Value = (u16, Instruction)> {
    (1..=64u16).prop_flat_map(|count| {
        let address = 0..1u64 << 48;
        let addresses = prop_oneof![
            address.clone().prop_map(Addresses::Region),
            proptest::collection::vec(address, usize::from(count)).prop_map(Addresses::Each),
        ];
        let flags = (any::<bool>(), any::<bool>(), any::<bool>());
        (any::<u16>(), any::<u32>(), addresses, masks(count), masks(count), flags).prop_map(
            move |(id, length, addresses, sources, destinations, (quantize, wait, notify))| {
                let instruction =
                    Instruction { id, length, addresses, sources, destinations, quantize, wait, notify };
                (count, instruction)
            },
        )
    })
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back((count, instruction) in instructions()) {
        prop_assert_eq!(Instruction::parse(&instruction.emit(count), count), Ok(instruction));
    }

    #[test]
    fn another_length_is_refused((count, instruction) in instructions(), cut in any::<prop::sample::Index>()) {
        let mut bytes = instruction.emit(count);
        let cut = cut.index(bytes.len());
        prop_assert!(Instruction::parse(&bytes[..cut], count).is_err());
        bytes.push(0);
        prop_assert!(Instruction::parse(&bytes, count).is_err());
    }

    #[test]
    fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80), count in 1..=64u16) {
        if let Ok(instruction) = Instruction::parse(&bytes, count) {
            prop_assert_eq!(instruction.emit(count), bytes);
        }
    }
}

fn all_reduce() -> Instruction {
    let all = Accelerators::first(8);
    Instruction {
        id: 1,
        length: 4096,
        addresses: Addresses::Region(0x1000),
        sources: all,
        destinations: all,
        quantize: false,
        wait: true,
        notify: true,
    }
}

#[test]
fn eight_accelerators_take_eight_addresses_of_48_bits_and_masks_of_a_byte() {
    let each = Instruction { addresses: Addresses::Each((1..=8).collect()), ..all_reduce() };
    assert_eq!(each.emit(8).len(), 2 + 4 + 1 + 8 * 6 + 1 + 1);
    assert_eq!(all_reduce().emit(8).len(), 2 + 4 + 1 + 6 + 1 + 1);
}

#[test]
fn those_who_are_taken_out_are_gone_whether_they_were_there_or_not() {
    let (first, second, third) = (Accelerators::only(0), Accelerators::only(1), Accelerators::only(2));
    assert_eq!(first.union(second).without(second.union(third)), first);
}

#[test]
fn masks_of_accelerators_that_are_not_there_are_refused() {
    let mut bytes =
        Instruction { sources: Accelerators::first(3), destinations: Accelerators::first(3), ..all_reduce() }
            .emit(3);
    *bytes.last_mut().expect("a mask") = 0b1000;
    assert!(matches!(Instruction::parse(&bytes, 3), Err(InstructionError::Masks { accelerators: 3, .. })));
}

#[test]
fn flags_without_a_meaning_are_refused() {
    let mut bytes = all_reduce().emit(8);
    bytes[6] |= 0x10;
    assert_eq!(Instruction::parse(&bytes, 8), Err(InstructionError::Flags(0x1e)));
}
