#!/usr/bin/env python3
"""Makes one offline book of the project's pages, in target/book: `make book`. With --check each of its pages, and whatever other pages are
named, is opened in headless Chromium, which must have nothing to complain of.

The pages stay where they are in the tree, so that links between them hold there and in the book; what a page links to that is no page is
left as text. mdBook is fetched and built at first use, into target/tools.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import errors

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "target/book"
TOOLS = ROOT / "target/tools"
MDBOOK = "0.5.4"
OPEN_SECONDS = 60

# Parts of the book, with titles and pages.
PARTS = {
    "": {"Quincunx": "README.md"},
    "How to": {
        "Is it for you": "docs/choosing.md",
        "Measure it on your machine": "docs/measure.md",
        "Your own program": "docs/programs.md",
        "What would it buy on my links": "docs/architects.md",
        "Is it right": "docs/designers.md",
        "What is promised, and how far that is tested": "docs/trust.md",
        "Why is mine slower": "docs/slower.md",
        "Errors that people meet": "docs/errors.md",
        "A manager and switches on your machines": "docs/operators.md",
        "Services: systemd, Kubernetes": "docs/running/services.md",
        "When certificates end": "docs/running/certificates.md",
        "The order of an upgrade": "docs/running/upgrade.md",
        "Alerts": "docs/running/alerts.md",
        "A copy of the store": "docs/running/store.md",
        "Ports for a firewall": "docs/running/firewall.md",
        "On Kubernetes": "examples/kubernetes/README.md",
        "Keys of designs": "docs/keys.md",
        "What the demo prints": "docs/demo.md",
        "Glossary": "docs/glossary.md",
    },
    "In depth": {
        "The Python package": "python/quincunx/README.md",
        "A model trained over limited links": "examples/gpt/README.md",
        "A design of your own": "examples/own-design/README.md",
        "Measured beside what people use": "benches/README.md",
        "The switch as hardware": "rtl/allreduce_switch/README.md",
        "The wire, for those who build the other end": "docs/wire.md",
        "A rank of your own, in Python": "examples/rank/README.md",
        "Earlier systems' rules": "crates/studies/check/src/prior_systems/verdicts.md",
    },
    "How it is built": {
        "Architecture": "ARCHITECTURE.md",
        "Where the papers' sections are": "docs/papers.md",
        "Contributing": "CONTRIBUTING.md",
        "Fuzzing": "fuzz/README.md",
        "Vectors": "vectors/README.md",
        "Changes": "CHANGELOG.md",
    },
}
PAGES = [page for pages in PARTS.values() for page in pages.values()]
# Made for the book alone.
EVERY_ERROR = "docs/every-error.md"
PICTURES = {".png", ".svg"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCED = re.compile(r"(^```.*?^```)", re.M | re.S)


def within(page: str, text: str) -> tuple[str, list[Path]]:
    """A page's text with links to what is not in the book as text alone, and the pictures that it shows."""
    pictures = []

    def link(found: re.Match) -> str:
        shown, label, target = found.groups()
        path = target.partition("#")[0]
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        file = (ROOT / page).parent.joinpath(path).resolve()
        if file.suffix in PICTURES and file.is_file():
            pictures.append(file)
            return found[0]
        return found[0] if not shown and str(file.relative_to(ROOT)) in PAGES else label

    parts = FENCED.split(text)
    text = "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
    return text, pictures


def write_sources(source: Path) -> None:
    """The pages, pictures and contents, as mdBook wants them."""
    shutil.rmtree(source.parent, ignore_errors=True)
    contents = ["# Contents", ""]
    for part, pages in PARTS.items():
        contents += [f"# {part}", ""] if part else []
        for title, page in pages.items():
            text, pictures = within(page, (ROOT / page).read_text(encoding="utf-8"))
            place = source / page
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            for picture in pictures:
                copy = source / picture.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, copy)
            contents.append(f"- [{title}]({page})" if part else f"[{title}]({page})")
            if page == "docs/errors.md":
                (source / EVERY_ERROR).write_text(errors.page(), encoding="utf-8")
                contents.append(f"  - [Every error, by its words]({EVERY_ERROR})")
        contents.append("")
    (source / "SUMMARY.md").write_text("\n".join(contents), encoding="utf-8")
    settings = '[book]\ntitle = "Quincunx"\nlanguage = "en"\nsrc = "src"\n\n[build]\nbuild-dir = "html"\n'
    (source.parent / "book.toml").write_text(settings, encoding="utf-8")


def mdbook() -> Path:
    """The program, which is built if it is not there."""
    program = TOOLS / "bin/mdbook"
    if not program.exists():
        subprocess.run(["cargo", "install", "mdbook", "--version", MDBOOK, "--locked", "--root", TOOLS], check=True)
    return program


def complaints(page: Path) -> list[str]:
    """What Chromium says of a page on its console, each an error."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("expected Chromium on PATH, found none; install it (apt-get install chromium), or leave --check out")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom"]
    ended = subprocess.run([browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=OPEN_SECONDS)
    found = [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]
    return found if "<body" in ended.stdout else [*found, "no page"]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--check", action="store_true", help="open every page in headless Chromium")
    arguments.add_argument("pages", nargs="*", type=Path, help="other pages to open, as a report")
    asked = arguments.parse_args()
    write_sources(BOOK / "src")
    subprocess.run([mdbook(), "build", BOOK], check=True)
    print(BOOK / "html/index.html")
    wrong = 0
    for page in [*sorted((BOOK / "html").rglob("*.html")), *asked.pages] if asked.check else []:
        for line in complaints(page.resolve()):
            wrong += 1
            print(f"{page}: {line}")
    if asked.check:
        print(f"{wrong} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
