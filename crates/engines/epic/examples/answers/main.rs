//! A Mode-II switch as a filter of lines, for those who hold something else against it, such as the hardware in `rtl/`.
//!
//! ```text
//! group RANKS EDGES PARENT WINDOW MTU PSN REPRODUCIBLE ENDS TOWARD [MUTATION]
//!                 a new switch: PARENT is an edge, or - at the root of the tree; ENDS a mask of the edges that do not lead to switches in
//!                 Mode-II; TOWARD the edges toward the ranks, with commas; MUTATION a rule that it breaks
//! frame EDGE HEX  a frame without frame check sequence
//! ```
//!
//! Each line is answered by any number of `out EDGE HEX` and `drop EDGE REASON`, and one `end`; a line that makes no sense by `error WHY`.
//! Edge N leads to 10.0.0.N+1, queue pair 0x200 + N, MAC address 02:00:00:00:00:N+1; the switch is 10.0.0.254, its end of the edge queue pair 0x100 + N.

mod lines;

use lines::ScriptedSwitch;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut switch = None;
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let mut answers = ScriptedSwitch::answer(&mut switch, &line?);
        if let Err(error) = &mut answers {
            let told = std::mem::take(error);
            let _ = writeln!(error, "error {told}");
        }
        let (Ok(answers) | Err(answers)) = answers;
        writeln!(output, "{answers}end")?;
        output.flush()?;
    }
    Ok(())
}
