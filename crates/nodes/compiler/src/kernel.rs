//! A compute kernel as the compiler step sees it: its grid, its arrays and where they live, and what each block reads and writes.
//!
//! A description is TOML:
//!
//! ```toml
//! name = "ag-gemm"
//! gpus = 8
//! grid = [11, "M / ROWS"]        # blocks: x, and y and z if there are more; numbers, or expressions of constants
//! threads = ["ROWS"]             # of a block, the same way
//!
//! [constants]
//! M = 9216
//! K = 4096
//! ROWS = 128
//!
//! [define]                       # names for expressions
//! row = "blockIdx.y * ROWS + threadIdx.x"
//!
//! [[arrays]]
//! name = "X"
//! element = "f16"
//! length = "M * K"
//! home = "index / (length / gpus)"   # the GPU whose memory holds an element; or "local": each GPU has an array of its own
//!
//! [[statements]]
//! kind = "load"                  # or "reduce", "store"
//! array = "X"
//! index = "row * K + k * 4"
//! loops = [{ name = "k", from = "0", to = "K / 4" }]
//! width = 4                      # elements of one instruction
//! ```
//!
//! [`Kernel::resized`] reads one for other numbers of GPUs and other constants than those that stand in it.

use crate::expression::{Expression, ExpressionError, Interval, Variable};
use crate::instruction::{CacheOperator, ElementType, VectorWidth};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::Deserialize;

/// Blocks of a grid at most.
const MOST_BLOCKS: u64 = 1 << 22;
/// Statements at most: each has an address register.
const MOST_STATEMENTS: usize = 255;
/// Definitions that use each other, in a row, at most.
const DEEPEST: usize = 32;

/// What is wrong with a description, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}; {remedy}")]
pub struct KernelError {
    /// The file, and where in it.
    pub place: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
    /// What to do.
    pub remedy: &'static str,
}

/// A kernel that makes sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// What it is called.
    pub name: String,
    /// GPUs that run it, each all of its grid.
    pub gpus: u16,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub threads: [u32; 3],
    /// What it works on.
    pub arrays: Vec<Array>,
    /// What each thread does.
    pub statements: Vec<Statement>,
}

/// Something in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// What it is called.
    pub name: String,
    /// Its elements.
    pub element: ElementType,
    /// How many there are.
    pub length: u64,
    /// The GPU that holds an element, by its index; none if each GPU has an array of its own.
    pub home: Option<Expression>,
}

/// What a statement does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatementKind {
    /// Reads an element.
    Load,
    /// Adds to an element.
    Reduce,
    /// Writes an element.
    Store,
}

/// An access of each thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// To which of the arrays.
    pub array: usize,
    /// Which element, as it is written.
    pub text: String,
    /// Which element.
    pub index: Expression,
    /// The loops around it, the outermost first.
    pub loops: Vec<Loop>,
    /// Elements of one instruction.
    pub width: VectorWidth,
    /// Where a load is cached.
    pub cache: CacheOperator,
}

/// A loop around a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Its variable.
    pub name: String,
    /// Its first value.
    pub from: Expression,
    /// What it ends before.
    pub to: Expression,
    /// What its variable can be.
    pub bounds: Interval,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    name: String,
    gpus: u16,
    grid: Vec<Size>,
    #[serde(default)]
    threads: Vec<Size>,
    #[serde(default)]
    constants: BTreeMap<String, i64>,
    #[serde(default)]
    define: BTreeMap<String, String>,
    arrays: Vec<ArrayDescription>,
    statements: Vec<StatementDescription>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayDescription {
    name: String,
    element: String,
    length: String,
    home: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementDescription {
    kind: StatementKind,
    array: String,
    index: String,
    #[serde(default)]
    loops: Vec<LoopDescription>,
    #[serde(default = "one")]
    width: Size,
    #[serde(default = "everywhere")]
    cache: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoopDescription {
    name: String,
    from: String,
    to: String,
}

/// A number, or an expression of constants.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Size {
    Number(u32),
    Expression(String),
}

const fn one() -> Size {
    Size::Number(1)
}

fn everywhere() -> String {
    "ca".to_string()
}

/// Where a name is looked up.
struct Scope<'a> {
    description: &'a Description,
    /// Grid and threads; none while these are read.
    shape: Option<[[u32; 3]; 2]>,
    /// Loops that are open, the outermost first.
    loops: &'a [Loop],
    /// The length of the array whose home rule is read.
    length: Option<i64>,
    threads: bool,
}

