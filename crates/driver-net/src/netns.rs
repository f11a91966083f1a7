//! Test fabrics of Linux network namespaces: hosts and switches joined by veth links of a given rate and MTU.
//!
//! Each host is a namespace with an interface `eth0`; each switch is one with a bridge `br0` that joins its links and
//! holds the switch's own address, so that hosts reach both each other and the switch. All addresses are in 10.77.0.0/24:
//! hosts count up from .1, switches up from .192. Needs root and iproute2.
//!
//! A fabric goes with its maker, even one that is killed: a process that waits for the maker's end removes it. Names begin with
//! the maker's process id, so that what is left all the same can be told and swept.

use nix::sched::{CloneFlags, setns};
use quincunx_units::BitRate;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// As many hosts as there are addresses before the first switch.
const MAX_HOSTS: usize = FIRST_SWITCH as usize - 1;

/// Last byte of the first switch's address.
const FIRST_SWITCH: u8 = 192;

/// As many switches as there are addresses from the first one on.
const MAX_SWITCHES: usize = 255 - FIRST_SWITCH as usize;

/// A merged datagram is up to 64 KiB and passes a rate limiter whole or not at all.
const BURST: &str = "128kb";

/// What a limited link queues before it loses.
const QUEUE: &str = "400kb";

/// How long the kernel may take to bring links up.
const LINK_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no fabric.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// Not on this machine, not as this user.
    #[error(
        "expected root and iproute2 for network namespaces, found {found}; run as root with `ip` and `tc` installed"
    )]
    Unavailable {
        /// What is missing.
        found: String,
    },
    /// A command failed.
    #[error(
        "expected `{command}` to succeed, found \"{found}\"; look whether the kernel has veth, bridge and tbf"
    )]
    Command {
        /// What was run.
        command: String,
        /// The first thing it complained about.
        found: String,
    },
    /// A layout that is no tree.
    #[error("expected {expected}, found {found}; change the layout")]
    Layout {
        /// What would be right.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}

/// A node of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// The i-th host.
    Host(usize),
    /// The i-th switch.
    Switch(usize),
}

impl Place {
    /// Its address: hosts from 10.77.0.1 up, switches from 10.77.0.192 up.
    pub fn address(self) -> Ipv4Addr {
        match self {
            Self::Host(index) => Ipv4Addr::new(10, 77, 0, 1 + index as u8),
            Self::Switch(index) => Ipv4Addr::new(10, 77, 0, FIRST_SWITCH + index as u8),
        }
    }
}

/// A tree of switches with hosts at them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// For each switch the one above it; exactly the first has none.
    pub parents: Vec<Option<usize>>,
    /// For each host its switch.
    pub hosts: Vec<usize>,
    /// MTU of every link in bytes.
    pub mtu: u16,
    /// Rate of every link, each way; none: as fast as the machine.
    pub rate: Option<BitRate>,
}

impl Layout {
    /// One switch with `hosts` hosts.
    pub fn star(hosts: usize, mtu: u16, rate: Option<BitRate>) -> Self {
        Self { parents: vec![None], hosts: vec![0; hosts], mtu, rate }
    }

    /// A spine, `leaves` switches below it, and `hosts` hosts at each leaf.
    pub fn two_level(leaves: usize, hosts: usize, mtu: u16, rate: Option<BitRate>) -> Self {
        let parents = std::iter::once(None).chain(std::iter::repeat_n(Some(0), leaves)).collect();
        Self { parents, hosts: (0..leaves * hosts).map(|host| 1 + host / hosts).collect(), mtu, rate }
    }

    fn check(&self) -> Result<(), NetnsError> {
        let wrong = |expected, found: String| Err(NetnsError::Layout { expected, found });
        for (switch, parent) in self.parents.iter().enumerate() {
            // A parent comes before its children: no cycle can be written down.
            match parent {
                None if switch == 0 => {}
                Some(parent) if *parent < switch => {}
                _ => {
                    return wrong(
                        "one root first and parents before their children",
                        format!("switch {switch} under {parent:?}"),
                    );
                }
            }
        }
        if let Some(host) = self.hosts.iter().position(|switch| *switch >= self.parents.len()) {
            return wrong("every host at a switch", format!("host {host} at switch {}", self.hosts[host]));
        }
        let (hosts, switches) = (self.hosts.len(), self.parents.len());
        if hosts > MAX_HOSTS || switches > MAX_SWITCHES {
            return wrong(
                "at most 191 hosts and 63 switches",
                format!("{hosts} hosts and {switches} switches"),
            );
        }
        Ok(())
    }
}

