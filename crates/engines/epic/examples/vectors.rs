//! Writes `vectors/inc-engine.txt`: what a Mode-II switch is told by its neighbours, and what it answers.
//!
//! ```text
//! cargo run -p quincunx-epic --example vectors > vectors/inc-engine.txt
//! ```
//!
//! A line that begins with `> ` is what is told, in the words of the example `answers`; those up to the next one are the answer. The tests here
//! and the benches of `rtl/inc_engine` hold engine and hardware to the file. With a seed and a number of cases, these, of random
//! groups (`vectors SEED CASES EDGES WINDOW MTU`).

#[path = "answers/lines.rs"]
mod lines;
#[path = "answers/traffic.rs"]
mod traffic;

use std::io;
use traffic::{Noise, case, listed};

fn main() -> io::Result<()> {
    let words: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    match words.as_slice() {
        [] => listed().iter().for_each(|case| print!("{}", case.run())),
        [seed, cases, edges, window, mtu] => {
            let mut noise = Noise(*seed);
            for _ in 0..*cases {
                print!("{}", case(&mut noise, *edges as u8, *window as u32, *mtu as usize).run());
            }
        }
        _ => {
            let why = "expected no words, or SEED CASES EDGES WINDOW MTU; give all five";
            return Err(io::Error::other(why));
        }
    }
    Ok(())
}
