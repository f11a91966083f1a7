//! Index expressions: what they mean, what their normal form sees through, and that it is never wrong.

use proptest::prelude::*;
use quincunx_compiler::*;

/// A small world: three GPUs, a grid of 4 by 2, three threads, a loop from 2 to 5.
const GPUS: i64 = 3;

fn range(variable: Variable) -> Interval {
    let (low, high) = match variable {
        Variable::GpuId => (0, i128::from(GPUS) - 1),
        Variable::Block(0) => (0, 3),
        Variable::Block(_) => (0, 1),
        Variable::Thread(_) => (0, 2),
        Variable::Loop(_) => (2, 5),
        Variable::Index => (0, 0),
    };
    Interval { low, high }
}

fn resolve(name: &str) -> Option<Expression> {
    Some(match name {
        "gpuId" => Expression::Variable(Variable::GpuId),
        "x" => Expression::Variable(Variable::Block(0)),
        "y" => Expression::Variable(Variable::Block(1)),
        "t" => Expression::Variable(Variable::Thread(0)),
        "k" => Expression::Variable(Variable::Loop(0)),
        "gpus" => Expression::Number(GPUS),
        "hidden" => Expression::Defined(
            "hidden".to_owned(),
            Expression::parse("gpuId * 2 + 1", &resolve).unwrap().into(),
        ),
        _ => return None,
    })
}

fn read(text: &str) -> Expression {
    Expression::parse(text, &resolve).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn normal(text: &str) -> Normal {
    Normal::of(&read(text), &range).expect("a short expression")
}

fn is_invariant(expression: &Expression) -> bool {
    Normal::of(expression, &range)
        .is_some_and(|normal| !normal.mentions(&|variable| variable == Variable::GpuId))
}

#[test]
fn operators_bind_and_divide_as_in_cuda() {
    let nothing = |_| 0;
    for (text, value) in [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 3 - 4", 3),
        ("100 / 10 / 5", 2),
        ("7 / 2 * 2", 6),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("7 % -2", 1),
        ("2 * -3", -6),
        ("  1+1 ", 2),
    ] {
        assert_eq!(read(text).evaluate(&nothing), Some(value), "{text}");
    }
}

#[test]
fn what_cancels_does_not_depend_on_the_gpu() {
    for text in [
        "gpuId - gpuId",
        "0 * gpuId",
        "(gpuId * 4) % 4",
        "gpuId / gpus",
        "(gpuId + gpus) / gpus",
        "gpuId % gpus - gpuId",
        "(x + gpuId) * 2 - gpuId - gpuId",
        "(x * gpus + gpuId) / gpus",
        "(gpuId + 3 * x) % 3 - gpuId",
        "(t + 4 * gpuId) % 4",
        "(t + 4 * gpuId) / 16 + x",
        "((t + 4 * gpuId) / 4) - gpuId",
        "(gpuId * 8 + t) / 8 * 8 - 8 * gpuId",
        "(gpuId / 2 * 2 + gpuId % 2) - gpuId",
        "hidden - 2 * gpuId",
        "(gpuId * gpuId - gpuId) / 7",
        "gpuId * x - x * gpuId",
        "(gpuId - 1) / 2",
    ] {
        assert!(is_invariant(&read(text)), "{text}: {:?}", normal(text));
    }
}

#[test]
fn what_depends_on_the_gpu_is_found_to_whatever_it_hides_behind() {
    for text in [
        "gpuId",
        "x + gpuId",
        "(x + gpuId) % 4",
        "hidden",
        "hidden % 2 + hidden / 3",
        "x * gpuId",
        "gpuId / 2",
        "(gpuId * 3) % 4",
        "(5 - gpuId) / 2",
        "k / (gpuId + 1)",
        "(gpuId - 2) / 2 + x",
    ] {
        assert!(!is_invariant(&read(text)), "{text}");
    }
}

#[test]
fn division_toward_zero_is_not_taken_for_division_rounded_down() {
    // -1 / 2 is 0, and so is 1 / 2: rounded down they would differ by more than what the multiples say.
    let text = "(gpuId * 2 - 1) / 2 - gpuId";
    let values: Vec<_> = (0..GPUS).map(|gpu| read(text).evaluate(&|_| gpu)).collect();
    assert_eq!(values, [Some(0), Some(-1), Some(-1)]);
    assert!(!is_invariant(&read(text)));
}

#[test]
fn bounds_hold_what_may_divide_by_zero_or_overflow_is_refused() {
    let bounds = |text: &str| read(text).bounds(&range);
    assert_eq!(bounds("x * 4 + t"), Ok(Interval { low: 0, high: 14 }));
    assert_eq!(bounds("(x * 4 + t) % 8"), Ok(Interval { low: 0, high: 7 }));
    assert_eq!(bounds("x - k"), Ok(Interval { low: -5, high: 1 }));
    for (text, expected) in [
        ("x / gpuId", "a divisor that is never zero"),
        ("x % (t - 1)", "a divisor that is never zero"),
        ("k * 4611686018427387904", "values of 64 bits"),
    ] {
        let message = bounds(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn text_that_is_no_expression_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "the end of ``"),
        ("x +", "the end of `x +`"),
        ("x + * 2", "`*` at 5 of"),
        ("(x", "expected `)`"),
        ("x)", "`)` at 2"),
        ("x y", "expected an operator or the end"),
        ("z", "expected a name that is known here, found `z`"),
        ("12a", "expected a number"),
        ("99999999999999999999", "expected a number of 63 bits"),
        ("x § 2", "`§` at 3"),
        ("x\n§", "at 3 of `x\\n§`"),
    ] {
        let message = Expression::parse(text, &resolve).expect_err(text).to_string();
        assert!(message.contains(expected) && !message.contains('\n'), "{text:?}: {message}");
    }
    let deep = "(".repeat(10_000);
    assert!(Expression::parse(&deep, &resolve).unwrap_err().to_string().contains("at most 64"));
    let signs = "-".repeat(10_000);
    assert!(Expression::parse(&signs, &resolve).is_err());
    let long = vec!["x"; 10_000].join("+");
    assert!(Expression::parse(&long, &resolve).unwrap_err().to_string().contains("at most 4096 parts"));
}

/// Expressions of a few parts, with numbers around those that matter here.
fn expressions() -> impl Strategy<Value = Expression> {
    let variables = ["gpuId", "gpuId", "x", "y", "t", "k", "hidden"];
    let leaf = prop_oneof![
        3 => prop::sample::select(variables.to_vec()).prop_map(read),
        2 => (-3i64..10).prop_map(Expression::Number),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let operators = [
            Operator::Add,
            Operator::Subtract,
            Operator::Multiply,
            Operator::Multiply,
            Operator::Divide,
            Operator::Remainder,
        ];
        let divisor = prop_oneof![3 => (1i64..9).prop_map(Expression::Number), 1 => inner.clone()];
        prop_oneof![
            (prop::sample::select(operators[..4].to_vec()), inner.clone(), inner.clone())
                .prop_map(|(operator, left, right)| Expression::Binary(operator, left.into(), right.into())),
            (prop::sample::select(operators[4..].to_vec()), inner, divisor)
                .prop_map(|(operator, left, right)| Expression::Binary(operator, left.into(), right.into())),
        ]
    })
}

