//! Test fabrics of Linux network namespaces: hosts and switches joined by veth links of a given rate and MTU.
//!
//! What is joined how, a [`Layout`] says: switches with hosts at them, in a tree or with several ways, or hosts alone in full mesh. All addresses are in
//! 10.77.0.0/24: hosts count up from .1, switches up from .192. Needs root and iproute2.
//!
//! A fabric goes with its maker, even one that is killed: a process that waits for the maker's end removes it. Names begin with
//! the maker's process id, so that what is left all the same can be told and swept.

#![cfg(target_os = "linux")]
#![warn(missing_docs)]

mod error;
mod layout;

pub use error::NetnsError;
use layout::Orders;
pub use layout::{Family, Layout, MAX_HOSTS, MAX_SWITCHES, NetnsNode, Switching, Wiring};
use nix::sched::{CloneFlags, setns};
use nix::unistd::mkdtemp;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A merged datagram is up to 64 KiB and passes a rate limiter whole or not at all.
const BURST: &str = "128kb";

/// What a limited link queues before it loses.
const QUEUE: &str = "400kb";

/// How long the kernel may take to bring links up.
const LINK_LIMIT: Duration = Duration::from_secs(5);

/// A fabric that exists while this value does.
#[derive(Debug)]
pub struct NetnsFabric {
    prefix: String,
    layout: Layout,
    /// Dropped with the fabric, for which it then waits.
    janitor: Janitor,
}

/// Removes namespaces and a folder when its input ends: when it is dropped, or this process has ended, however it did.
#[derive(Debug)]
struct Janitor {
    shell: Child,
    folder: PathBuf,
}

impl Janitor {
    fn start(namespaces: &[String]) -> Result<Self, NetnsError> {
        let parent = std::env::temp_dir();
        let folder = mkdtemp(&parent.join("quincunx-netns-XXXXXX")).map_err(|error| NetnsError::Folder {
            parent: parent.display().to_string(),
            found: error.desc().to_owned(),
        })?;
        // The shell hands nothing on before it has read everything. What is not there is not removed; the rest is.
        let script = "names=$(cat); echo \"$names\" | ip -force -batch -; rm -rf \"$1\"";
        let mut shell = Command::new("sh");
        // In a process group of its own: what a terminal says to ours passes it by.
        shell.args(["-c", script, "sh"]).arg(&folder).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = shell.spawn().and_then(|mut child| {
            let input = child.stdin.as_mut().expect("asked for above");
            input.write_all(removals(namespaces).as_bytes())?;
            Ok(Self { shell: child, folder })
        });
        started.map_err(|error| NetnsError::Command { command: "sh".into(), found: error.to_string() })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // What cannot be removed now, the next sweep finds.
        let _ = self.shell.wait();
    }
}

impl NetnsFabric {
    /// Builds the fabric, after sweeping what dead processes left.
    ///
    /// # Errors
    /// Without root or iproute2, with a layout that makes no sense, or if a command fails; nothing is left behind.
    pub fn new(layout: Layout) -> Result<Self, NetnsError> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        layout.check()?;
        available()?;
        sweep()?;
        let prefix = format!("qx{}x{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let name = |node| namespace(&prefix, node);
        let names: Vec<String> = layout.nodes().map(name).collect();
        // From here on, dropping the value removes whatever was made.
        let fabric = Self { janitor: Janitor::start(&names)?, prefix, layout };
        fabric.build()?;
        Ok(fabric)
    }

    /// A folder that nobody but its owner may read, which goes with the fabric: for what its processes are to share.
    pub fn folder(&self) -> &Path {
        &self.janitor.folder
    }

    /// A node's address.
    pub fn address(&self, node: NetnsNode) -> IpAddr {
        self.layout.address(node)
    }

    /// How many hosts it has.
    pub fn hosts(&self) -> usize {
        self.nodes().filter(|node| matches!(node, NetnsNode::Host(_))).count()
    }

    /// All hosts and switches.
    pub fn nodes(&self) -> impl Iterator<Item = NetnsNode> + use<> {
        self.layout.nodes()
    }

    /// The namespace of `node`, as `ip netns` names it.
    pub fn namespace(&self, node: NetnsNode) -> String {
        namespace(&self.prefix, node)
    }

