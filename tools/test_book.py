"""What the book's pages keep of their links."""

import tempfile
import unittest
from pathlib import Path

import book


class PagesTest(unittest.TestCase):
    def test_links_to_pages_of_the_book_stay_and_others_are_text(self) -> None:
        text, _ = book.within("README.md", "[how](docs/measure.md), [code](crates/apps/cli), [us](https://example.org), [here](#how-to)")
        self.assertEqual(text, "[how](docs/measure.md), code, [us](https://example.org), [here](#how-to)")

    def test_links_are_from_where_the_page_is(self) -> None:
        text, _ = book.within("docs/measure.md", "[there](../benches/README.md#loss), [nowhere](benches/README.md)")
        self.assertEqual(text, "[there](../benches/README.md#loss), nowhere")

    def test_code_has_no_links(self) -> None:
        code = "```\nlist[0](x.py)\n```"
        self.assertEqual(book.within("README.md", code)[0], code)

    def test_pictures_come_along(self) -> None:
        page = "rtl/allreduce_switch/README.md"
        _, pictures = book.within(page, (book.ROOT / page).read_text(encoding="utf-8"))
        self.assertTrue(pictures)

    def test_every_error_is_in_the_contents_below_those_that_people_meet(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "book/src")
            book.write_sources(source)
            contents = (source / "SUMMARY.md").read_text()
            self.assertIn("(docs/errors.md)\n  - [Every error, by its words](docs/every-error.md)\n", contents)
            self.assertTrue((source / book.EVERY_ERROR).read_text().count("``expected ") > 500)

    def test_each_page_is_there(self) -> None:
        for page in book.PAGES:
            self.assertTrue((book.ROOT / page).is_file(), page)


if __name__ == "__main__":
    unittest.main()
