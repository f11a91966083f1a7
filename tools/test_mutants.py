"""What is drawn of the mutants, how one is put into the sources, and what is counted."""

import argparse
import unittest

import mutants
from mutants import Explanation

SOURCE = "fn one() {\n    a + b\n}\n\nfn two() {\n    a + b\n}\n"


def listed(function: str, line: int, file: str = "crates/engines/epic/src/pipe.rs", package: str = "quincunx-epic") -> dict:
    """A mutant of SOURCE as cargo-mutants lists it."""
    name = f"replace + with - in {function}"
    diff = f"--- {file}\n+++ {name}\n@@ -{line},1 +{line},1 @@\n-    a + b\n+    a - b /* ~ changed by cargo-mutants ~ */\n"
    return {
        "file": file,
        "function": {"function_name": function},
        "name": f"{file}:{line}:7: {name}",
        "package": package,
        "diff": diff,
    }


def several(count: int) -> list[mutants.Mutant]:
    return mutants.sift([listed(f"function_{index}", 2) for index in range(count)])


def row(verdict: str, stage: str = "", line: str = "a + b", crate: str = "epic") -> dict:
    return {"crate": crate, "verdict": verdict, "stage": stage, "mutant": "pipe.rs: replace + with -", "line": line}


class SiftTest(unittest.TestCase):
    def test_broken_rules_texts_for_debugging_and_what_only_looks_are_left_out(self) -> None:
        found = [
            listed("Pipe<P>::free", 2),
            listed("<impl fmt::Debug for Pipe<P>>::fmt", 2),
            listed("Pipe<P>::assert_invariants", 2),
            listed("Mutation::name", 2, file="crates/engines/epic/src/mutation.rs"),
        ]
        self.assertEqual([mutant.name for mutant in mutants.sift(found)], ["replace + with - in Pipe<P>::free"])

    def test_a_mutant_is_known_by_its_change_wherever_it_stands(self) -> None:
        before, after = mutants.sift([listed("one", 2)]), mutants.sift([listed("one", 40)])
        self.assertEqual(before[0].key, after[0].key)
        self.assertNotEqual(before[0].position, after[0].position)

    def test_equal_changes_of_one_function_are_told_apart(self) -> None:
        first, second = mutants.sift([listed("one", 2), listed("one", 6)])
        self.assertNotEqual(first.key, second.key)


class DrawTest(unittest.TestCase):
    def test_a_seed_draws_the_same_and_another_draws_others(self) -> None:
        everything = several(100)
        once, again, other = (mutants.draw(everything, 20, seed) for seed in (1, 1, 2))
        self.assertEqual(once, again)
        self.assertEqual(len(once), 20)
        self.assertNotEqual(once, other)

    def test_the_first_of_a_sample_are_a_smaller_sample(self) -> None:
        everything = several(100)
        self.assertEqual(mutants.draw(everything, 50, 1)[:20], mutants.draw(everything, 20, 1))

    def test_a_mutant_that_is_added_moves_one_at_most(self) -> None:
        before = set(mutants.draw(several(100), 20, 1))
        after = set(mutants.draw(several(101), 20, 1))
        self.assertLessEqual(len(before - after), 1)


class ChangeTest(unittest.TestCase):
    def test_a_change_is_put_where_it_belongs(self) -> None:
        [mutant] = mutants.sift([listed("two", 6)])
        expected = SOURCE[::-1].replace("b + a", "/* ~ changed by cargo-mutants ~ */"[::-1] + " b - a", 1)[::-1]
        self.assertEqual(mutants.mutated(SOURCE, mutant.diff), expected)

    def test_sources_that_have_changed_since_are_refused(self) -> None:
        [mutant] = mutants.sift([listed("two", 5)])
        with self.assertRaises(ValueError):
            mutants.mutated(SOURCE, mutant.diff)


class CountTest(unittest.TestCase):
    def test_what_is_not_viable_counts_for_nothing_and_what_never_ends_is_caught(self) -> None:
        rows = [row("unviable"), row("caught", "own"), row("timeout", "own"), row("survived")]
        counts, unexplained = mutants.tally(rows, [])
        self.assertEqual(counts["epic"]["viable"], 3)
        self.assertAlmostEqual(mutants.share(counts["epic"]), 2 / 3)
        self.assertEqual(unexplained, [rows[3]])

    def test_what_has_not_been_through_all_stages_is_not_caught(self) -> None:
        counts, unexplained = mutants.tally([row("caught", "own"), row("open", "own")], [])
        self.assertEqual((mutants.share(counts["epic"]), unexplained), (0.5, []))

    def test_a_survivor_is_explained_by_its_name_and_its_line(self) -> None:
        rows = [row("survived"), row("survived", line="c + d")]
        counts, unexplained = mutants.tally(rows, [Explanation("pipe.rs: replace + with -", "a + b", "equal")])
        self.assertEqual(counts["epic"]["explained"], 1)
        self.assertEqual(unexplained, [rows[1]])

    def test_an_explained_survivor_is_not_caught(self) -> None:
        counts, _ = mutants.tally([row("survived")], [Explanation("pipe.rs: replace + with -", "a + b", "equal")])
        self.assertEqual(mutants.share(counts["epic"]), 0)

    def test_the_table_adds_crates_up(self) -> None:
        counts, _ = mutants.tally([row("caught", "own"), row("survived", crate="roce")], [])
        self.assertEqual(mutants.table(counts)[-1], "| all | 2 | 2 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 | 50.0 % |")


class ExplainedTest(unittest.TestCase):
    def test_every_explanation_names_a_mutant_its_line_and_a_reason(self) -> None:
        for each in mutants.explanations(mutants.EXPLAINED.read_text()):
            file, _, name = each.mutant.partition(": ")
            self.assertIn(each.line, (mutants.ROOT / file).read_text(), each)
            self.assertTrue(name and each.reason, each)


class ShardTest(unittest.TestCase):
    def test_shards_are_counted_from_one(self) -> None:
        self.assertEqual(mutants.shard("2/8"), (2, 8))
        for wrong in ("0/8", "9/8", "2", "two/8"):
            with self.assertRaises(argparse.ArgumentTypeError):
                mutants.shard(wrong)


if __name__ == "__main__":
    unittest.main()
