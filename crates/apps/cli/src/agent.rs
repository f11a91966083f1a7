//! `quincunx agent`: the machine's agent, by way of which its nodes speak with the manager, and which tells that who is at the other ends of the
//! machine's cables.

use clap::Args;
use quincunx_control_grpc::{
    AgentServer, ClientConfig, ControlClient, ManagerAddress, ManagerServer, Managers,
};
use quincunx_runtime::AgentCables;
use std::sync::atomic::AtomicBool;

use crate::logs::Logs;
use crate::options::IdentityOptions;
use crate::out::say;
use crate::{Failure, interrupt};

/// `quincunx agent`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx agent --manager 10.0.0.9:4790,10.0.0.8:4790 --identity certs/node-leaf1.pem
  quincunx switch --name leaf1 --address 10.0.0.1 --memory 16MiB
  quincunx agent --listen 127.0.0.1:4792 --manager 10.0.0.9:4790 --identity certs/tenant-blue.pem
  quincunx group list --manager 127.0.0.1:4792
  quincunx agent --manager 10.0.0.9:4790 --identity certs/node-gpu1.pem --port eth1 --port eth2

Nodes and tools of this machine speak with the agent as with a manager, over loopback and without certificates; the manager hears them as
whom the agent's certificate names, and lets them do what that one may: by a tenant's, ranks of a program attach whose job's name
(QUINCUNX_JOB) begins with the tenant's and a slash. Whoever can connect to loopback here can do so: where several
people share a machine, give each node its own certificate instead. The agent keeps nothing: started again, its nodes attach again with their
groups, for which the manager waits (manager --restart-timeout), and collectives go on meanwhile.

At each --port it says by LLDP (IEEE 802.1AB) which machine this is, and tells the manager who says so at the other end. Where both ends say so
of each other there is a link, between the nodes that have these interfaces' addresses: `quincunx nodes --links` shows it.")]
pub(crate) struct Agent {
    /// Where to serve, on loopback; port 0 lets the system choose, and the choice is printed
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4790")]
    listen: ManagerAddress,
    /// Where the manager serves, and who stands by for it
    #[arg(long, value_name = "HOST:PORT")]
    manager: Managers,
    /// An interface with a cable to a switch, once for each: needs root, or CAP_NET_RAW
    #[arg(long = "port", value_name = "INTERFACE")]
    ports: Vec<String>,
    /// The machine's name for those at the other ends, unlike any other's; with a certificate one that this names: the node's, or
    /// TENANT/NAME [default: the host's name]
    #[arg(long, requires = "ports")]
    name: Option<String>,
    #[command(flatten)]
    identity_options: IdentityOptions,
    #[command(flatten)]
    logs: Logs,
}

impl Agent {
    /// Serves until it is ended.
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.logs.start();
        interrupt::end_when_asked()?;
        let listener = ManagerServer::bind(&self.listen).map_err(|error| {
            Failure::Input(format!(
                "expected to listen at {}, found \"{error}\"; choose another --listen address",
                self.listen
            ))
        })?;
        let credentials = self.identity_options.credentials()?;
        if !self.ports.is_empty() {
            let name = self.name.unwrap_or_else(crate::doctor::machine_name);
            let cables = AgentCables::open(&name, &self.ports).map_err(Failure::input)?;
            let config = ClientConfig { credentials: credentials.clone(), ..ClientConfig::default() };
            let client =
                ControlClient::connect_later(self.manager.clone(), config).map_err(Failure::input)?;
            let thread = std::thread::Builder::new().name("cables".into());
            // It ends with the process.
            let never = AtomicBool::new(false);
            thread.spawn(move || cables.run(&client, &never)).map_err(Failure::input)?;
        }
        let server =
            AgentServer::start(listener, self.manager, credentials.as_ref()).map_err(Failure::input)?;
        say!("agent listens at {}", server.address());
        server.join().map_err(Failure::input)
    }
}
