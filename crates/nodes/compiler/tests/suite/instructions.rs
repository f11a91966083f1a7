//! The two instructions: fields where the layout says, round trips as bits and as text, and refusals.

use proptest::prelude::*;
use quincunx_compiler::*;

fn instructions() -> impl Strategy<Value = Instruction> {
    let operations = prop_oneof![
        prop::sample::select(CacheOperator::ALL.to_vec()).prop_map(Operation::Load),
        Just(Operation::Reduce),
    ];
    (
        operations,
        any::<Option<u8>>(),
        prop::sample::select(ElementType::ALL.to_vec()),
        prop::sample::select(VectorWidth::ALL.to_vec()),
        0..=248u8,
        any::<u8>(),
        prop_oneof![-MAX_OFFSET - 1..=MAX_OFFSET, -2..3],
    )
        .prop_map(|(operation, group, element, width, data, address, offset)| Instruction {
            operation,
            group,
            element,
            width,
            data,
            address,
            offset,
        })
}

/// A merged load, field by field.
const LOAD: Instruction = Instruction {
    operation: Operation::Load(CacheOperator::Streaming),
    group: Some(7),
    element: ElementType::S32,
    width: VectorWidth::V4,
    data: 4,
    address: 9,
    offset: -16,
};

#[test]
fn fields_are_where_the_diagram_has_them() {
    // ld, flag, type 3 | its last bit, vector 2, cache 2 | data | address | group | offset.
    assert_eq!(LOAD.emit(), [0b0001_1001, 0b1100_0100, 4, 9, 7, 0xff, 0xff, 0xf0]);
    let plain = Instruction { operation: Operation::Reduce, group: None, offset: 1, ..LOAD };
    assert_eq!(plain.emit(), [0b0010_0001, 0b1100_0000, 4, 9, 0, 0, 0, 1]);
}

#[test]
fn the_flag_is_one_bit_and_all_that_tells_a_mergeable_load_from_another() {
    let merges = Instruction { group: Some(0), ..LOAD }.emit();
    let plain = Instruction { group: None, ..LOAD }.emit();
    let differing: u32 = merges.iter().zip(plain).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!(differing, 1);
}

#[test]
fn text_is_ptx_with_cais_behind_the_opcode_and_the_group_last() {
    for (instruction, text) in [
        (LOAD, "ld.cais.global.cs.v4.s32 {%r4, %r5, %r6, %r7}, [%rd9-16], %r7;"),
        (
            Instruction {
                operation: Operation::Load(CacheOperator::All),
                element: ElementType::F16,
                group: Some(1),
                data: 0,
                address: 1,
                offset: 16,
                ..LOAD
            },
            "ld.cais.global.v4.f16 {%h0, %h1, %h2, %h3}, [%rd1+16], %r1;",
        ),
        (
            Instruction {
                operation: Operation::Reduce,
                element: ElementType::F32,
                width: VectorWidth::V1,
                offset: 0,
                ..LOAD
            },
            "red.cais.global.add.f32 [%rd9], %f4, %r7;",
        ),
        (
            Instruction {
                operation: Operation::Reduce,
                group: None,
                element: ElementType::Bf16,
                width: VectorWidth::V2,
                offset: 0,
                ..LOAD
            },
            "red.global.add.v2.bf16 [%rd9], {%h4, %h5};",
        ),
    ] {
        assert_eq!(instruction.to_string(), text);
        assert_eq!(text.parse(), Ok(instruction));
        // Figure 4's spelling.
        assert_eq!(text.replace(".cais.", ".caiss.").parse(), Ok(instruction));
    }
}

#[test]
fn bits_that_mean_nothing_are_refused() {
    let bytes = LOAD.emit();
    let with = |at: usize, byte: u8| {
        let mut changed = bytes;
        changed[at] = byte;
        Instruction::parse(&changed)
    };
    assert_eq!(Instruction::parse(&bytes[..7]), Err(InstructionError::Length));
    assert_eq!(with(0, 0b0000_1001), Err(InstructionError::Opcode));
    assert_eq!(with(0, 0b0011_1001), Err(InstructionError::Opcode));
    assert_eq!(with(0, 0b0001_1011), Err(InstructionError::Type));
    assert_eq!(with(0, 0b0001_0001), Err(InstructionError::Group));
    assert_eq!(with(0, 0b0010_1001), Err(InstructionError::Cache), "a reduction that is cached");
    assert_eq!(with(1, 0b1100_1000), Err(InstructionError::Cache));
    assert_eq!(with(1, 0b1100_0101), Err(InstructionError::Reserved));
    assert_eq!(with(2, 253), Err(InstructionError::Registers));
    assert!(with(2, 252).is_ok());
}

#[test]
fn text_that_is_no_instruction_is_refused_in_a_line_that_says_what_was_expected() {
    for (text, expected) in [
        ("ld.cais.global.f16 %h0, [%rd1], %r1", "ends with `;`"),
        ("st.global.f16 [%rd1], %h0;", "`ld` or `red`"),
        ("ld.shared.f16 %h0, [%rd1];", "`.global`"),
        ("red.global.f16 [%rd1], %h0;", "`.add`"),
        ("ld.global.v3.f16 {%h0}, [%rd1];", "a type (f16"),
        ("ld.global.f64 %d0, [%rd1];", "a type (f16"),
        ("ld.global.f16.v4 %h0, [%rd1];", "operands after the type"),
        ("ld.cais.global.f16 %h0, [%rd1];", "a group register"),
        ("ld.global.f16 %h0, [%rd1], %r1;", "an address"),
        ("ld.global.v2.f16 {%h0, %h2}, [%rd1];", "consecutive data registers"),
        ("ld.global.v2.f16 {%h0, %h1, %h2}, [%rd1];", "consecutive data registers"),
        ("ld.global.v2.f16 {%h255, %h0}, [%rd1];", "consecutive data registers"),
        ("ld.global.f16 %f0, [%rd1];", "consecutive data registers"),
        ("ld.global.f16 %h256, [%rd1];", "consecutive data registers"),
        ("ld.global.f16 %h0, [%rd1+8388608];", "an offset of 24 bits"),
        ("ld.global.f16 %h0, [%rd1+x];", "an address"),
        ("ld.global.f16 %h0;", "data and an address"),
        ("", "ends with `;`"),
    ] {
        let message = text.parse::<Instruction>().expect_err(text).to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{text}: {message}");
    }
}

proptest! {
    #[test]
    fn bits_and_text_are_read_as_they_were_written(instruction in instructions()) {
        prop_assert_eq!(Instruction::parse(&instruction.emit()), Ok(instruction));
        prop_assert_eq!(instruction.to_string().parse(), Ok(instruction));
    }

    /// No bytes are two instructions, and what is read is written the same.
    #[test]
    fn whatever_is_read_is_written_back_to_the_bit(bytes in prop::array::uniform8(any::<u8>())) {
        if let Ok(instruction) = Instruction::parse(&bytes) {
            prop_assert_eq!(instruction.emit(), bytes);
        }
    }

    #[test]
    fn any_other_bit_is_another_instruction_or_none(instruction in instructions(), bit in 0..64usize) {
        let mut bytes = instruction.emit();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_ne!(Instruction::parse(&bytes), Ok(instruction));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ldred.cais{}%hrf0-9,;+\\[\\] -]{0,40}") {
        let _ = text.parse::<Instruction>();
    }
}