/// Every point of the small world.
fn points() -> impl Iterator<Item = [i64; 5]> {
    let grid = (0..4).flat_map(|x| (0..2).flat_map(move |y| (0..3).map(move |t| (x, y, t))));
    grid.flat_map(|(x, y, t)| (2..6).flat_map(move |k| (0..GPUS).map(move |gpu| [gpu, x, y, t, k])))
}

fn at(point: [i64; 5]) -> impl Fn(Variable) -> i64 {
    let [gpu, x, y, t, k] = point;
    move |variable| match variable {
        Variable::GpuId => gpu,
        Variable::Block(0) => x,
        Variable::Block(_) => y,
        Variable::Thread(_) => t,
        Variable::Loop(_) => k,
        Variable::Index => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The one that must never fail: what is called invariant is equal on all GPUs, everywhere.
    #[test]
    fn what_is_called_invariant_is(expression in expressions()) {
        prop_assume!(expression.bounds(&range).is_ok());
        if is_invariant(&expression) {
            for point in points() {
                let value = expression.evaluate(&at(point));
                let first = expression.evaluate(&at([0, point[1], point[2], point[3], point[4]]));
                prop_assert_eq!(value, first, "{} at {:?}", expression, point);
            }
        }
    }

    /// A normal form is the expression, and bounds of either hold.
    #[test]
    fn a_normal_form_has_the_value_of_its_expression(expression in expressions()) {
        let bounds = expression.bounds(&range);
        prop_assume!(bounds.is_ok());
        let bounds = bounds.unwrap();
        if let Some(normal) = Normal::of(&expression, &range) {
            let wide = normal.bounds(&range);
            for point in points() {
                let value = expression.evaluate(&at(point)).map(i128::from);
                prop_assert_eq!(normal.evaluate(&at(point)), value, "{} at {:?}", expression, point);
                let value = value.expect("bounds that fit");
                let holds = |bounds: Interval| bounds.low <= value && value <= bounds.high;
                prop_assert!(holds(bounds) && wide.is_none_or(holds), "{} at {:?}", expression, point);
            }
        }
    }

    /// What is printed is read as the same.
    #[test]
    fn what_is_printed_means_the_same(expression in expressions()) {
        let resolve_printed = |name: &str| match name {
            "blockIdx.x" => resolve("x"),
            "blockIdx.y" => resolve("y"),
            "threadIdx.x" => resolve("t"),
            "loop0" => resolve("k"),
            name => resolve(name),
        };
        let read = Expression::parse(&expression.to_string(), &resolve_printed).unwrap();
        for point in points().step_by(7) {
            prop_assert_eq!(read.evaluate(&at(point)), expression.evaluate(&at(point)));
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[ ()+*/%0-9a-z.§-]{0,30}") {
        let _ = Expression::parse(&text, &resolve);
    }
}