impl Scope<'_> {
    fn variable(&self, name: &str) -> Option<Expression> {
        let component = |rest: &str| ["x", "y", "z"].iter().position(|known| *known == rest);
        let (base, rest) = name.split_once('.').unwrap_or((name, ""));
        let size = |of: usize| Some(Expression::Number(self.shape?[of][component(rest)?].into()));
        let found = match base {
            "gpus" if rest.is_empty() => Expression::Number(self.description.gpus.into()),
            "gridDim" => return size(0),
            "blockDim" => return size(1),
            "index" if rest.is_empty() && self.length.is_some() => Expression::Variable(Variable::Index),
            "length" if rest.is_empty() => Expression::Number(self.length?),
            "gpuId" if rest.is_empty() && self.threads => Expression::Variable(Variable::GpuId),
            "blockIdx" if self.threads => Expression::Variable(Variable::Block(component(rest)? as u8)),
            "threadIdx" if self.threads => Expression::Variable(Variable::Thread(component(rest)? as u8)),
            _ => return None,
        };
        Some(found)
    }

    /// What a name means; `deep` definitions use each other so far.
    fn resolve(&self, name: &str, deep: usize) -> Option<Expression> {
        if let Some(found) = self.variable(name) {
            return Some(found);
        }
        if let Some(number) = self.loops.iter().position(|open| open.name == name) {
            return Some(Expression::Variable(Variable::Loop(number as u8)));
        }
        if let Some(constant) = self.description.constants.get(name) {
            return Some(Expression::Number(*constant));
        }
        let text = self.description.define.get(name).filter(|_| self.threads && deep < DEEPEST)?;
        // Definitions are read where they stand: loops are not open there.
        let outside = Scope { loops: &[], ..*self };
        let value = Expression::parse(text, &|name| outside.resolve(name, deep + 1)).ok()?;
        Some(Expression::Defined(name.to_string(), value.into()))
    }

    fn parse(&self, text: &str) -> Result<Expression, ExpressionError> {
        Expression::parse(text, &|name| self.resolve(name, 0))
    }

    /// A size's value; zero if it is none.
    fn size(&self, size: &Size) -> Result<u32, ExpressionError> {
        let text = match size {
            Size::Number(number) => return Ok(*number),
            Size::Expression(text) => text,
        };
        let value = Scope { threads: false, shape: None, ..*self }.parse(text)?;
        value.bounds(&|_| Interval::point(0))?;
        Ok(value.evaluate(&|_| 0).and_then(|value| u32::try_from(value).ok()).unwrap_or(0))
    }
}

/// Says where something is wrong.
struct ErrorLocation<'a> {
    file: &'a str,
}

impl ErrorLocation<'_> {
    fn error(
        &self,
        at: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
        remedy: &'static str,
    ) -> KernelError {
        let separator = if at.is_empty() { "" } else { ", " };
        KernelError {
            place: format!("{}{separator}{at}", self.file),
            expected: expected.into(),
            found: found.into(),
            remedy,
        }
    }

    fn expression(&self, at: &str) -> impl Fn(ExpressionError) -> KernelError {
        move |ExpressionError { expected, found }| self.error(at, expected, found, "correct the expression")
    }
}

impl Kernel {
    /// Reads a description; `file` is what errors call it.
    ///
    /// # Errors
    /// If it is no TOML, a key is missing or unknown, an expression makes no sense or may divide by zero, or a size is zero or too large.
    pub fn parse(file: &str, text: &str) -> Result<Self, KernelError> {
        let description = toml::from_str(text).map_err(|error| in_a_line(file, text, &error))?;
        Self::read(file, &description)
    }

    /// The same for so many GPUs, and with these values of its constants.
    ///
    /// # Errors
    /// As of [`Kernel::parse`], or if it has no constant of one of the names.
    pub fn resized(
        file: &str,
        text: &str,
        gpus: u16,
        constants: &[(&str, u32)],
    ) -> Result<Self, KernelError> {
        let mut description: Description =
            toml::from_str(text).map_err(|error| in_a_line(file, text, &error))?;
        description.gpus = gpus;
        for &(name, value) in constants {
            let Some(constant) = description.constants.get_mut(name) else {
                let expected = format!("a constant `{name}`, which its user sets");
                let place = ErrorLocation { file };
                return Err(place.error("constants", expected, "none", "write its sizes by this constant"));
            };
            *constant = value.into();
        }
        Self::read(file, &description)
    }

