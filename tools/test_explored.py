"""What is counted of the rules that explorations take, and what is left out."""

import unittest

import explored
from explored import CODE, Explanation, Rule, Source, Untaken

FILE = "crates/engines/epic/src/pipe.rs"
TEXT = """impl<P: Payload> Pipe<P> {
    /// Frees a slot.
    pub fn free(&mut self, number: u32) -> Result<(), Misuse> {
        if number > self.end {
            return Err(Misuse::Ahead);
        }
        if self.mutation == Some(Mutation::KeepsSum) {
            return Ok(());
        }
        if self.is_full() && number == self.start {
            self.start += 1;
        }
        Ok(())
    }

    pub const fn start(&self) -> u32 { self.start }

    fn assert_invariants(&self) {
        self.slots.len();
    }
}

fn alone(
    number: u32,
) -> u32 {
    number
}
"""


def rule(line: int, begin: str, end: str, kind: str = CODE) -> Rule:
    """What stands on a line of TEXT between two texts, the first included."""
    text = TEXT.split("\n")[line - 1]
    column = text.index(begin) + 1
    return Rule(FILE, line, column, line, text.index(end, column) + len(end) + 1, kind)


def block(first: int, last: int) -> Rule:
    """The block that begins on a line and ends on another."""
    lines = TEXT.split("\n")
    return Rule(FILE, first, lines[first - 1].index("{") + 1, last, lines[last - 1].index("}") + 2, CODE)


class SourceTest(unittest.TestCase):
    def test_a_line_is_in_its_innermost_function(self) -> None:
        source = Source(TEXT)
        self.assertEqual([source.function(line) for line in (4, 16, 19, 26)], ["Pipe::free", "Pipe::start", "Pipe::assert_invariants", "alone"])

    def test_refusals_broken_rules_and_what_only_looks_are_left_out(self) -> None:
        source = Source(TEXT)
        for left_out in (block(4, 6), block(7, 9), rule(7, "self.mutation", "KeepsSum)", "true"), rule(19, "self", ")")):
            self.assertTrue(source.is_left_out(left_out), source.text(left_out))

    def test_rules_of_the_protocol_count(self) -> None:
        source = Source(TEXT)
        for kept in (block(10, 12), rule(10, "number", "start", "false")):
            self.assertFalse(source.is_left_out(kept), source.text(kept))

    def test_set_up_is_left_out(self) -> None:
        kept = block(10, 12)
        for file in ("crates/engines/epic/src/design.rs", "crates/engines/ring/src/design_rq.rs", "crates/engines/epic/src/mutation.rs"):
            self.assertTrue(Source(TEXT).is_left_out(Rule(file, *list(vars(kept).values())[1:])))


class ListTest(unittest.TestCase):
    def test_a_line_is_an_exploration_below_a_heading_and_says_which_status_it_ends_with(self) -> None:
        text = "# What this is.\n\n# EPIC\nepic-1 reduce  # five packets\n\n# Hosts\n! ring all_reduce --mutate any\n"
        found = [(each.title, [(one.words, one.status) for one in each.explorations]) for each in explored.sections(text)]
        self.assertEqual(found, [("EPIC", [("epic-1 reduce", 0)]), ("Hosts", [("ring all_reduce --mutate any", 1)])])

    def test_no_exploration_stands_there_twice(self) -> None:
        words = [one.words for each in explored.sections(explored.EXPLORATIONS.read_text()) for one in each.explorations]
        self.assertEqual(len(words), len(set(words)))


class CountTest(unittest.TestCase):
    def test_counts_of_all_types_are_added_and_sides_of_conditions_are_told_apart(self) -> None:
        place = str(explored.ROOT / FILE)
        function = {"filenames": [place, "/elsewhere.rs"], "regions": [[4, 5, 6, 7, 2, 0, 0, 0], [1, 1, 2, 2, 9, 1, 0, 0]], "branches": [[4, 8, 4, 9, 3, 0, 0, 0, 4]]}
        counts = explored.counted({"data": [{"functions": [function, function]}]})
        region, side = (4, 5, 6, 7), (4, 8, 4, 9)
        self.assertEqual(counts, {Rule(FILE, *region, CODE): 4, Rule(FILE, *side, "true"): 6, Rule(FILE, *side, "false"): 0})


class UntakenTest(unittest.TestCase):
    def setUp(self) -> None:
        self.sources = explored.Sources()
        self.sources.known[FILE] = Source(TEXT)

    def test_what_stands_together_in_a_function_is_one_place(self) -> None:
        rules = {rule(10, "number", "start", "true"): None, block(10, 12): None, block(25, 27): None, rule(10, "self.is_full()", ")", "true"): 0}
        found = explored.gather(rules, self.sources)
        self.assertEqual([(each.line, each.function, each.rules) for each in found], [(10, "Pipe::free", 2), (25, "alone", 1)])

    def test_an_explanation_is_for_a_function_or_one_of_its_lines(self) -> None:
        untaken = Untaken(FILE, 10, 12, "Pipe::free", "", 1)
        self.assertTrue(Explanation(FILE, "Pipe::free", "why").is_for(untaken, self.sources))
        self.assertTrue(Explanation(FILE, "Pipe::free", "why", "self.start += 1").is_for(untaken, self.sources))
        self.assertFalse(Explanation(FILE, "Pipe::free", "why", "Ok(())").is_for(untaken, self.sources))
        self.assertFalse(Explanation(FILE, "alone", "why").is_for(untaken, self.sources))

    def test_each_explanation_names_a_function_that_there_is(self) -> None:
        for explanation in explored.explanations(explored.EXPLAINED.read_text()):
            with self.subTest(explanation=explanation):
                source = Source((explored.ROOT / explanation.file).read_text(encoding="utf-8"))
                self.assertIn(explanation.function, [name for *_, name in source.functions] + [""])
                self.assertTrue(not explanation.line or any(explanation.line in line for line in source.lines))


if __name__ == "__main__":
    unittest.main()
