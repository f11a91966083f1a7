//! The switch as a filter of lines, for those who hold something else against it, such as the hardware in `rtl/`.
//!
//! ```text
//! ports N [FLOWS FRAMES]   a new switch; 8 ports, 4 flows of 128 frames if nothing is said
//! config MODE CFG          writes AGG_MODE and AGG_PORT_CFG, in hexadecimal
//! frame PORT HEX           a frame without frame check sequence
//! learn PORT HEX           its steps, for who has those of several ports between each other: its source is learned,
//! find PORT HEX            its destination is looked up, and the frame is kept unless it is dropped,
//! pass PORT                and the oldest frame that a port keeps goes on, or
//! lose PORT                is gone without a word
//! ```
//!
//! Each line is answered by any number of `out PORT HEX` and `drop PORT REASON`, and one `end`; a register that is refused by
//! `refused WHY`, a line that makes no sense by `error WHY`.

mod lines;

use lines::{Lines, ScriptedSwitch};
use quincunx_netreduce::Shape;
use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

fn main() -> io::Result<()> {
    let mut switch = ScriptedSwitch::new(Shape::of_ports(8)).map_err(io::Error::other)?;
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let mut lines = Lines(String::new());
        if let Err(error) = switch.answer(&line?, &mut lines) {
            let _ = writeln!(lines.0, "error {error}");
        }
        writeln!(output, "{}end", lines.0)?;
        output.flush()?;
    }
    Ok(())
}
