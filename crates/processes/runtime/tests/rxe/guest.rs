//! The guest whose kernel is the peer, and where it runs: a namespace that holds our node, joined by a bridge to the
//! guest's network card.

use quincunx_needs::{Missing, guest_image, guest_tool};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_sockets::MacAddress;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Where our node runs.
pub(crate) const OUR_PLACE: NetnsNode = NetnsNode::Host(0);

/// The guest's address, beside those of the fabric.
pub(crate) const GUEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 100));

/// The guest's Ethernet address.
pub(crate) const GUEST_MAC: MacAddress = MacAddress([0x02, 0, 10, 77, 0, 100]);

/// The card's other end.
const TAP: &str = "tap0";

/// How long the guest may take for anything. An idle machine boots it in a few seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// What guests boot from.
pub(crate) fn image() -> Result<PathBuf, Missing> {
    guest_image(Path::new(env!("CARGO_TARGET_TMPDIR")), None)
}

/// A guest that runs a job. It is gone when this value is, and so is its network.
pub(crate) struct Guest {
    process: Child,
    console: Receiver<String>,
    heard: Vec<String>,
    fabric: NetnsFabric,
}

impl Guest {
    /// Boots a guest that has the programs `tries` run, one after another; `$gid` in them is the number of its address.
    pub(crate) fn boot(image: &Path, tries: &[String]) -> Self {
        let fabric = NetnsFabric::new(Layout::star(1, 1500, None).bridged()).expect("there are namespaces");
        for words in [format!("tuntap add dev {TAP} mode tap"), format!("link set {TAP} master br0 up")] {
            let status = fabric.command(NetnsNode::Switch(0), "ip").args(words.split(' ')).status();
            assert!(status.expect("ip is there").success(), "ip {words}");
        }
        let job = image.join("job");
        let tries: String = tries.iter().map(|line| format!("try {line}\n")).collect();
        std::fs::write(&job, format!("port {GUEST}/24\n{tries}")).expect("the folder was built in");
        let mac = GUEST_MAC.0.map(|byte| format!("{byte:02x}")).join(":");
        let mut process = fabric
            .command(NetnsNode::Switch(0), guest_tool("boot.sh"))
            .args([image.as_os_str(), TAP.as_ref(), mac.as_ref(), job.as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("ip is there");
        let output = process.stdout.take().expect("it is piped");
        let (sender, console) = channel();
        // Ends with the guest, at the end of its output.
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
        let mut guest = Self { process, console, heard: Vec::new(), fabric };
        guest.wait_for(|line| line.starts_with("guest: port "));
        guest
    }

    /// The network that our node is in, too.
    pub(crate) fn fabric(&self) -> &NetnsFabric {
        &self.fabric
    }

    /// What the console has said until now.
    pub(crate) fn console(&mut self) -> &[String] {
        self.heard.extend(self.console.try_iter());
        &self.heard
    }

    /// How the programs that have ended until now have ended.
    pub(crate) fn ended(&mut self) -> Vec<i32> {
        let statuses = self.console().iter().filter_map(|line| line.strip_prefix("guest: ended "));
        statuses.map(|status| status.parse().expect("a number")).collect()
    }

    /// Waits for a line of the console.
    fn wait_for(&mut self, is_it: impl Fn(&str) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            match self.console.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.heard.push(line),
                Err(RecvTimeoutError::Timeout) => panic!("the guest is silent: {:#?}", self.heard),
                Err(RecvTimeoutError::Disconnected) => panic!("the guest has gone: {:#?}", self.heard),
            }
            if self.heard.last().is_some_and(|line| is_it(line)) {
                return;
            }
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have powered off by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
