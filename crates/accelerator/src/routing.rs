//! Which link a line of memory is reached by: the same for all accelerators, so that requests for the same line meet in one switch
//! (CAIS III-A5: a light hash of the address).

/// The link of a line, of so many: neighbouring lines take different links, and from row to row of them another one begins.
pub const fn link_of(line: u64, links: u64) -> u64 {
    (line % links + fold(line / links)) % links
}

/// The first line at or after `from` that goes by `link`.
pub const fn next_line(from: u64, link: u64, links: u64) -> u64 {
    let row = from / links;
    let in_row = row * links + (link + links - fold(row) % links) % links;
    if in_row >= from {
        return in_row;
    }
    let row = row + 1;
    row * links + (link + links - fold(row) % links) % links
}

const fn fold(row: u64) -> u64 {
    let row = row ^ row >> 32;
    let row = row ^ row >> 16;
    let row = row ^ row >> 8;
    (row ^ row >> 4) & 0xf
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_line_has_one_link_and_is_found_there() {
        for links in 1..=5 {
            for from in 0..300 {
                let mut found: Vec<u64> = (0..links).map(|link| next_line(from, link, links)).collect();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found.len() as u64, links, "links have lines of their own");
                for link in 0..links {
                    let line = next_line(from, link, links);
                    assert_eq!(link_of(line, links), link);
                    assert!((from..line).all(|earlier| link_of(earlier, links) != link), "the first one");
                }
            }
        }
    }
}
