//! The peers: compiled from `benches/peers`, run in the namespaces of a fabric. Every process of theirs runs under
//! `timeout` of coreutils, so that every wait has an end; in the foreground, so that an interrupt from the keyboard ends
//! all of them.

use quincunx_netns::{NetnsFabric, NetnsNode};
use quincunx_units::ByteCount;
use serde::Deserialize;
use std::error::Error;
use std::fs::{File, read_to_string};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::contender::{Contender, repetitions};
use crate::summary::Sample;

/// Where the sources are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../benches/peers");

/// How long a turn of a peer may take, in seconds.
const LIMIT_SECONDS: &str = "240";

/// The addresses of a fabric, as OpenMPI names networks.
const NETWORK: &str = "10.77.0.0/24";

/// The compiled peers.
pub(crate) struct Peers {
    folder: PathBuf,
    without_ring: Option<String>,
    without_mpi: Option<String>,
    without_component: Option<String>,
}

/// What a peer prints of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    bytes: u64,
    mean_us: f64,
    median_us: f64,
    p99_us: f64,
    wrong: u64,
    rank_processor_us: f64,
}

impl Peers {
    /// Compiles the peers that are asked for into `folder`. One that cannot be had is [`missing`](Self::missing) then.
    pub(crate) fn build(folder: &Path, contenders: &[Contender]) -> Result<Self, Box<dyn Error>> {
        std::fs::create_dir_all(folder)?;
        let folder = folder.to_path_buf();
        let mut peers = Self { folder, without_ring: None, without_mpi: None, without_component: None };
        if contenders.contains(&Contender::TcpRing) {
            peers.without_ring = peers.compile("gcc", "tcp_ring").err();
        }
        if contenders.contains(&Contender::OpenMpiSwitch) {
            peers.without_component = peers.build_component().err();
        }
        if contenders.iter().any(|one| one.is_mpi()) {
            let launcher = Command::new("mpirun").arg("--version").output();
            peers.without_mpi = match launcher
                .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            {
                Ok(version) if version.contains("Open MPI") => peers.compile("mpicc", "mpi").err(),
                _ => Some(
                    "expected OpenMPI, found no mpirun of it; install openmpi-bin and libopenmpi-dev".into(),
                ),
            };
        }
        Ok(peers)
    }

    /// Why a contender cannot take part, if so.
    pub(crate) fn missing(&self, contender: Contender) -> Option<&str> {
        match contender {
            Contender::Ours(_) => None,
            Contender::TcpRing => self.without_ring.as_deref(),
            Contender::OpenMpi | Contender::OpenMpiRing => self.without_mpi.as_deref(),
            Contender::OpenMpiSwitch => self.without_mpi.as_deref().or(self.without_component.as_deref()),
        }
    }

    /// Lets a peer run all sizes once, on a fabric that guests find so.
    ///
    /// # Errors
    /// If a process fails or is not done in time; it says what the process said.
    pub(crate) fn turn(
        &self,
        contender: Contender,
        fabric: &NetnsFabric,
        (manager, job, identities): &(String, &str, PathBuf),
        sizes: &[ByteCount],
    ) -> Result<Vec<Sample>, Box<dyn Error>> {
        let cases: Vec<String> = sizes
            .iter()
            .map(|&size| {
                let repetitions = repetitions(size);
                format!("{}:{}:{}", size.bytes(), repetitions.timed, repetitions.warm_up)
            })
            .collect();
        let commands = match contender {
            Contender::TcpRing => self.ring_commands(fabric, &cases),
            Contender::OpenMpi => vec![self.mpi_command(fabric, &cases, "", "")],
            Contender::OpenMpiRing => {
                // Fixed rules of the tuned component; 4 is the ring.
                let rules = "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4";
                vec![self.mpi_command(fabric, &cases, rules, "")]
            }
            Contender::OpenMpiSwitch => {
                let component = self.folder.with_file_name("openmpi");
                let rules = format!(
                    "--mca mca_base_component_path {component}:SYSTEM_DEFAULT -x QUINCUNX_MANAGER={manager} \
                     -x OMPI_MCA_mca_base_component_path={component}:SYSTEM_DEFAULT -x QUINCUNX_DESIGN=epic-3 \
                     -x QUINCUNX_JOB={job} -x QUINCUNX_GUESTS={identities}",
                    component = component.display(),
                    identities = identities.display(),
                );
                let first = format!("{SOURCES}/as_guest.sh ");
                vec![self.mpi_command(fabric, &cases, &rules, &first)]
            }
            Contender::Ours(_) => return Err("expected a peer".into()),
        };
        let said = self.run(commands)?;
        let lines: Vec<Line> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.len() != sizes.len() {
            let found = said.lines().next().unwrap_or("nothing");
            return Err(format!(
                "expected {} measurements, found {} and \"{found}\"",
                sizes.len(),
                lines.len()
            )
            .into());
        }
        let sample = |line: Line| {
            let Line { bytes, mean_us, median_us, p99_us, wrong, rank_processor_us } = line;
            let switch_processor_us = None;
            Sample {
                contender,
                bytes,
                mean_us,
                median_us,
                p99_us,
                wrong,
                rank_processor_us,
                switch_processor_us,
            }
        };
        Ok(lines.into_iter().map(sample).collect())
    }

