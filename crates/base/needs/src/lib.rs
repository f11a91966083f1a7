//! What tests need of the machine that not every machine has, and the one way to tell that it is not there.
//!
//! A test that needs root, a program or a package of the system asks for it first, with [`need!`]. Where it is missing the test
//! ends there, and is skipped: one line on standard error says so, past the capture of the test's output, and one line in the file that the
//! environment variable [`RECORD`] names tells the runner, `tools/run_tests.py`, which counts it. `tools/skips.py` holds that tests have no
//! other way to end early.
//!
//! A room for tests alone: others name it among their `dev-dependencies`, and it knows none of them.

mod guest;
mod hardware;

pub use guest::{guest_image, guest_tool};
pub use hardware::hardware_simulator;
use std::borrow::Cow;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::panic::Location;
use std::process::{Command, Stdio};
use std::thread;

/// The environment variable with the path of the file that skips are told in. Without it, standard error alone is told.
pub const RECORD: &str = "QUINCUNX_SKIPS";

/// What would let the test run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// To be root.
    Root,
    /// Packages of the system, by their names in Debian: all of these together.
    Packages(Cow<'static, [&'static str]>),
    /// Nothing that a set-up could do here: the kernel does not offer it, or the network is out of reach.
    Nothing,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Packages(names) => write!(f, "packages {}", names.join(" ")),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// What a test needs and has not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing {
    /// What would help.
    pub remedy: Remedy,
    /// What was expected, what was found, and what to do, in one line.
    pub why: String,
}

impl Missing {
    /// Something that `names`, packages of Debian, would bring.
    pub fn packages(names: &'static [&'static str], why: impl Into<String>) -> Self {
        Self { remedy: Remedy::Packages(Cow::Borrowed(names)), why: why.into() }
    }

    /// Something that nothing here would bring.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { remedy: Remedy::Nothing, why: why.into() }
    }
}

/// What the machine has, or the end of this test, which then counts as skipped.
///
/// Takes a `Result<T, Missing>` and is a `T`. Stands in the body of the test itself.
#[macro_export]
macro_rules! need {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(missing) => return $crate::tell(&missing),
        }
    };
}

/// A program on PATH, which the Debian package `package` brings.
///
/// # Errors
/// If it cannot be started.
pub fn program(name: &'static str, package: &'static str) -> Result<(), Missing> {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Whatever it says of the argument, it is there.
    match command.status() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Missing {
            remedy: Remedy::Packages(Cow::Owned(vec![package])),
            why: format!("expected `{name}` on PATH, found none; apt-get install {package}"),
        }),
        Err(error) => panic!("{name}: {error}"),
        Ok(_) => Ok(()),
    }
}

/// The loopback address of IPv6.
///
/// # Errors
/// If nobody can listen there.
pub fn ipv6() -> Result<(), Missing> {
    match std::net::TcpListener::bind("[::1]:0") {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(Missing::nothing(format!("expected to listen at [::1], found \"{error}\"; enable IPv6")))
        }
    }
}

/// To be root.
///
/// # Errors
/// If the user is another.
pub fn root() -> Result<(), Missing> {
    // The folder of a process belongs to its effective user.
    match std::fs::metadata("/proc/self").expect("Linux").uid() {
        0 => Ok(()),
        user => Err(Missing {
            remedy: Remedy::Root,
            why: format!("expected root, found user {user}; run as root"),
        }),
    }
}

/// Network namespaces: root, iproute2, and a kernel that lets root have them.
///
/// # Errors
/// If one of the three is missing.
pub fn namespaces() -> Result<(), Missing> {
    root()?;
    program("ip", "iproute2")?;
    program("tc", "iproute2")?;
    program("unshare", "util-linux")?;
    let tried = Command::new("unshare").args(["--net", "true"]).stdin(Stdio::null()).output();
    let tried = tried.expect("it was there a moment ago");
    if !tried.status.success() {
        let found = String::from_utf8_lossy(&tried.stderr).trim().replace('\n', " ");
        return Err(Missing::nothing(format!(
            "expected root to make network namespaces, found \"{found}\"; run where CAP_SYS_ADMIN and CAP_NET_ADMIN are given"
        )));
    }
    Ok(())
}

/// XDP sockets (AF_XDP).
///
/// # Errors
/// If the kernel has none.
pub fn xdp_sockets() -> Result<(), Missing> {
    let protocols = std::fs::read_to_string("/proc/net/protocols").expect("Linux with a network");
    if protocols.lines().any(|line| line.starts_with("XDP ")) {
        return Ok(());
    }
    Err(Missing::nothing(
        "expected a kernel with XDP sockets (CONFIG_XDP_SOCKETS), found none in /proc/net/protocols; use another kernel",
    ))
}

/// Tells that the test that calls this is skipped.
///
/// # Panics
/// If the runner's file cannot be written: it would not hear of the skip.
#[doc(hidden)]
#[track_caller]
pub fn tell(missing: &Missing) {
    let thread = thread::current();
    let place = Location::caller();
    let test = match thread.name() {
        // The test has a thread of its own, with its name.
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", place.file(), place.line()),
    };
    let why = missing.why.replace(['\n', '\t'], " ");
    if let Some(path) = std::env::var_os(RECORD) {
        let file = OpenOptions::new().append(true).open(&path);
        let mut file = file.unwrap_or_else(|error| panic!("{RECORD}={}: {error}", path.display()));
        // In one piece, for other tests write too.
        let line = format!("{test}\t{}\t{why}\n", missing.remedy);
        file.write_all(line.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let _ = std::io::stderr().write_all(format!("not run: {test}: {why}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test that needs a package, run by another one with a record of its own.
    #[test]
    fn needy() {
        let wants = std::env::var("QUINCUNX_NEEDY").is_ok();
        need!(if wants { Err(Missing::packages(&["left", "right"], "two\nlines")) } else { Ok(()) });
    }

    /// Runs [`needy`] where it lacks something: what it says, and what it records.
    fn run_needy(record: &std::path::Path) -> (bool, String) {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "tests::needy"]).env("QUINCUNX_NEEDY", "1").env(RECORD, record);
        let output = command.output().expect("this program starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[test]
    fn a_skip_is_told_to_the_runner_and_past_the_capture_of_the_tests_output() {
        let record = std::env::temp_dir().join(format!("needs-{}", std::process::id()));
        std::fs::write(&record, "").expect("a file of ours");
        let (passed, said) = run_needy(&record);
        let told = std::fs::read_to_string(&record).expect("it is there");
        std::fs::remove_file(&record).expect("it is there");
        assert!(passed, "{said}");
        assert_eq!(told, "tests::needy\tpackages left right\ttwo lines\n");
        assert_eq!(said, "not run: tests::needy: two lines\n");
    }

    #[test]
    fn a_skip_that_the_runner_cannot_hear_of_is_a_failure() {
        let (passed, _) = run_needy("/nowhere/record".as_ref());
        assert!(!passed);
    }

    #[test]
    fn a_program_that_is_not_there_names_its_package() {
        let missing = program("no-such-program", "its-package").expect_err("it is not there");
        assert_eq!(missing.remedy.to_string(), "packages its-package");
        assert_eq!(program("sh", "dash"), Ok(()));
    }
}
