"""Lint: Verilator finds nothing in SCIN's sources, in the shapes that are simulated and with the fewest ports; parameters out of range stop the build."""

import unittest

import rtl_tools
import scin_build
import simulators


@rtl_tools.programs("verilator")
class Lint(unittest.TestCase):
    def lint(self, **parameters: int) -> None:
        rtl_tools.lint("scin_switch", simulators.SCIN.sources(), **parameters)

    def test_shapes(self) -> None:
        for shape in scin_build.SHAPES:
            self.lint(**shape.parameters())
        self.lint(PORTS=2)
        self.lint(PORTS=2, QUANT=1)

    def test_parameters_out_of_range_stop_the_build(self) -> None:
        wrong = [{"PORTS": 1}, {"PORTS": 9}, {"WAVES": 65}, {"SLOTS": 257}, {"PAYLOAD_BYTES": 48}, {"WAVE_BYTES": 2048}, {"QUANT": 1, "WAVE_BYTES": 512, "PAYLOAD_BYTES": 512}]
        for parameters in [*wrong, {"DATA_FLITS": 128}, {"PEER_CREDITS": 0}]:
            with self.assertRaisesRegex(AssertionError, "expected_", msg=f"{parameters}"):
                self.lint(**parameters)


if __name__ == "__main__":
    unittest.main()
