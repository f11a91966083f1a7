"""English text for perplexities: the Wikipedia articles that the package `gensim` ships as test data.

They are of the same kind as WikiText-2's, which no package registry has, and free to use (CC BY-SA).
"""

import bz2
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import mwparserfromhell

FILE = "test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"


def articles(path: Path) -> Iterator[str]:
    """The articles' text in the order of the file, without redirections, markup, references and tables."""
    with bz2.open(path) as file:
        for _, element in ElementTree.iterparse(file):
            if element.tag.endswith("}page"):
                source = element.findtext(".//{*}text", "")
                if not source.upper().startswith("#REDIRECT"):
                    yield _plain(source)
                element.clear()


def _plain(source: str) -> str:
    code = mwparserfromhell.parse(source)
    for tag in code.filter_tags(code.RECURSE_OTHERS, matches=lambda tag: tag.tag in ("ref", "table", "gallery")):
        code.remove(tag)
    for link in code.filter_wikilinks(code.RECURSE_OTHERS):
        if link.title.startswith(("File:", "Image:")):
            code.remove(link)
    lines = (line.strip() for line in code.strip_code().splitlines())
    return "\n".join(line for line in lines if line)