/// A fabric that exists while this value does.
#[derive(Debug)]
pub struct Fabric {
    prefix: String,
    layout: Layout,
    /// Dropped with the fabric, for which it then waits.
    _janitor: Janitor,
}

/// Removes namespaces when its input ends: when it is dropped, or this process has ended, however it did.
#[derive(Debug)]
struct Janitor(Child);

impl Janitor {
    fn start(namespaces: &[String]) -> Result<Self, NetnsError> {
        // The shell hands nothing on before it has read everything. What is not there is not removed; the rest is.
        let script = "names=$(cat); echo \"$names\" | ip -force -batch -";
        let mut shell = Command::new("sh");
        // In a process group of its own: what a terminal says to ours passes it by.
        shell.args(["-c", script]).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = shell.spawn().and_then(|mut child| {
            let input = child.stdin.as_mut().expect("asked for above");
            input.write_all(removals(namespaces).as_bytes())?;
            Ok(Self(child))
        });
        started.map_err(|error| NetnsError::Command { command: "sh".into(), found: error.to_string() })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // What cannot be removed now, the next sweep finds.
        let _ = self.0.wait();
    }
}

impl Fabric {
    /// Builds the fabric, after sweeping what dead processes left.
    ///
    /// # Errors
    /// Without root or iproute2, with a layout that is no tree, or if a command fails; nothing is left behind.
    pub fn new(layout: Layout) -> Result<Self, NetnsError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        layout.check()?;
        available()?;
        sweep()?;
        let prefix = format!("qx{}x{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let name = |place| namespace(&prefix, place);
        let names: Vec<String> = places(&layout).map(name).collect();
        // From here on, dropping the value removes whatever was made.
        let fabric = Self { _janitor: Janitor::start(&names)?, prefix, layout };
        fabric.build()?;
        Ok(fabric)
    }

    /// What it was built from.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All hosts and switches.
    pub fn places(&self) -> impl Iterator<Item = Place> + use<> {
        places(&self.layout)
    }

    /// The namespace of `place`, as `ip netns` names it.
    pub fn namespace(&self, place: Place) -> String {
        namespace(&self.prefix, place)
    }

