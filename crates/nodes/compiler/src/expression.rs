//! Index expressions of kernels: what they may contain, reading them, their value at a point, and bounds of it.
//!
//! `+ - * / %`, parentheses, numbers, and names: `gpuId`, `blockIdx.x`, `threadIdx.x` (and `.y`, `.z`), loop variables, constants, and
//! variables that the kernel defines. Division and remainder are those of CUDA: toward zero.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt::{self, Display};

/// What an expression is made of at most, definitions included.
const MOST_NODES: usize = 4096;
/// Parentheses and signs inside each other at most.
const DEEPEST: usize = 64;

/// What a thread of a block on a GPU knows about itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Variable {
    /// Which GPU.
    GpuId,
    /// A component of `blockIdx`.
    Block(u8),
    /// A component of `threadIdx`.
    Thread(u8),
    /// A loop of the statement, the outermost first.
    Loop(u8),
    /// The element that an array's home rule is asked about.
    Index,
}

/// An operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, toward zero.
    Divide,
    /// `%`, with the sign of what is divided.
    Remainder,
}

/// An expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expression {
    /// A number, or a constant of the kernel.
    Number(i64),
    /// A variable.
    Variable(Variable),
    /// Something that the kernel has defined, by its name.
    Defined(String, Box<Self>),
    /// Two, joined.
    Binary(Operator, Box<Self>, Box<Self>),
}

/// The least and the greatest that something can be.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// The least.
    pub low: i128,
    /// The greatest.
    pub high: i128,
}

/// What is wrong with an expression: what was expected, what was found, where in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}, found {found}")]
pub struct ExpressionError {
    /// What was expected.
    pub expected: String,
    /// What was found, and where.
    pub found: String,
}

impl ExpressionError {
    fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into() }
    }
}

impl Operator {
    const fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
            Self::Remainder => '%',
        }
    }
}

impl Interval {
    /// One value.
    pub const fn point(value: i128) -> Self {
        Self { low: value, high: value }
    }

    /// From zero to below `end`, of which there is one at least.
    pub fn below(end: u32) -> Self {
        Self { low: 0, high: i128::from(end) - 1 }
    }

    /// The least interval with all of these; none if a value is none.
    pub(crate) fn hull<const N: usize>(values: [Option<i128>; N]) -> Option<Self> {
        let mut hull: Option<Self> = None;
        for value in values {
            let value = value?;
            hull = Some(hull.map_or(Self::point(value), |hull| Self {
                low: hull.low.min(value),
                high: hull.high.max(value),
            }));
        }
        hull
    }

    pub(crate) fn add(self, other: Self) -> Option<Self> {
        Some(Self { low: self.low.checked_add(other.low)?, high: self.high.checked_add(other.high)? })
    }

    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        let product = |a: i128, b: i128| a.checked_mul(b);
        Self::hull([
            product(self.low, other.low),
            product(self.low, other.high),
            product(self.high, other.low),
            product(self.high, other.high),
        ])
    }

    /// Division toward zero, by something that is not zero.
    pub(crate) fn divide(self, other: Self) -> Option<Self> {
        let quotient = |a: i128, b: i128| a.checked_div(b);
        if other.low <= 0 && other.high >= 0 {
            return None;
        }
        Self::hull([
            quotient(self.low, other.low),
            quotient(self.low, other.high),
            quotient(self.high, other.low),
            quotient(self.high, other.high),
        ])
    }

    /// What is left by such a division.
    pub(crate) fn remainder(self, other: Self) -> Option<Self> {
        let divisor = other.low.unsigned_abs().max(other.high.unsigned_abs());
        let most = i128::try_from(divisor).ok()? - 1;
        if let Some(Self { low, high }) = self.divide(other)
            && low == high
            && other.low == other.high
            && self.low >= 0
        {
            // All in one piece: the remainder follows.
            let start = low.checked_mul(other.low)?;
            return Some(Self { low: self.low - start, high: self.high - start });
        }
        Some(Self { low: self.low.clamp(-most, 0), high: self.high.clamp(0, most) })
    }
}

