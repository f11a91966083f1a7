"""The page of errors has words that the sources have, and those are found in every way in which a source has them."""

import re
import unittest

import errors

PAGE = errors.ROOT / "docs/errors.md"
ROW = re.compile(r"^\| `(expected [^|]*?)` \| ([^|]+) \| ([^|]+) \|$", re.M)

RUST = r'''
/// `expected a comment`, found one.
#[error("{place}: expected a \"rate\" of {most:?}, \
         found {found}")]
fn f() {
    assert!(right, "expected a bug, found {it}");
    return Err(Refusal::new(format!("a star for {name}, {}", one(2)), found, "choose star-8"));
    Err(OpenError { expected: "a port", place, error, remedy: "name one" })
}
#[cfg(test)]
mod tests {
    fn g() { is("expected a test, found one"); }
}
'''

PYTHON = '''
def f(found):
    """expected a docstring."""
    raise ValueError(f"expected a type, found {found}; "
                     "convert it")
'''


class FoundTest(unittest.TestCase):
    def test_in_rust_whole_or_in_parts_and_neither_in_comments_assertions_nor_tests(self) -> None:
        found = ['...: expected a "rate" of ..., found ...', "expected a star for ..., ..., found ...; choose star-8", "expected a port, found ...; name one"]
        self.assertEqual(list(errors.of_rust(RUST)), found)

    def test_in_python(self) -> None:
        self.assertEqual(list(errors.of_python(PYTHON)), ["expected a type, found ...; convert it"])

    def test_with_the_text_of_a_constant_that_it_names(self) -> None:
        [short] = {message.words for message in errors.messages() if message.words.startswith("expected ... of free memory at switch")}
        self.assertTrue(short.endswith("; destroy a group, or ask for less (group.window, group.message)"), short)

    def test_in_every_language_that_people_meet(self) -> None:
        rooms = {message.room.split("/")[0] for message in errors.messages()}
        self.assertLessEqual({"apps", "control", "processes", "engines", "python", "openmpi", "nccl"}, rooms)


class PageTest(unittest.TestCase):
    def test_each_rows_words_are_how_an_error_of_the_sources_begins(self) -> None:
        known = [message.words for message in errors.messages()]
        for words, _, _ in ROW.findall(PAGE.read_text(encoding="utf-8")):
            with self.subTest(words=words):
                self.assertTrue(any(message.startswith(words) for message in known), "no source has it: take today's words")

    def test_each_row_says_once_what_it_means_and_what_to_do(self) -> None:
        text = PAGE.read_text(encoding="utf-8")
        rows = ROW.findall(text)
        self.assertEqual(len(rows), len(re.findall(r"^\| .*`expected ", text, re.M)))
        self.assertEqual(len({words for words, _, _ in rows}), len(rows))


if __name__ == "__main__":
    unittest.main()