    fn read(file: &str, description: &Description) -> Result<Self, KernelError> {
        let place = ErrorLocation { file };
        let remedy = "correct it";
        let sizes = Scope { description, shape: None, loops: &[], length: None, threads: false };
        let shape = |key: &str, found: &[Size]| {
            let found: Result<Vec<u32>, _> = found.iter().map(|size| sizes.size(size)).collect();
            match found.map_err(place.expression(key))?[..] {
                [] if key == "threads" => Ok([1; 3]),
                [x] if x > 0 => Ok([x, 1, 1]),
                [x, y] if x > 0 && y > 0 => Ok([x, y, 1]),
                [x, y, z] if x > 0 && y > 0 && z > 0 => Ok([x, y, z]),
                ref other => {
                    Err(place.error(key, "one to three sizes of one or more", format!("{other:?}"), remedy))
                }
            }
        };
        let grid = shape("grid", &description.grid)?;
        let threads = shape("threads", &description.threads)?;
        let blocks: u64 = grid.iter().fold(1, |blocks: u64, &size| blocks.saturating_mul(size.into()));
        if blocks > MOST_BLOCKS {
            let expected = format!("a grid of at most {MOST_BLOCKS} blocks");
            return Err(place.error("grid", expected, blocks.to_string(), "describe a smaller grid"));
        }
        if description.gpus == 0 {
            return Err(place.error("gpus", "one GPU or more", "0", remedy));
        }
        let scope = Scope { shape: Some([grid, threads]), threads: true, ..sizes };
        for name in description.constants.keys().chain(description.define.keys()) {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || name.starts_with(|first: char| first.is_ascii_digit()) || is_reserved(name) {
                let expected = "names of letters, digits and `_` that mean nothing else";
                return Err(place.error("names", expected, format!("`{name}`"), "choose another name"));
            }
        }
        for (name, text) in &description.define {
            if description.constants.contains_key(name) {
                let found = format!("`{name}` as a constant and a definition");
                return Err(place.error("define", "a name once", found, "choose another name"));
            }
            scope.parse(text).map_err(place.expression(&format!("definition of `{name}`")))?;
        }
        let arrays: Vec<Array> = description
            .arrays
            .iter()
            .map(|array| read_array(&place, &scope, array))
            .collect::<Result<_, _>>()?;
        for (number, array) in arrays.iter().enumerate() {
            if arrays[..number].iter().any(|other| other.name == array.name) {
                let found = format!("`{}` twice", array.name);
                return Err(place.error("arrays", "each name once", found, "choose another name"));
            }
        }
        let mut kernel = Self {
            name: description.name.clone(),
            gpus: description.gpus,
            grid,
            threads,
            arrays,
            statements: Vec::new(),
        };
        for (number, statement) in description.statements.iter().enumerate() {
            let read = read_statement(&place, &scope, &kernel, statement, number + 1)?;
            kernel.statements.push(read);
        }
        if !(1..=MOST_STATEMENTS).contains(&kernel.statements.len()) {
            let expected = format!("1 to {MOST_STATEMENTS} statements");
            let found = kernel.statements.len().to_string();
            return Err(place.error("statements", expected, found, "describe what the kernel accesses"));
        }
        Ok(kernel)
    }

    /// Blocks of the grid.
    pub fn blocks(&self) -> u32 {
        self.grid.iter().product()
    }

    /// The components of a block's number: x runs fastest.
    pub const fn block(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [number % x, number / x % y, number / x / y]
    }

    /// What a variable of a statement can be.
    pub fn bounds(&self, statement: &Statement, variable: Variable) -> Interval {
        self.bounds_within(&statement.loops, variable)
    }

    fn bounds_within(&self, loops: &[Loop], variable: Variable) -> Interval {
        match variable {
            Variable::GpuId => Interval::below(self.gpus.into()),
            Variable::Block(at) => Interval::below(self.grid[usize::from(at)]),
            Variable::Thread(at) => Interval::below(self.threads[usize::from(at)]),
            Variable::Loop(number) => loops[usize::from(number)].bounds,
            Variable::Index => panic!("an index of a home rule alone"),
        }
    }
}

fn is_reserved(name: &str) -> bool {
    ["gpuId", "gpus", "index", "length", "blockIdx", "threadIdx", "gridDim", "blockDim"].contains(&name)
}