impl Expression {
    /// Reads one. `resolve` says what a name means.
    ///
    /// # Errors
    /// If it is none, or a name is not known.
    pub fn parse(text: &str, resolve: &dyn Fn(&str) -> Option<Self>) -> Result<Self, ExpressionError> {
        let mut parser = Parser { text, at: 0, depth: 0, nodes: 0, resolve };
        let expression = parser.sum()?;
        parser.skip();
        if parser.at < text.len() {
            return Err(parser.expected("an operator or the end"));
        }
        Ok(expression)
    }

    /// Its value where each variable is what `of` says; none if it divides by zero or needs more than 64 bits.
    pub fn evaluate(&self, of: &dyn Fn(Variable) -> i64) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Variable(variable) => Some(of(*variable)),
            Self::Defined(_, value) => value.evaluate(of),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.evaluate(of)?, right.evaluate(of)?);
                match operator {
                    Operator::Add => left.checked_add(right),
                    Operator::Subtract => left.checked_sub(right),
                    Operator::Multiply => left.checked_mul(right),
                    Operator::Divide => left.checked_div(right),
                    Operator::Remainder => left.checked_rem(right),
                }
            }
        }
    }

    /// Bounds of its value where `of` bounds each variable.
    ///
    /// # Errors
    /// If a part of it may need more than 64 bits, or it may divide by zero.
    pub fn bounds(&self, of: &dyn Fn(Variable) -> Interval) -> Result<Interval, ExpressionError> {
        let found = match self {
            Self::Number(number) => Some(Interval::point((*number).into())),
            Self::Variable(variable) => Some(of(*variable)),
            Self::Defined(_, value) => Some(value.bounds(of)?),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.bounds(of)?, right.bounds(of)?);
                let divides = matches!(operator, Operator::Divide | Operator::Remainder);
                if divides && right.low <= 0 && right.high >= 0 {
                    let range = alloc::format!("one from {} to {} in `{self}`", right.low, right.high);
                    return Err(ExpressionError::new("a divisor that is never zero", range));
                }
                match operator {
                    Operator::Add => left.add(right),
                    Operator::Subtract => {
                        right.multiply(Interval::point(-1)).and_then(|right| left.add(right))
                    }
                    Operator::Multiply => left.multiply(right),
                    Operator::Divide => left.divide(right),
                    Operator::Remainder => left.remainder(right),
                }
            }
        };
        let fits = |value: &Interval| value.low >= i64::MIN.into() && value.high <= i64::MAX.into();
        found.filter(fits).ok_or_else(|| {
            ExpressionError::new("values of 64 bits", alloc::format!("`{self}`, which may need more"))
        })
    }

    /// Whether `variable` stands in it, or in what it is defined by.
    pub fn mentions(&self, variable: Variable) -> bool {
        match self {
            Self::Number(_) => false,
            Self::Variable(found) => *found == variable,
            Self::Defined(_, value) => value.mentions(variable),
            Self::Binary(_, left, right) => left.mentions(variable) || right.mentions(variable),
        }
    }

    /// The names of definitions by which it mentions `variable`.
    pub fn definitions_with(&self, variable: Variable, names: &mut BTreeSet<String>) {
        match self {
            Self::Number(_) | Self::Variable(_) => {}
            Self::Defined(name, value) => {
                if value.mentions(variable) {
                    names.insert(name.clone());
                }
                value.definitions_with(variable, names);
            }
            Self::Binary(_, left, right) => {
                left.definitions_with(variable, names);
                right.definitions_with(variable, names);
            }
        }
    }

    /// What it is made of.
    fn nodes(&self) -> usize {
        match self {
            Self::Number(_) | Self::Variable(_) => 1,
            Self::Defined(_, value) => 1 + value.nodes(),
            Self::Binary(_, left, right) => 1 + left.nodes() + right.nodes(),
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let component = |component: u8| char::from(b'x' + component);
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Variable(Variable::GpuId) => f.write_str("gpuId"),
            Self::Variable(Variable::Block(at)) => write!(f, "blockIdx.{}", component(*at)),
            Self::Variable(Variable::Thread(at)) => write!(f, "threadIdx.{}", component(*at)),
            Self::Variable(Variable::Loop(number)) => write!(f, "loop{number}"),
            Self::Variable(Variable::Index) => f.write_str("index"),
            Self::Defined(name, _) => f.write_str(name),
            Self::Binary(operator, left, right) => {
                let part = |part: &Self, f: &mut fmt::Formatter<'_>| match part {
                    Self::Binary(..) => write!(f, "({part})"),
                    _ => write!(f, "{part}"),
                };
                part(left, f)?;
                write!(f, " {} ", operator.symbol())?;
                part(right, f)
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    nodes: usize,
    resolve: &'a dyn Fn(&str) -> Option<Expression>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn expected(&self, what: &str) -> ExpressionError {
        let place = self.text.get(..self.at).map_or(0, |before| before.chars().count()) + 1;
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(found) => alloc::format!("`{found}` at {place} of `{}`", self.text.escape_debug()),
            None => alloc::format!("the end of `{}`", self.text.escape_debug()),
        };
        ExpressionError::new(what, found)
    }

    /// The operator that comes next, if it is one of these.
    fn operator(&mut self, of: &[Operator]) -> Option<Operator> {
        self.skip();
        let found = of.iter().copied().find(|known| self.peek() == Some(known.symbol() as u8))?;
        self.at += 1;
        Some(found)
    }

    fn join(
        &mut self,
        operator: Operator,
        left: Expression,
        right: Expression,
    ) -> Result<Expression, ExpressionError> {
        self.grow(1)?;
        Ok(Expression::Binary(operator, left.into(), right.into()))
    }

    fn grow(&mut self, nodes: usize) -> Result<(), ExpressionError> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            let expected = alloc::format!("an expression of at most {MOST_NODES} parts");
            return Err(ExpressionError::new(expected, "a longer one"));
        }
        Ok(())
    }

    fn sum(&mut self) -> Result<Expression, ExpressionError> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&[Operator::Add, Operator::Subtract]) {
            let right = self.product()?;
            left = self.join(operator, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, ExpressionError> {
        let operators = [Operator::Multiply, Operator::Divide, Operator::Remainder];
        let mut left = self.operand()?;
        while let Some(operator) = self.operator(&operators) {
            let right = self.operand()?;
            left = self.join(operator, left, right)?;
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, ExpressionError> {
        self.skip();
        match self.peek() {
            Some(b'(' | b'-') if self.depth == DEEPEST => {
                Err(self.expected("at most 64 parentheses and signs inside each other"))
            }
            Some(b'(') => {
                self.at += 1;
                self.depth += 1;
                let inner = self.sum()?;
                self.depth -= 1;
                self.skip();
                if self.peek() != Some(b')') {
                    return Err(self.expected("`)` or an operator"));
                }
                self.at += 1;
                Ok(inner)
            }
            Some(b'-') => {
                self.at += 1;
                self.depth += 1;
                let inner = self.operand()?;
                self.depth -= 1;
                self.join(Operator::Subtract, Expression::Number(0), inner)
            }
            Some(first) if first.is_ascii_digit() => {
                let digits = self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                self.grow(1)?;
                let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
                number.flatten().map(Expression::Number).ok_or_else(|| {
                    ExpressionError::new("a number of 63 bits, in digits", alloc::format!("`{digits}`"))
                })
            }
            Some(first) if first.is_ascii_alphabetic() || first == b'_' => {
                let name = self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
                let Some(found) = (self.resolve)(&name) else {
                    return Err(ExpressionError::new(
                        "a name that is known here",
                        alloc::format!("`{name}`"),
                    ));
                };
                self.grow(found.nodes())?;
                Ok(found)
            }
            _ => Err(self.expected("a number, a name or `(`")),
        }
    }

    fn take(&mut self, of: impl Fn(u8) -> bool) -> String {
        let start = self.at;
        while self.peek().is_some_and(&of) {
            self.at += 1;
        }
        self.text[start..self.at].to_owned()
    }
}
