//! How an endpoint is attached: by values, or by the environment that `quincunx run`, `torchrun`, `mpirun` and `srun` set.

use crate::CommError;
use crate::launched::Launched;
use quincunx_control_grpc::{Credentials, Managers};
use quincunx_sockets::{interface_addresses, source_to};
use quincunx_units::Duration;
use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

/// What an endpoint is, and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the manager serves, and who stands by for it.
    pub manager: Managers,
    /// What the job's nodes are called: `JOBRANK`. Another job has another name; a job that is started again, too.
    pub job: String,
    /// This process among the job's, from zero.
    pub rank: u16,
    /// Processes of the job.
    pub world: u16,
    /// Ranks of a server, which have numbers in a row; none: all are on one. What is for several of another server goes there once
    /// ([`Group::multi_write`](crate::Group::multi_write)).
    pub server: Option<u16>,
    /// The address of IPv4 or IPv6 that frames come from and go to, which several ranks of a machine may share; none: the one from which the
    /// fabric's switches are reached, or other ranks, or the manager, or one of loopback for each rank.
    pub address: Option<IpAddr>,
    /// The interface whose address that is, if none is given.
    pub interface: Option<String>,
    /// What groups run, by name.
    pub design: String,
    /// Keys of the designs' parameters and their values, as `group.mtu=1KiB`.
    pub settings: Vec<(String, String)>,
    /// Switches that must be there before a group is made: those of a fabric that is being started.
    pub switches: usize,
    /// How long ranks wait for each other to form a group.
    pub join_limit: Duration,
    /// How long a collective may take.
    pub limit: Duration,
    /// After how long a rank that waits in a collective has it said on standard error whom for, and again after twice as long each time; zero:
    /// never. One line for all who wait: the first of them prints it. Who asks for a group says there, too, why it does not run in the network, if
    /// that is so.
    pub notice: Duration,
    /// How long a rank, a switch or the manager may be silent before it counts as gone: so long a process may be stopped, and goes on. One that ends
    /// is noticed at once.
    pub patience: Duration,
    /// How long to look for frames before sleeping; the design's nodes' own if none.
    pub spin: Option<Duration>,
    /// A file with what is shown to the manager: the connection is TLS then.
    pub identity: Option<PathBuf>,
}

/// What groups run if nobody says: the switches pass packets through, and every hop repairs what it loses.
const DEFAULT_DESIGN: &str = "epic-3";

impl Options {
    /// A rank of a job at a manager, everything else as it serves well.
    pub fn new(manager: Managers, job: impl Into<String>, rank: u16, world: u16) -> Self {
        Self {
            manager,
            job: job.into(),
            rank,
            world,
            server: None,
            address: None,
            interface: None,
            design: DEFAULT_DESIGN.into(),
            settings: Vec::new(),
            switches: 0,
            join_limit: Duration::from_secs(30),
            limit: Duration::from_secs(1800),
            notice: Duration::from_secs(5),
            patience: Duration::from_secs(10),
            spin: None,
            identity: None,
        }
    }

