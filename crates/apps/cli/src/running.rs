//! A fabric that runs already, for `quincunx perf --manager`: who is there, and what the ranks that join it are called.

use quincunx_control::{NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ControlClient, Credentials, Managers};
use quincunx_design::Catalog;
use quincunx_perf::launch::RunningFabric;
use quincunx_units::Duration;
use quincunx_wire::Framing;
use std::net::IpAddr;
use std::time::SystemTime;

use crate::Failure;
use crate::options::IdentityOptions;

pub(crate) struct Running {
    client: ControlClient,
    manager: Managers,
    prefix: String,
    addresses: Vec<IpAddr>,
    /// By address: the order in which groups take them.
    switches: Vec<NodeDescription>,
}

impl Running {
    /// Asks the manager who is there. `addresses` are the ranks', which go round if they are fewer, or none for some of loopback.
    pub(crate) fn find(
        manager: &Managers,
        identity_options: &IdentityOptions,
        addresses: &[IpAddr],
        ranks: u16,
    ) -> Result<Self, Failure> {
        check_addresses(addresses, ranks)?;
        let config = ClientConfig { connect_timeout: Duration::from_secs(2), ..identity_options.client()? };
        let tenant = config.credentials.as_ref().and_then(Credentials::tenant);
        let client = ControlClient::connect(manager.clone(), config).map_err(Failure::input)?;
        let nodes = client.list_nodes().map_err(Failure::input)?.into_iter().map(|node| node.description);
        let mut switches: Vec<NodeDescription> = nodes.filter(|node| node.role == Role::Switch).collect();
        switches.sort_by_key(|switch| switch.address);
        let away = switches.iter().find(|switch| !switch.address.is_loopback());
        if let (Some(away), true) = (away, addresses.is_empty()) {
            return Err(Failure::Input(format!(
                "expected --addresses of this machine, for switch \"{}\" at {} is not on loopback, found none; name one for all ranks or several",
                away.name, away.address
            )));
        }
        let addresses = match addresses {
            [] => RunningFabric::loopback(ranks),
            given => given.to_vec(),
        };
        Ok(Self { client, manager: manager.clone(), prefix: prefix(tenant.as_deref()), addresses, switches })
    }

    /// What ranks whose frames are so must know of it.
    pub(crate) fn fabric(&self, catalog: Catalog, framing: Framing) -> RunningFabric {
        let speaks = |switch: &&NodeDescription| {
            let mut designs =
                catalog.above_queue_pairs().filter(|design| switch.designs.contains(design.name()));
            designs.any(|design| design.about().framing == framing)
        };
        let via = match framing {
            Framing::RoceV1 => self.switches.iter().find(speaks).map(|switch| switch.address),
            Framing::RoceV2 => None,
        };
        RunningFabric {
            manager: self.manager.clone(),
            prefix: self.prefix.clone(),
            addresses: self.addresses.clone(),
            via,
        }
    }

    /// Removes what is left of groups of this run's ranks, whatever became of them.
    pub(crate) fn tidy(&self) {
        let Ok(groups) = self.client.list_groups() else { return };
        for group in groups {
            if group.summary.members.iter().any(|member| member.starts_with(&self.prefix)) {
                // It may be gone by now.
                let _ = self.client.destroy_group(group.summary.group);
            }
        }
    }
}

/// Refuses addresses that no rank would have.
pub(crate) fn check_addresses(addresses: &[IpAddr], ranks: u16) -> Result<(), Failure> {
    if addresses.len() > usize::from(ranks) {
        return Err(Failure::Input(format!(
            "expected an address for each of {ranks} ranks, or fewer, found {}; change --addresses or --ranks",
            addresses.len()
        )));
    }
    Ok(())
}

/// What names of this run's ranks begin with, unlike those of other runs here and on other machines. Those of a tenant begin with its name.
fn prefix(tenant: Option<&str>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Two runs that start in the same nanosecond have other process numbers, or other machines' clocks.
    let mixed =
        (now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let own = tenant.map_or_else(String::new, |tenant| format!("{tenant}/"));
    format!("{own}perf-{:08x}-", mixed >> 32)
}
