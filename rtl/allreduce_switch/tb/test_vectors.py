"""The frames of `vectors/allreduce-switch.txt`, which Rust made, through the hardware: it answers each as the engine does."""

import unittest

import lines
import needs
import rtl_tools
from bench import Bench
from switch_build import Shape

VECTORS = rtl_tools.ROOT / "vectors/allreduce-switch.txt"


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Vectors(unittest.TestCase):
    # After what needs no simulator.
    turn = 2

    def test_every_frame_is_answered_as_the_engine_does(self) -> None:
        ((_, ports), _), *told = lines.vectors(VECTORS)
        bench = Bench(Shape(int(ports)))
        self.addCleanup(bench.close)
        for words, answers in told:
            match words:
                case ["frame", port, frame]:
                    bench.send(int(port), bytes.fromhex(frame))
                    outs = sorted((out.port, out.frame) for out in bench.run())
                    self.assertEqual(outs, sorted((int(port), frame) for what, port, frame in (a for a in answers if a[0] == "out")))
                    drops = {(int(port), " ".join(why)): 1 for what, port, *why in answers if what == "drop"}
                    self.assertEqual(dict(bench.drops), drops)
                case ["config", mode, cfg]:
                    value = int(cfg, 16)
                    bench.config(int(mode, 16), value & 0x3FFFFFF, value >> 27)
                    self.assertEqual(bench.refused, any(what == "refused" for what, *_ in answers))
                case _:
                    self.fail(f"expected frame or config, found {words}")


if __name__ == "__main__":
    unittest.main()
