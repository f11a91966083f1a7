//! A normal form of index expressions, so that what cancels is seen to cancel: a polynomial over variables and quotients.
//!
//! `a % c` is `a - c * (a / c)`, so that quotients alone are left. `a / c` of an `a` that is never negative is rounded down, and then
//! `(c * q + r) / c` is `q + r / c` whatever the signs of `q` and `r` are: multiples of the divisor come out, what the bounds of `r` fix becomes a
//! number, and common factors are cut. Whatever this does not see through stays a quotient, which counts as depending on all that is in
//! it. So two expressions with one normal form are equal everywhere, and not the other way round.

use crate::expression::{Expression, Interval, Operator, Variable};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// Terms of a polynomial at most. Longer ones have no normal form here.
const MOST_TERMS: usize = 512;

/// A factor of a term.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Factor {
    Variable(Variable),
    /// Rounded down, by a positive number.
    Floor(Box<Normal>, i128),
    /// Toward zero, by anything but zero.
    Quotient(Box<Normal>, Box<Normal>),
}

/// A polynomial: the coefficient of each product of factors, none of them zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Normal(BTreeMap<Vec<Factor>, i128>);

/// Bounds of each variable.
pub type Bounds<'a> = &'a dyn Fn(Variable) -> Interval;

impl Normal {
    /// The normal form of an expression whose [bounds](Expression::bounds) exist; none if it is too long.
    pub fn of(expression: &Expression, bounds: Bounds<'_>) -> Option<Self> {
        Some(match expression {
            Expression::Number(number) => Self::number((*number).into()),
            Expression::Variable(variable) => {
                let Interval { low, high } = bounds(*variable);
                if low == high { Self::number(low) } else { Self::factor(Factor::Variable(*variable)) }
            }
            Expression::Defined(_, value) => Self::of(value, bounds)?,
            Expression::Binary(..) if let Some(value) = only_value(expression, bounds) => Self::number(value),
            Expression::Binary(operator, left, right) => {
                let (a, b) = (Self::of(left, bounds)?, Self::of(right, bounds)?);
                let quotient = |a: &Self, b: &Self| {
                    let numerator = left.bounds(bounds).ok()?;
                    a.divide(b, numerator, bounds)
                };
                match operator {
                    Operator::Add => a.add(&b, 1)?,
                    Operator::Subtract => a.add(&b, -1)?,
                    Operator::Multiply => a.multiply(&b)?,
                    Operator::Divide => quotient(&a, &b)?,
                    Operator::Remainder => a.add(&quotient(&a, &b)?.multiply(&b)?, -1)?,
                }
            }
        })
    }

    fn number(value: i128) -> Self {
        let mut terms = BTreeMap::new();
        if value != 0 {
            terms.insert(Vec::new(), value);
        }
        Self(terms)
    }

    fn factor(factor: Factor) -> Self {
        Self(BTreeMap::from([(vec![factor], 1)]))
    }

    /// The number that it is, if it is one.
    fn as_number(&self) -> Option<i128> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// What is added to all else.
    pub fn constant(&self) -> i128 {
        self.0.get(&Vec::new()).copied().unwrap_or(0)
    }

    fn put(&mut self, term: Vec<Factor>, coefficient: i128) -> Option<()> {
        let sum = self.0.get(&term).copied().unwrap_or(0).checked_add(coefficient)?;
        if sum == 0 {
            self.0.remove(&term);
        } else {
            self.0.insert(term, sum);
        }
        (self.0.len() <= MOST_TERMS).then_some(())
    }

    /// With `times` the other.
    fn add(&self, other: &Self, times: i128) -> Option<Self> {
        let mut sum = self.clone();
        for (term, coefficient) in &other.0 {
            sum.put(term.clone(), coefficient.checked_mul(times)?)?;
        }
        Some(sum)
    }

    fn multiply(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (left, a) in &self.0 {
            for (right, b) in &other.0 {
                let mut term = [&**left, &**right].concat();
                term.sort();
                product.put(term, a.checked_mul(*b)?)?;
            }
        }
        Some(product)
    }

    /// Division toward zero, where `numerator` bounds this one.
    fn divide(&self, by: &Self, numerator: Interval, bounds: Bounds<'_>) -> Option<Self> {
        match by.as_number() {
            Some(divisor) if divisor > 0 && numerator.low >= 0 => self.floor(divisor, numerator, bounds),
            Some(divisor) if divisor != 0 && self.as_number().is_some() => {
                Some(Self::number(self.as_number()?.checked_div(divisor)?))
            }
            _ => Some(Self::factor(Factor::Quotient(self.clone().into(), by.clone().into()))),
        }
    }

    /// Division by a positive number, rounded down, where `known` bounds this one.
    fn floor(&self, by: i128, known: Interval, bounds: Bounds<'_>) -> Option<Self> {
        if by == 1 {
            return Some(self.clone());
        }
        if let Some(value) = single(known, by) {
            return Some(Self::number(value));
        }
        // Multiples of the divisor come out.
        let (mut whole, mut rest) = (Self::default(), Self::default());
        for (term, coefficient) in &self.0 {
            let (quotient, remainder) = (coefficient.div_euclid(by), coefficient.rem_euclid(by));
            if quotient != 0 {
                whole.put(term.clone(), quotient)?;
            }
            if remainder != 0 {
                rest.put(term.clone(), remainder)?;
            }
        }
        rest.floor_of_rest(by, bounds)?.add(&whole, 1)
    }

