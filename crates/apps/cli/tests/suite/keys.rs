//! The reference of keys is made from the types that read files, and from the designs themselves.

use crate::simulations::quincunx;
use quincunx_designs::CATALOG;
use quincunx_scenario::Key;
use std::fmt::Write as _;

/// A part of the page: what `sim --show` says of these names, which is the same.
struct PageSection {
    names: Vec<String>,
    text: String,
}

fn shown(name: &str) -> String {
    let output = quincunx(&["sim", "--show", name]);
    assert!(output.status.success(), "{name}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

fn write_all(page: &mut String, what: &str, names: &[&str]) {
    let mut all: Vec<PageSection> = Vec::new();
    for &name in names {
        let text = shown(name);
        match all.iter_mut().find(|other| other.text == text) {
            Some(other) => other.names.push(name.into()),
            None => all.push(PageSection { names: vec![name.into()], text }),
        }
    }
    for PageSection { names, text } in all {
        write!(page, "\n## {what} {}\n```\n{text}\n```\n", names.join(", ")).expect("a string");
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Keys\nFor files, and for `--set KEY=VALUE`. `quincunx sim --show NAME` prints the same of one kind of file or one design.\n\n\
         A row is a key, its type, its default, and its meaning. *needed*: a file must set it; *with its table*: a file must set it \
         if it sets anything of that table. Sizes are in bytes, or with `KiB`, `MiB`, `KB`; rates in bits a second or with a unit (`100Gbit/s`, `56GB/s`); \
         times have theirs (`20ms`, `1us`); shares are `0.05` or `5%`. `[[job]]` is a table that may come several times. A file of a fabric also takes \
         the keys of the designs that run on it, which come after; presets are files to start from (`quincunx sim --show epic-star8`).\n\n\
         Made by `QUINCUNX_KEYS=write cargo test -p quincunx-cli --test suite keys`.\n",
    );
    write_all(&mut page, "Files:", &Key::files());
    let mut names = CATALOG.names();
    names.sort_unstable();
    write_all(&mut page, "Designs:", &names);
    page
}

#[test]
fn the_reference_has_each_key_of_files_and_designs_as_it_is_today() {
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/keys.md");
    if std::env::var("QUINCUNX_KEYS").is_ok_and(|word| word == "write") {
        std::fs::write(place, page()).expect("docs can be written");
    }
    let written = std::fs::read_to_string(place).unwrap_or_default();
    assert!(
        written == page(),
        "expected docs/keys.md as files and designs have it; QUINCUNX_KEYS=write cargo test -p quincunx-cli --test suite keys"
    );
}