    /// A command that runs `program` at `node`. Its process is the program itself: signals reach it.
    pub fn command(&self, node: NetnsNode, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node)]).arg(program.as_ref());
        command
    }

    /// Moves the calling thread to `node`: sockets it opens from now on are there.
    ///
    /// # Errors
    /// If the namespace is gone or the thread lacks the privilege.
    pub fn enter(&self, node: NetnsNode) -> Result<(), NetnsError> {
        let path = format!("/run/netns/{}", self.namespace(node));
        let entered = File::open(&path)
            .and_then(|namespace| setns(namespace, CloneFlags::CLONE_NEWNET).map_err(Into::into));
        entered.map_err(|error| NetnsError::Command {
            command: format!("setns {path}"),
            found: error.to_string(),
        })
    }

    fn build(&self) -> Result<(), NetnsError> {
        let spaces = self.nodes().fold(String::new(), |mut text, node| {
            let _ = writeln!(text, "netns add {}", self.namespace(node));
            text
        });
        batch("ip", None, &spaces)?;
        let orders = self.layout.orders(|node| self.namespace(node));
        for Orders { node, ip, .. } in &orders {
            batch("ip", Some(&self.namespace(*node)), ip)?;
        }
        for Orders { node, bridge, .. } in &orders {
            batch("bridge", Some(&self.namespace(*node)), bridge)?;
        }
        for Orders { node, devices, .. } in &orders {
            let mut text = String::new();
            for device in devices {
                if let Some(rate) = self.layout.rate {
                    let rate = rate.bits_per_second();
                    let _ = writeln!(
                        text,
                        "qdisc add dev {device} root tbf rate {rate}bit burst {BURST} limit {QUEUE}"
                    );
                }
                // Where a switch's process may want frames of the bridge: a port that gets this while frames pass loses some of them.
                if matches!(node, NetnsNode::Switch(_)) && self.layout.switching == Switching::Bridged {
                    let _ = writeln!(text, "qdisc add dev {device} clsact");
                }
            }
            batch("tc", Some(&self.namespace(*node)), &text)?;
        }
        self.nodes().try_for_each(|node| {
            if self.layout.rate.is_some() {
                self.keep_order(node);
            }
            if matches!(node, NetnsNode::Switch(_)) {
                match self.layout.switching {
                    Switching::Bridged => self.skip_firewall(node),
                    Switching::Routed => self.forward(node)?,
                    Switching::Ports => self.bind_early(node)?,
                }
            }
            wait_for_links(&self.namespace(node))
        })
    }

    /// Has the switch send on what is for others, if it came by the port behind which its sender is; of several next hops a flow takes one by
    /// its addresses and UDP ports. A redirect would tell hosts of a
    /// shorter way, which they do not have.
    fn forward(&self, node: NetnsNode) -> Result<(), NetnsError> {
        if self.layout.family == Family::V6 {
            let script =
                "cd /proc/sys/net/ipv6 && echo 1 > fib_multipath_hash_policy && echo 1 > conf/all/forwarding";
            return self.configure(node, script);
        }
        let script = "cd /proc/sys/net/ipv4 && for each in conf/*; do echo 1 > $each/rp_filter && echo 0 > $each/send_redirects; done \
                      && echo 1 > fib_multipath_hash_policy && echo 1 > ip_forward";
        self.configure(node, script)
    }

    /// Lets a manager listen at the switch's address before the process has come that brings it.
    fn bind_early(&self, node: NetnsNode) -> Result<(), NetnsError> {
        self.configure(node, "for each in 4 6; do echo 1 > /proc/sys/net/ipv$each/ip_nonlocal_bind; done")
    }

    fn configure(&self, node: NetnsNode, script: &str) -> Result<(), NetnsError> {
        let failed = |found| NetnsError::Command { command: format!("sysctl at {node:?}"), found };
        let done = self.command(node, "sh").args(["-ec", script]).output();
        let done = done.map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        if done.status.success() { Ok(()) } else { Err(failed(said)) }
    }

    /// Keeps bridged frames out of the firewall's hooks, through which some systems lead them all: a switch has none.
    fn skip_firewall(&self, node: NetnsNode) {
        let script = "for each in /proc/sys/net/bridge/bridge-nf-call-*; do [ -w $each ] && echo 0 > $each; done; true";
        let skipped = self.command(node, "sh").args(["-c", script]).stderr(Stdio::null()).status();
        if !skipped.is_ok_and(|status| status.success()) {
            tracing::warn!("cannot keep bridged frames out of the firewall; each costs more");
        }
    }

    /// Has each flow received by one processor. Otherwise a limited link hands a frame on where it leaves the rate limiter,
    /// on the sender's processor or on that of the limiter's timer, and frames of one flow overtake each other. A link
    /// without a limiter hands on where the sender runs, which changes too seldom to pay an interrupt a frame for it.
    fn keep_order(&self, node: NetnsNode) {
        // The file takes 32 processors in one word; so many are enough to spread the flows.
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(32);
        let mask = u32::MAX >> (32 - processors);
        let script =
            format!("for each in /sys/class/net/*/queues/rx-*/rps_cpus; do echo {mask:x} > $each; done");
        let steered = self.command(node, "sh").args(["-c", &script]).stderr(Stdio::null()).status();
        if !steered.is_ok_and(|status| status.success()) {
            tracing::warn!("cannot steer received flows (rps_cpus); frames may overtake each other");
        }
    }
}

fn namespace(prefix: &str, node: NetnsNode) -> String {
    match node {
        NetnsNode::Host(index) => format!("{prefix}h{index}"),
        NetnsNode::Switch(index) => format!("{prefix}s{index}"),
    }
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

/// Runs lines of commands in one process of `ip`, `tc` or `bridge`, going on after one that fails.
///
/// # Errors
/// If the tool is not there, or one of them failed.
pub fn batch(tool: &'static str, namespace: Option<&str>, text: &str) -> Result<(), NetnsError> {
    if text.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(tool);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-force", "-batch", "-"]);
    let failed = |found: String| {
        let node = namespace.unwrap_or("all");
        let first = text.lines().next().unwrap_or_default();
        NetnsError::Command { command: format!("{tool} ({node}): {first} ..."), found }
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
}