    /// The same where all coefficients are below the divisor.
    fn floor_of_rest(&self, by: i128, bounds: Bounds<'_>) -> Option<Self> {
        let found = self.bounds(bounds);
        if let Some(value) = found.and_then(|found| single(found, by)) {
            return Some(Self::number(value));
        }
        let wide = Interval { low: i128::MIN, high: i128::MAX };
        // A factor of the divisor and of the terms in a part of this one. What is left must stay below the factor, and then never carries.
        let variable = self.0.iter().filter(|(term, _)| !term.is_empty());
        let mut factors: BTreeSet<i128> =
            variable.map(|(_, coefficient)| greatest_common_divisor(*coefficient, by)).collect();
        let all = self.0.iter().filter(|(term, _)| !term.is_empty());
        factors
            .insert(all.fold(by, |factor, (_, coefficient)| greatest_common_divisor(*coefficient, factor)));
        for factor in factors.into_iter().rev().filter(|&factor| factor > 1) {
            let (mut multiples, mut low) = (Self::default(), Self::default());
            for (term, coefficient) in &self.0 {
                let (quotient, remainder) = (coefficient.div_euclid(factor), coefficient.rem_euclid(factor));
                if term.is_empty() {
                    multiples.put(Vec::new(), quotient)?;
                    low.put(Vec::new(), remainder)?;
                } else if remainder == 0 {
                    multiples.put(term.clone(), quotient)?;
                } else {
                    low.put(term.clone(), *coefficient)?;
                }
            }
            let carries = low.bounds(bounds).is_none_or(|low| low.low < 0 || low.high >= factor);
            if !carries && (factor < by || multiples.as_number().is_some()) {
                return multiples.floor(by / factor, wide, bounds);
            }
        }
        Some(Self::factor(Factor::Floor(self.clone().into(), by)))
    }

    /// Bounds of its value; none if they are not known.
    pub fn bounds(&self, of: Bounds<'_>) -> Option<Interval> {
        let mut sum = Interval::point(0);
        for (term, coefficient) in &self.0 {
            let mut product = Interval::point(*coefficient);
            for factor in term {
                product = product.multiply(factor.bounds(of)?)?;
            }
            sum = sum.add(product)?;
        }
        Some(sum)
    }

    /// Its value where each variable is what `of` says; none if it needs more than 128 bits.
    pub fn evaluate(&self, of: &dyn Fn(Variable) -> i64) -> Option<i128> {
        let mut sum: i128 = 0;
        for (term, coefficient) in &self.0 {
            let mut product = *coefficient;
            for factor in term {
                let value = match factor {
                    Factor::Variable(variable) => of(*variable).into(),
                    Factor::Floor(inner, by) => inner.evaluate(of)?.checked_div_euclid(*by)?,
                    Factor::Quotient(inner, by) => inner.evaluate(of)?.checked_div(by.evaluate(of)?)?,
                };
                product = product.checked_mul(value)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// Whether a variable of which `holds` is true stands in it.
    pub fn mentions(&self, holds: &dyn Fn(Variable) -> bool) -> bool {
        self.0.keys().any(|term| mentions(term, holds))
    }

    /// In three: terms of which no variable is `chosen`, terms of which all are, and terms with both.
    pub fn split(&self, chosen: &dyn Fn(Variable) -> bool) -> [Self; 3] {
        let mut parts = [Self::default(), Self::default(), Self::default()];
        for (term, coefficient) in &self.0 {
            let others = mentions(term, &|variable| !chosen(variable));
            let part = match (mentions(term, chosen), others) {
                (false, _) => 0,
                (true, false) => 1,
                (true, true) => 2,
            };
            parts[part].0.insert(term.clone(), *coefficient);
        }
        parts
    }
}

/// The value of an expression that can have no other.
fn only_value(expression: &Expression, bounds: Bounds<'_>) -> Option<i128> {
    let Interval { low, high } = expression.bounds(bounds).ok()?;
    (low == high).then_some(low)
}

fn mentions(term: &[Factor], holds: &dyn Fn(Variable) -> bool) -> bool {
    term.iter().any(|factor| match factor {
        Factor::Variable(variable) => holds(*variable),
        Factor::Floor(inner, _) => inner.mentions(holds),
        Factor::Quotient(inner, by) => inner.mentions(holds) || by.mentions(holds),
    })
}

impl Factor {
    fn bounds(&self, of: Bounds<'_>) -> Option<Interval> {
        match self {
            Self::Variable(variable) => Some(of(*variable)),
            Self::Floor(inner, by) => {
                let Interval { low, high } = inner.bounds(of)?;
                Some(Interval { low: low.div_euclid(*by), high: high.div_euclid(*by) })
            }
            Self::Quotient(inner, by) => inner.bounds(of)?.divide(by.bounds(of)?),
        }
    }
}

/// What all of an interval gives when it is divided and rounded down, if that is one number.
fn single(of: Interval, by: i128) -> Option<i128> {
    let (low, high) = (of.low.div_euclid(by), of.high.div_euclid(by));
    (low == high).then_some(low)
}

/// Of two numbers, not both of them zero.
fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
