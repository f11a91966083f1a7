//! Reads texts that users name: a file without an end is refused, not read until memory ends.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// The longest text, in bytes: a gate of a hundred thousand tokens has a tenth of that.
const LONGEST: u64 = 256 << 20;

/// Reads the text at `path`, be it a file or a pipe.
///
/// # Errors
/// If it cannot be read, is no UTF-8, or longer than 256 MiB.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    read_at_most(path.as_ref(), LONGEST)
}

fn read_at_most(path: &Path, longest: u64) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(longest + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > longest {
        let found = format!("a text of more than {} MiB", longest >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, found));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "bytes that are no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let error = read_at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "a text of more than 1 MiB");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let error = read_at_most(Path::new("/proc/self/exe"), LONGEST).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
