//! The plots of a page as files of their own, for papers and slides.

use crate::ReportError;
use std::path::{Path, PathBuf};

/// What an SVG by itself must say, and one in a page need not.
const NAMESPACE: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"";

/// Characters of a title in a file's name, at most.
const MOST: usize = 60;

/// Writes each plot of a page into `folder`, numbered in their order and named by their first words.
///
/// # Errors
/// If the folder cannot be made, or a file written.
pub(crate) fn write(html: &str, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error| ReportError::File { what: "write", path, error }
    };
    std::fs::create_dir_all(folder).map_err(failed(folder))?;
    let mut written = Vec::new();
    for (number, svg) in (1..).zip(plots(html)) {
        let path = folder.join(format!("{number:02}-{}.svg", name(svg)));
        std::fs::write(&path, svg.replacen("<svg", NAMESPACE, 1)).map_err(failed(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// The plots of a page, in order.
fn plots(html: &str) -> impl Iterator<Item = &str> {
    const END: &str = "</svg>";
    html.match_indices("<svg").filter_map(|(start, _)| {
        let svg = &html[start..];
        svg.find(END).map(|end| &svg[..end + END.len()])
    })
}

/// The first words of a plot, which are its title, in letters that every file system takes.
fn name(svg: &str) -> String {
    let words = svg.split_once("<text").and_then(|(_, rest)| rest.split_once('>'));
    let words = words.and_then(|(_, rest)| rest.split_once('<')).map_or("plot", |(words, _)| words.trim());
    let mut name = String::new();
    for letter in words.chars().take(MOST) {
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    let name = name.trim_end_matches('-');
    if name.is_empty() { "plot".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<p>a</p><svg width=\"1\"><text x=\"1\">\nall_reduce on star-4 (sim, run.json)\n</text></svg>\
                        <svg><line/></svg>";

    #[test]
    fn each_plot_is_a_file_that_stands_by_itself_and_is_named_by_its_title() {
        let folder = std::env::temp_dir().join(format!("quincunx-pictures-{}", std::process::id()));
        let written = write(PAGE, &folder).unwrap();
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        let [first, second] = &written[..] else { panic!("{written:?}") };
        let texts = [first, second].map(read);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(first.ends_with("01-all-reduce-on-star-4-sim-run-json.svg"), "{first:?}");
        assert!(second.ends_with("02-plot.svg"), "{second:?}");
        assert!(texts[0].starts_with(NAMESPACE) && texts[0].ends_with("</text></svg>"), "{}", texts[0]);
        assert_eq!(texts[1], format!("{NAMESPACE}><line/></svg>"));
    }
}
