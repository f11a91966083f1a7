//! `quincunx report`.

use clap::Args;
use std::path::PathBuf;

use crate::Failure;
use crate::out::say;

/// `quincunx report`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx perf all_reduce --design epic-3,ring --json > runs/perf.json
  quincunx sim layer --model llama-7b --sublayer L2 --design cais,t3 --json > runs/l2.json
  quincunx predict serving-llama2 --sweep serving.load=1,2,4 --json > runs/load.json
  quincunx reproduce cais --json > runs/cais.json
  quincunx report runs                           writes runs/report.html
  quincunx report runs --svg plots               and each plot as a file of its own")]
pub(crate) struct Report {
    /// Folder with what perf, sim (traffic, train, layer and jobs too), predict, plan, reproduce and check printed with --json, one file each
    folder: PathBuf,
    /// Write the plots into this folder, too, each as a file for papers and slides
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let page = quincunx_report::write(&self.folder, self.svg.as_deref()).map_err(Failure::input)?;
        for odd in &page.left_out {
            eprintln!("left out: {odd}");
        }
        say!("{}", page.path.display());
        page.pictures.iter().for_each(|picture| say!("{}", picture.display()));
        Ok(())
    }
}
