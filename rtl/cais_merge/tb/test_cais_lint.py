"""Lint: Verilator finds nothing in the sources of CAIS's merge unit, in the shapes that are simulated, with the fewest ports and with the most; parameters
out of range stop the build."""

import unittest

import cais_build
import rtl_tools


@rtl_tools.programs("verilator")
class Lint(unittest.TestCase):
    def lint(self, top: str = "cais_merge", **parameters: int) -> None:
        rtl_tools.lint(top, cais_build.lint_sources(), **parameters)

    def test_shapes(self) -> None:
        for shape in (cais_build.SMALL, cais_build.PAPER):
            self.lint(**shape.parameters())
        self.lint(PORTS=2, ENTRIES=2, GROUPS=2, STREAMS=1, PAYLOAD_BYTES=32)
        self.lint(PORTS=16)

    def test_parameters_out_of_range_stop_the_build(self) -> None:
        wrong = [{"PORTS": 1}, {"PORTS": 17}, {"ENTRIES": 2000}, {"PAYLOAD_BYTES": 512}, {"PAYLOAD_BYTES": 96}, {"PORTS": 16, "PAYLOAD_BYTES": 64}]
        for parameters in [*wrong, {"STREAMS": 65}, {"TIMEOUT": 8}, {"GROUP_TIMEOUT": 8}]:
            with self.assertRaisesRegex(AssertionError, "expected_", msg=f"{parameters}"):
                self.lint(**parameters)


if __name__ == "__main__":
    unittest.main()
