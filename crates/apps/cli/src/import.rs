//! `quincunx import`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_import::{Imported, import};
use quincunx_scenario::{Document, Scenario, read_text};

use crate::{Failure, out};

/// `quincunx import`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx import topo.xml > my-server.toml
  quincunx sim all_reduce --fabric my-server.toml --design auto --size 64MiB

What it reads, and what comes out:
  NCCL's topology XML (NCCL_TOPO_DUMP_FILE=topo.xml), with the rates that NCCL counts with:
    GPUs around NVSwitches            kind = \"memory\", for designs of such fabrics
    anything else                     kind = \"packet\": PCIe switches and processors, and the NVLinks that there are
  topologies of SimAI, and of ns-3 and of ASTRA-sim's ns-3 back end
                                      kind = \"packet\": [[node]] and [[link]]
  networks of ASTRA-sim (network.yml, and the older JSON)
    one dimension                     a ring or a star; FullyConnected: [[node]] and [[link]]
    Switch, FullyConnected in Switch  kind = \"packet\": [[node]] and [[link]]

What of a file is not in the fabric is said on standard error, a line each, and stands as comments at the head of what comes out. Latencies
that a file does not have are those of the preset that such fabrics are made of; edit them.")]
pub(crate) struct Import {
    /// The file; its text says which of the formats it has
    file: String,
}

impl Import {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let text = read_text(&self.file).map_err(|error| {
            Failure::Input(format!(
                "expected to read {}, found \"{error}\"; look at the path and its permissions",
                self.file
            ))
        })?;
        let Imported { text, notes } = import(&self.file, &text).map_err(Failure::input)?;
        // What is printed is a fabric, or nothing is.
        Document::parse(&self.file, &text)
            .and_then(|document| Scenario::read(document, catalog))
            .map_err(Failure::input)?;
        out::print(&text);
        for note in notes {
            eprintln!("not in the fabric: {note}");
        }
        Ok(())
    }
}
