"""Lint: Verilator finds nothing in IncEngine's sources, in the shape that is simulated and with the fewest ports; with INC_ENGINE_LONG=1 also
with sixteen and with large buffers. Parameters out of range stop the build."""

import os
import unittest

import inc_build
import rtl_tools


@rtl_tools.programs("verilator")
class Lint(unittest.TestCase):
    def lint(self, **parameters: int) -> None:
        rtl_tools.lint("inc_engine", inc_build.lint_sources(), **parameters)

    def test_shapes(self) -> None:
        for shape in inc_build.SHAPES if os.environ.get("INC_ENGINE_LONG") == "1" else (inc_build.EIGHT,):
            self.lint(**shape.parameters())
        self.lint(PORTS=2, INSIDE_F32=1)

    def test_parameters_out_of_range_stop_the_build(self) -> None:
        for parameters in [{"PORTS": 1}, {"PORTS": 17}, {"SLOTS": 24}, {"SLOTS": 256}, {"MTU": 32}, {"MTU": 1000}, {"COLLECTIVES": 1}, {"QUEUE": 12}]:
            with self.assertRaisesRegex(AssertionError, "expected_", msg=f"{parameters}"):
                self.lint(**parameters)


if __name__ == "__main__":
    unittest.main()