fn read_array(
    place: &ErrorLocation<'_>,
    scope: &Scope<'_>,
    array: &ArrayDescription,
) -> Result<Array, KernelError> {
    let at = |key: &str| format!("array `{}`, `{key}`", array.name);
    let scope = Scope { threads: false, ..*scope };
    let known = ElementType::ALL.into_iter().find(|known| known.name() == array.element);
    let Some(element) = known else {
        let found = format!("`{}`", array.element);
        return Err(place.error(&at("element"), "f16, bf16, f32, s32 or u32", found, "name one of them"));
    };
    let nothing = |_| Interval::point(0);
    let length = scope.parse(&array.length).and_then(|length| {
        length.bounds(&nothing)?;
        Ok(length.evaluate(&|_| 0))
    });
    let length = length.map_err(place.expression(&at("length")))?.filter(|length| *length > 0);
    let Some(length) = length else {
        return Err(place.error(
            &at("length"),
            "one element or more",
            format!("`{}`", array.length),
            "correct it",
        ));
    };
    let home = if array.home == "local" {
        None
    } else {
        let rule = Scope { length: Some(length), ..scope }.parse(&array.home);
        let rule = rule.map_err(place.expression(&at("home")))?;
        let index = Interval { low: 0, high: i128::from(length) - 1 };
        let found = rule.bounds(&|_| index).map_err(place.expression(&at("home")))?;
        let gpus = i128::from(scope.description.gpus);
        if found.low < 0 || found.high >= gpus {
            let expected = format!("`local`, or GPUs from 0 to {} for every `index`", gpus - 1);
            let found = format!("{} to {}", found.low, found.high);
            return Err(place.error(&at("home"), expected, found, "correct the rule"));
        }
        Some(rule)
    };
    Ok(Array { name: array.name.clone(), element, length: length as u64, home })
}

fn read_statement(
    place: &ErrorLocation<'_>,
    scope: &Scope<'_>,
    kernel: &Kernel,
    statement: &StatementDescription,
    number: usize,
) -> Result<Statement, KernelError> {
    let at = |key: &str| format!("statement {number}, `{key}`");
    let Some(array) = kernel.arrays.iter().position(|array| array.name == statement.array) else {
        let known: Vec<&str> = kernel.arrays.iter().map(|array| &*array.name).collect();
        let found = format!("`{}`", statement.array);
        let expected = format!("one of the arrays ({})", known.join(", "));
        return Err(place.error(&at("array"), expected, found, "name one of them"));
    };
    let elements = scope.size(&statement.width).map_err(place.expression(&at("width")))?;
    let width = VectorWidth::ALL.into_iter().find(|width| u32::from(width.elements()) == elements);
    let Some(width) = width else {
        let found = elements.to_string();
        return Err(place.error(&at("width"), "1, 2, 4 or 8 elements", found, "choose one of them"));
    };
    let cache = CacheOperator::ALL.into_iter().find(|cache| cache.name() == statement.cache);
    let Some(cache) = cache else {
        let found = format!("`{}`", statement.cache);
        return Err(place.error(&at("cache"), "ca, cg, cs or cv", found, "name one of them"));
    };
    let mut loops: Vec<Loop> = Vec::new();
    for LoopDescription { name, from, to } in &statement.loops {
        let at = format!("statement {number}, loop `{name}`");
        let scope = Scope { loops: &loops, ..*scope };
        if loops.len() == 8 || is_reserved(name) || scope.resolve(name, 0).is_some() {
            let expected = "at most eight loops with names that mean nothing else";
            return Err(place.error(&at, expected, format!("`{name}`"), "choose another name"));
        }
        let wrong = place.expression(&at);
        let (from, to) = (scope.parse(from).map_err(&wrong)?, scope.parse(to).map_err(&wrong)?);
        let of = |variable| kernel.bounds_within(&loops, variable);
        let (first, end) = (from.bounds(&of).map_err(&wrong)?, to.bounds(&of).map_err(&wrong)?);
        if end.high <= first.low {
            let found = format!("{} to before {}", first.low, end.high);
            return Err(place.error(&at, "a loop that runs at least once", found, "correct its bounds"));
        }
        let bounds = Interval { low: first.low, high: end.high - 1 };
        loops.push(Loop { name: name.clone(), from, to, bounds });
    }
    let scope = Scope { loops: &loops, ..*scope };
    let here = at("index");
    let wrong = place.expression(&here);
    let index = scope.parse(&statement.index).map_err(&wrong)?;
    let found = index.bounds(&|variable| kernel.bounds_within(&loops, variable)).map_err(&wrong)?;
    let length = kernel.arrays[array].length;
    if found.high < 0 || found.low >= i128::from(length) {
        let expected = format!("elements 0 to {} of `{}`", length - 1, statement.array);
        let found = format!("{} to {}", found.low, found.high);
        return Err(place.error(&at("index"), expected, found, "correct the expression"));
    }
    let (kind, text) = (statement.kind, statement.index.clone());
    Ok(Statement { kind, array, text, index, loops, width, cache })
}

/// What the parser of TOML says, in one line with the line's number.
fn in_a_line(file: &str, text: &str, error: &toml::de::Error) -> KernelError {
    let line =
        error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    KernelError {
        place: line.map_or_else(|| file.to_string(), |line| format!("{file}, line {line}")),
        expected: "a kernel as TOML".to_string(),
        found: error.message().replace('\n', " "),
        remedy: "see `quincunx cais explain --help`",
    }
}