    /// What the environment says: `QUINCUNX_MANAGER` (HOST:PORT, several with commas if others stand by), `QUINCUNX_JOB`, `QUINCUNX_ADDRESS`, `QUINCUNX_INTERFACE`, `QUINCUNX_DESIGN`, `QUINCUNX_SET`
    /// (`KEY=VALUE`, several with commas), `QUINCUNX_IDENTITY`, `QUINCUNX_SPIN`, `QUINCUNX_NOTICE`, `QUINCUNX_PATIENCE`, `QUINCUNX_SWITCHES`, and rank, size and job as `torchrun`, `mpirun`, `mpiexec` or `srun` set them. What is not said is as in
    /// [`new`](Self::new), and the manager is on this machine.
    ///
    /// # Errors
    /// If a value makes no sense.
    pub fn from_environment() -> Result<Self, CommError> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        fn read<T: std::str::FromStr>(name: &str, value: &str, what: &str) -> Result<T, CommError> {
            value.parse().map_err(|_| {
                CommError::misuse(format!("{what} in {name}"), format!("\"{value}\""), "correct the variable")
            })
        }
        let manager = said("QUINCUNX_MANAGER").unwrap_or_else(|| "127.0.0.1:4790".into());
        let manager = read("QUINCUNX_MANAGER", &manager, "HOST:PORT")?;
        let Launched { rank, world, server, job } = Launched::read(said)?;
        let mut options = Self::new(manager, said("QUINCUNX_JOB").unwrap_or(job), rank, world);
        options.server = server;
        options.address = said("QUINCUNX_ADDRESS")
            .map(|value| read("QUINCUNX_ADDRESS", &value, "an IP address"))
            .transpose()?;
        options.interface = said("QUINCUNX_INTERFACE");
        if let Some(design) = said("QUINCUNX_DESIGN") {
            options.design = design;
        }
        if let Some(set) = said("QUINCUNX_SET") {
            for pair in set.split(',') {
                let Some((key, value)) = pair.split_once('=') else {
                    return Err(CommError::misuse(
                        "KEY=VALUE in QUINCUNX_SET",
                        format!("\"{pair}\""),
                        "correct the variable",
                    ));
                };
                options.settings.push((key.trim().into(), value.trim().into()));
            }
        }
        if let Some(switches) = said("QUINCUNX_SWITCHES") {
            options.switches = read::<u16>("QUINCUNX_SWITCHES", &switches, "a number below 65536")?.into();
        }
        options.spin = said("QUINCUNX_SPIN")
            .map(|value| read("QUINCUNX_SPIN", &value, "a time such as 50us"))
            .transpose()?;
        if let Some(notice) = said("QUINCUNX_NOTICE") {
            options.notice = read("QUINCUNX_NOTICE", &notice, "a time such as 5s")?;
        }
        if let Some(patience) = said("QUINCUNX_PATIENCE") {
            options.patience = read("QUINCUNX_PATIENCE", &patience, "a time such as 10s")?;
        }
        options.identity = said("QUINCUNX_IDENTITY").map(PathBuf::from);
        Ok(options)
    }

    /// With a job's name as its nodes can be called by: ranks that show the certificate of a tenant alone are called after it, as the manager
    /// wants it, and no rank of `train1` is one of `train`.
    pub(crate) fn named(mut self) -> Result<Self, CommError> {
        if self.job.ends_with(|last: char| last.is_ascii_digit()) {
            self.job.push('.');
        }
        let own = self.credentials()?.as_ref().and_then(Credentials::names_a_tenant_alone);
        if let Some(own) = own.map(|tenant| format!("{tenant}/"))
            && !self.job.starts_with(&own)
        {
            self.job.insert_str(0, &own);
        }
        Ok(self)
    }

    /// The name of a rank's node.
    pub(crate) fn node(&self, rank: u16) -> String {
        format!("{}{rank}", self.job)
    }

    pub(crate) fn check(&self) -> Result<(), CommError> {
        if self.server == Some(0) {
            let (expected, fix) = ("one rank at least on a server", "correct LOCAL_WORLD_SIZE");
            return Err(CommError::misuse(expected, "none", fix));
        }
        if self.rank >= self.world {
            return Err(CommError::misuse(
                "a rank below the number of ranks",
                format!("rank {} of {}", self.rank, self.world),
                "correct RANK and WORLD_SIZE",
            ));
        }
        Ok(())
    }

    pub(crate) fn credentials(&self) -> Result<Option<Credentials>, CommError> {
        let read = self.identity.as_deref().map(Credentials::read).transpose();
        read.map_err(|error| CommError::Misuse(error.to_string()))
    }

    /// The address that was given, or that of the interface; or else the one from which a switch of the fabric is reached, or another rank, or
    /// the manager. On loopback every rank has its own, by the job's name. `partners` are the addresses of switches and ranks, the most important
    /// first.
    pub(crate) fn own_address(
        &self,
        partners: impl FnOnce() -> Result<Vec<IpAddr>, CommError>,
    ) -> Result<IpAddr, CommError> {
        if let Some(address) = self.address {
            return Ok(address.to_canonical());
        }
        if let Some(name) = &self.interface {
            return address_of(name, &interface_addresses().unwrap_or_default());
        }
        for partner in partners()? {
            // IPv6 has one address of loopback alone, which a switch needs for itself.
            match source_to(partner) {
                Ok(local) if local.is_loopback() => return Ok(self.on_loopback()),
                Ok(local) => return Ok(local),
                Err(_) => {}
            }
        }
        let manager = self.manager.first();
        let unknown = |found: String| {
            CommError::misuse(
                format!("an address of this machine that leads to {manager}"),
                found,
                "say which with QUINCUNX_ADDRESS or QUINCUNX_INTERFACE",
            )
        };
        let mut found = (manager.host(), manager.port())
            .to_socket_addrs()
            .map_err(|error| unknown(format!("\"{error}\"")))?;
        let Some(address) = found.next() else { return Err(unknown("none".into())) };
        if address.ip().is_loopback() {
            return Ok(self.on_loopback());
        }
        source_to(address.ip()).map_err(|error| unknown(format!("\"{error}\"")))
    }

    /// 127.192.0.0 and up, by the job's name: those of fabrics that are started on this machine lie below.
    fn on_loopback(&self) -> IpAddr {
        let hash = self
            .job
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let block = (hash ^ hash >> 16).wrapping_add(u32::from(self.rank / 200)) & 0x3fff;
        IpAddr::from([127, 192 | (block >> 8) as u8, block as u8, (self.rank % 200) as u8 + 1])
    }
}