    fn ring_commands(&self, fabric: &NetnsFabric, cases: &[String]) -> Vec<Command> {
        let ranks = fabric.hosts();
        let address = |rank: usize| NetnsNode::Host(rank % ranks).address().to_string();
        let command = |rank: usize| {
            let mut command = fabric.command(NetnsNode::Host(rank), "timeout");
            command.args(["--foreground", "--kill-after=5", LIMIT_SECONDS]).arg(self.folder.join("tcp_ring"));
            command.args([rank.to_string(), ranks.to_string(), address(rank), address(rank + 1)]).args(cases);
            command
        };
        (0..ranks).map(command).collect()
    }

    fn mpi_command(&self, fabric: &NetnsFabric, cases: &[String], rules: &str, first: &str) -> Command {
        let ranks = fabric.hosts();
        let (folder, cases) = (self.folder.display(), cases.join(" "));
        let namespaces: Vec<String> =
            (0..ranks).map(|host| fabric.namespace(NetnsNode::Host(host))).collect();
        let hosts: Vec<String> =
            (0..ranks).map(|host| format!("{}:1", NetnsNode::Host(host).address())).collect();
        let hosts = hosts.join(",");
        let agent = format!("{SOURCES}/agent.sh");
        // Over TCP on the fabric's links alone; ranks that wait give way to others, for there are more ranks than cores.
        let mpirun = format!(
            "exec timeout --foreground --kill-after=10 {LIMIT_SECONDS} mpirun --allow-run-as-root \
             --mca plm_rsh_agent {agent} --mca plm_rsh_no_tree_spawn 1 --mca orte_tmpdir_base {folder}/session \
             --mca oob_tcp_if_include {NETWORK} --mca btl_tcp_if_include {NETWORK} --mca pml ob1 --mca btl tcp,self \
             --mca mpi_yield_when_idle 1 --bind-to none --host {hosts} -np {ranks} {rules} {first}{folder}/mpi {cases}"
        );
        let mut command = Command::new(&agent);
        command.arg(NetnsNode::Host(0).address().to_string()).arg(mpirun);
        command.env("PEERS_NAMESPACES", namespaces.join(" "));
        command
    }

    /// Runs processes side by side to their ends; what the first one printed.
    fn run(&self, commands: Vec<Command>) -> Result<String, Box<dyn Error>> {
        // Into files: a pipe would have to be emptied, and could outlive its process in the hands of a child.
        let (output, errors) = (self.folder.join("output"), self.folder.join("errors"));
        let complaints = File::create(&errors)?;
        let mut running: Vec<Child> = Vec::new();
        for (index, mut command) in commands.into_iter().enumerate() {
            command.stdin(Stdio::null()).stderr(complaints.try_clone()?);
            command.stdout(if index == 0 { File::create(&output)?.into() } else { Stdio::null() });
            // Those that run already find no neighbour, and end by themselves.
            running.push(command.spawn()?);
        }
        let mut failed = None;
        for mut child in running {
            let status = child.wait()?;
            if !status.success() {
                failed = failed.or(Some(status));
            }
        }
        if let Some(status) = failed {
            let said = read_to_string(&errors)?;
            let first = said.lines().find(|line| line.contains("expected")).or(said.lines().next());
            return Err(
                format!("expected success, found {status} and \"{}\"", first.unwrap_or_default()).into()
            );
        }
        Ok(read_to_string(&output)?)
    }

    /// Builds our component of OpenMPI beside the library that it needs, or says why not.
    fn build_component(&self) -> Result<(), String> {
        let script = format!("{SOURCES}/../../openmpi/build.py");
        let target = self.folder.parent().unwrap_or(&self.folder);
        match Command::new("python3").arg(script).arg(target).output() {
            Ok(built) if built.status.success() => Ok(()),
            Ok(built) => Err(String::from_utf8_lossy(&built.stderr).trim().replace("error: ", "")),
            Err(error) => Err(format!("expected python3, found \"{error}\"; install it")),
        }
    }

    /// Compiles `benches/peers/{name}.c`, or says why not.
    fn compile(&self, compiler: &str, name: &str) -> Result<(), String> {
        let built = Command::new(compiler)
            .args(["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(self.folder.join(name))
            .arg(format!("{SOURCES}/{name}.c"))
            .output();
        match built {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                let first = said.lines().find(|line| line.contains("error")).unwrap_or_default();
                Err(format!("expected {compiler} to compile {name}.c, found \"{first}\""))
            }
            Err(error) => {
                Err(format!("expected {compiler} to compile {name}.c, found \"{error}\"; install {compiler}"))
            }
        }
    }
}