    /// A command that runs `program` at `place`. Its process is the program itself: signals reach it.
    pub fn command(&self, place: Place, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(place)]).arg(program.as_ref());
        command
    }

    /// Moves the calling thread to `place`: sockets it opens from now on are there.
    ///
    /// # Errors
    /// If the namespace is gone or the thread lacks the privilege.
    pub fn enter(&self, place: Place) -> Result<(), NetnsError> {
        let path = format!("/run/netns/{}", self.namespace(place));
        let entered = File::open(&path)
            .and_then(|namespace| setns(namespace, CloneFlags::CLONE_NEWNET).map_err(Into::into));
        entered.map_err(|error| NetnsError::Command {
            command: format!("setns {path}"),
            found: error.to_string(),
        })
    }

    fn build(&self) -> Result<(), NetnsError> {
        let Layout { parents, hosts, mtu, rate } = &self.layout;
        let spaces = self.places().fold(String::new(), |mut text, place| {
            let _ = writeln!(text, "netns add {}", self.namespace(place));
            text
        });
        batch("ip", None, &spaces)?;
        // Per place: what `ip` and what `tc` is to do there.
        let mut links: Vec<(Place, String, Vec<String>)> =
            self.places().map(|place| (place, "link set lo up\n".to_owned(), Vec::new())).collect();
        let switch_base = hosts.len();
        for switch in 0..parents.len() {
            let address = Place::Switch(switch).address();
            let text = &mut links[switch_base + switch].1;
            let mac = mac(Place::Switch(switch));
            let _ = writeln!(text, "link add br0 address {mac} type bridge\nlink set br0 mtu {mtu} up");
            let _ = writeln!(text, "addr add {address}/24 dev br0");
        }
        let mut join = |switch: usize, port: String, other: usize, peer: &str| {
            let there = self.namespace(links[other].0);
            let text = &mut links[switch_base + switch].1;
            let _ = writeln!(
                text,
                "link add {port} mtu {mtu} type veth peer name {peer} mtu {mtu} netns {there}"
            );
            let _ = writeln!(text, "link set {port} master br0 up");
            links[switch_base + switch].2.push(port);
            links[other].2.push(peer.to_owned());
        };
        for (host, &switch) in hosts.iter().enumerate() {
            join(switch, format!("h{host}"), host, "eth0");
        }
        for (switch, parent) in parents.iter().enumerate() {
            if let Some(parent) = *parent {
                join(parent, format!("s{switch}"), switch_base + switch, "above");
            }
        }
        // Bridges and the switches' ends of links first (parents before children), then what was put at the other ends.
        for (place, text, _) in links[switch_base..].iter().chain(&links[..switch_base]) {
            let mut text = text.clone();
            match *place {
                Place::Host(_) => {
                    let _ = writeln!(text, "link set eth0 address {} up", mac(*place));
                    let _ = writeln!(text, "addr add {}/24 dev eth0", place.address());
                }
                Place::Switch(switch) if parents[switch].is_some() => {
                    let _ = writeln!(text, "link set above master br0 up");
                }
                Place::Switch(_) => {}
            }
            // Whom to ask is known from the start: frames sent while a neighbour is being found may overtake each other.
            let device = if matches!(place, Place::Host(_)) { "eth0" } else { "br0" };
            for other in self.places().filter(|other| other != place) {
                let _ = writeln!(text, "neigh add {} lladdr {} dev {device}", other.address(), mac(other));
            }
            batch("ip", Some(&self.namespace(*place)), &text)?;
        }
        if let Some(rate) = rate {
            for (place, _, devices) in &links {
                let rate = rate.bits_per_second();
                let text = devices.iter().fold(String::new(), |mut text, device| {
                    let _ = writeln!(
                        text,
                        "qdisc add dev {device} root tbf rate {rate}bit burst {BURST} limit {QUEUE}"
                    );
                    text
                });
                batch("tc", Some(&self.namespace(*place)), &text)?;
            }
        }
        self.places().try_for_each(|place| {
            if rate.is_some() {
                self.keep_order(place);
            }
            if matches!(place, Place::Switch(_)) {
                self.skip_firewall(place);
            }
            wait_for_links(&self.namespace(place))
        })
    }

    /// Keeps bridged frames out of the firewall's hooks, through which some systems lead them all: a switch has none.
    fn skip_firewall(&self, place: Place) {
        let script = "for each in /proc/sys/net/bridge/bridge-nf-call-*; do [ -w $each ] && echo 0 > $each; done; true";
        let skipped = self.command(place, "sh").args(["-c", script]).stderr(Stdio::null()).status();
        if !skipped.is_ok_and(|status| status.success()) {
            tracing::warn!("cannot keep bridged frames out of the firewall; each costs more");
        }
    }

    /// Has each flow received by one processor. Otherwise a limited link hands a frame on where it leaves the rate limiter,
    /// on the sender's processor or on that of the limiter's timer, and frames of one flow overtake each other. A link
    /// without a limiter hands on where the sender runs, which changes too seldom to pay an interrupt a frame for it.
    fn keep_order(&self, place: Place) {
        // The file takes 32 processors in one word; so many are enough to spread the flows.
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(32);
        let mask = u32::MAX >> (32 - processors);
        let script =
            format!("for each in /sys/class/net/*/queues/rx-*/rps_cpus; do echo {mask:x} > $each; done");
        let steered = self.command(place, "sh").args(["-c", &script]).stderr(Stdio::null()).status();
        if !steered.is_ok_and(|status| status.success()) {
            tracing::warn!("cannot steer received flows (rps_cpus); frames may overtake each other");
        }
    }
}

fn places(layout: &Layout) -> impl Iterator<Item = Place> + use<> {
    let (hosts, switches) = (layout.hosts.len(), layout.parents.len());
    (0..hosts).map(Place::Host).chain((0..switches).map(Place::Switch))
}

fn namespace(prefix: &str, place: Place) -> String {
    match place {
        Place::Host(index) => format!("{prefix}h{index}"),
        Place::Switch(index) => format!("{prefix}s{index}"),
    }
}

/// A locally administered Ethernet address made of the place's IP address.
fn mac(place: Place) -> String {
    let [a, b, c, d] = place.address().octets();
    format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

/// Whether fabrics can be built here.
///
/// # Errors
/// Says what is missing, in one line.
pub fn available() -> Result<(), NetnsError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(NetnsError::Unavailable { found: "another user".to_owned() });
    }
    for tool in ["ip", "tc"] {
        let ran = Command::new(tool).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !ran.is_ok_and(|status| status.success()) {
            return Err(NetnsError::Unavailable { found: format!("no `{tool}`") });
        }
    }
    Ok(())
}

