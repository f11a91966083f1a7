//! The merge unit of a switch and its group sync table, as a filter of lines, for those who hold something else against them, such as the
//! hardware in `rtl/cais_merge`.
//!
//! ```text
//! unit ACCELERATORS PARTICIPANTS ENTRIES PAYLOAD TYPE GROUPS STREAMS TIMEOUT GROUP_TIMEOUT   begins anew; TYPE: 0 binary32, 1 binary16, 2 bfloat16
//! packet AT PORT HEX     a packet comes: header and payload
//! timer AT               what is due ends
//! ```
//!
//! Numbers are decimal, times are cycles of a nanosecond. Each line is answered by any number of `out PORT HEX` and `drop WHY`, and one `end`;
//! one that makes no sense by `error WHY`.

mod lines;

use lines::ScriptedUnit;
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut unit = ScriptedUnit::default();
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answers = unit.answer(&line?).unwrap_or_else(|error| format!("error {error}\n"));
        writeln!(output, "{answers}end")?;
        output.flush()?;
    }
    Ok(())
}
