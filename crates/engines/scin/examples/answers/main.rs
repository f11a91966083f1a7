//! The in-switch accelerator among accelerators with memories, as a filter of lines, for those who hold something else against it, such as the
//! hardware in `rtl/scin_isa`.
//!
//! ```text
//! ports N TYPE             begins anew: so many accelerators; 0 binary32, 1 binary16, 2 bfloat16
//! memory PORT ADDRESS HEX  writes an accelerator's memory
//! instruction ID LENGTH FLAGS SOURCES DESTINATIONS ADDRESS...   one of those that are loaded at the next `run`, an address of each accelerator
//! add PORT OPERAND         an accelerator arrives at the barrier, after what is loaded
//! run                      all that goes on by itself
//! dump PORT ADDRESS LENGTH an accelerator's memory
//! ```
//!
//! Numbers are decimal. Each line is answered by any number of `flag PORT VALUE`, `refused WHY`, `memory PORT ADDRESS HEX`, and one `end`; one
//! that makes no sense by `error WHY`.

mod lines;

use lines::ScriptedIsa;
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut isa = ScriptedIsa::new(4, 0).map_err(io::Error::other)?;
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answers = isa.answer(&line?).unwrap_or_else(|error| format!("error {error}\n"));
        writeln!(output, "{answers}end")?;
        output.flush()?;
    }
    Ok(())
}