/// Removes the fabrics of processes that are gone, and says how many namespaces it found of them.
///
/// # Errors
/// If `ip` fails.
pub fn sweep() -> Result<usize, NetnsError> {
    let listed = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .map_err(|error| NetnsError::Command { command: "ip netns list".into(), found: error.to_string() })?;
    let text = String::from_utf8_lossy(&listed.stdout);
    let left: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| maker(name).is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()))
        .map(str::to_owned)
        .collect();
    // Another process may sweep the same ones at the same time: one of the two then finds nothing to remove.
    let _ = batch("ip", None, &removals(&left));
    Ok(left.len())
}

/// Waits until every link in `namespace` is up: the kernel brings them up some time after it is told to, and until then
/// frames vanish.
fn wait_for_links(namespace: &str) -> Result<(), NetnsError> {
    let end = Instant::now() + LINK_LIMIT;
    loop {
        let shown = Command::new("ip").args(["-n", namespace, "-o", "link", "show"]).output();
        let text =
            shown.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        match text.lines().find(|line| !line.contains(" lo: ") && !line.contains("state UP")) {
            None => return Ok(()),
            Some(line) if Instant::now() >= end => {
                return Err(NetnsError::Command {
                    command: format!("ip -n {namespace} link set ... up"),
                    found: line.split(" mode").next().unwrap_or(line).to_owned(),
                });
            }
            Some(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// The process that made the namespace `name`, if it is one of ours.
fn maker(name: &str) -> Option<u32> {
    let (process, serial) = name.strip_prefix("qx")?.split_once('x')?;
    let (serial, index) = serial.split_once(['h', 's'])?;
    serial.parse::<u32>().ok()?;
    index.parse::<u32>().ok()?;
    process.parse().ok()
}

fn removals(namespaces: &[String]) -> String {
    namespaces.iter().map(|name| format!("netns del {name}\n")).collect()
}

/// Runs lines of commands in one process of `ip` or `tc`, going on after one that fails.
fn batch(tool: &'static str, namespace: Option<&str>, text: &str) -> Result<(), NetnsError> {
    if text.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(tool);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-force", "-batch", "-"]);
    let failed = |found: String| {
        let place = namespace.unwrap_or("all");
        let first = text.lines().next().unwrap_or_default();
        NetnsError::Command { command: format!("{tool} ({place}): {first} ..."), found }
    };
    let output = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|mut child| {
            // Dropped at the end of the statement: the tool sees the end of its input.
            child.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes()))?;
            child.wait_with_output()
        })
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(failed(complaint.lines().next().unwrap_or("no message").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_maker() {
        assert_eq!(maker("qx123x0h7"), Some(123));
        assert_eq!(maker("qx123x4s0"), Some(123));
        for other in ["peers-h0", "qx", "qx12", "qx1x2", "qxax0h1", "qx1x0hx", ""] {
            assert_eq!(maker(other), None, "{other}");
        }
    }

    #[test]
    fn places_have_addresses_of_their_own() {
        let layout = Layout::two_level(2, 2, 1500, None);
        assert_eq!(layout.hosts, [1, 1, 2, 2]);
        assert_eq!(layout.parents, [None, Some(0), Some(0)]);
        assert_eq!(Place::Host(3).address(), Ipv4Addr::new(10, 77, 0, 4));
        assert_eq!(Place::Switch(2).address(), Ipv4Addr::new(10, 77, 0, 194));
    }

    #[test]
    fn a_layout_that_is_no_tree_is_refused_before_anything_is_made() {
        let mut layout = Layout::star(2, 1500, None);
        layout.hosts[1] = 5;
        let error = Fabric::new(layout).expect_err("there is one switch");
        assert_eq!(
            error.to_string(),
            "expected every host at a switch, found host 1 at switch 5; change the layout"
        );
        let cycle = Layout { parents: vec![Some(0)], hosts: vec![], mtu: 1500, rate: None };
        assert!(matches!(Fabric::new(cycle), Err(NetnsError::Layout { .. })));
        assert!(matches!(Fabric::new(Layout::star(254, 1500, None)), Err(NetnsError::Layout { .. })));
    }
}