/// The address of an interface, of IPv4 if it has one; none of a link alone.
fn address_of(name: &str, all: &[(String, IpAddr)]) -> Result<IpAddr, CommError> {
    let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let own = all.iter().filter(|(of, address)| of == name && !is_of_link(address));
    own.map(|(_, address)| *address).min().ok_or_else(|| {
        let known: BTreeSet<&str> = all.iter().map(|(of, _)| of.as_str()).collect();
        CommError::misuse(
            "an interface of this machine with an address in QUINCUNX_INTERFACE",
            format!("\"{name}\""),
            &format!("name one of {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        )
    })
}

/// When a time from now is over; a century from now for one that is longer than the clock counts.
pub fn deadline(limit: std::time::Duration) -> std::time::Instant {
    const CENTURY: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 3600);
    std::time::Instant::now() + limit.min(CENTURY)
}

/// A time as the options have it; one that is too long is the longest.
pub fn duration(time: std::time::Duration) -> Duration {
    u64::try_from(time.as_micros())
        .map_or(Duration::from_secs(1 << 20), |micros| Duration::from_micros(micros.min(1 << 40)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new("10.0.0.9:4790".parse().unwrap(), "job.", 0, 2)
    }

    #[test]
    fn an_interface_is_as_good_as_its_address_and_one_that_is_not_there_is_told_with_those_that_are() {
        let all = [("lo", "127.0.0.1"), ("eth0", "fe80::1"), ("eth0", "fd00::1"), ("eth0", "10.0.0.1")];
        let all = all.map(|(name, address)| (name.to_owned(), address.parse().unwrap()));
        assert_eq!(address_of("eth0", &all).unwrap(), IpAddr::from([10, 0, 0, 1]));
        let text = address_of("eth7", &all).unwrap_err().to_string();
        assert!(text.contains("found \"eth7\"; name one of eth0, lo"), "{text}");
    }

    #[test]
    fn ranks_of_jobs_whose_names_end_in_digits_have_names_of_their_own() {
        let node = |job: &str, rank| Options { job: job.into(), ..options() }.named().unwrap().node(rank);
        assert_ne!(node("train1", 0), node("train", 10));
        assert_eq!(node("job-1.", 3), "job-1.3");
    }

    #[test]
    fn the_address_is_the_one_that_was_given_or_else_one_from_which_a_partner_is_reached() {
        let given = Options { address: Some([10, 1, 1, 1].into()), ..options() };
        assert_eq!(given.own_address(|| panic!("nobody is asked")).unwrap(), IpAddr::from([10, 1, 1, 1]));
        let mapped = Options { address: Some("::ffff:10.1.1.1".parse().unwrap()), ..options() };
        assert_eq!(mapped.own_address(|| panic!("nobody is asked")).unwrap(), IpAddr::from([10, 1, 1, 1]));
        // Nobody is there; loopback is on every machine.
        let found = options().own_address(|| Ok(vec![[255, 255, 255, 255].into(), [127, 0, 0, 7].into()]));
        assert!(found.unwrap().is_loopback());
    }
}
