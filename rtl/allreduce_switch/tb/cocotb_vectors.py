"""The frames of `vectors/allreduce-switch.txt` through the AXI streams of the whole switch: it answers each as the engine does, to the bit."""

from pathlib import Path

import cocotb
import lines
from mac import Switch

VECTORS = Path(__file__).resolve().parents[3] / "vectors/allreduce-switch.txt"


@cocotb.test()
async def every_frame_of_the_vectors_is_answered_as_the_engine_does(dut) -> None:
    ((_, ports), _), *told = lines.vectors(VECTORS)
    switch = await Switch.after_reset(dut)
    assert switch.ports == int(ports)
    for words, answers in told:
        if words[0] == "config":
            refused = await switch.config(int(words[1], 16), int(words[2], 16))
            assert refused == any(what == "refused" for what, *_ in answers)
            continue
        _, port, frame = words
        switch.send(int(port), bytes.fromhex(frame))
        assert sorted(await switch.run()) == sorted((int(port), frame) for what, port, frame in (a for a in answers if a[0] == "out"))
        assert dict(switch.drops) == {(int(port), " ".join(why)): 1 for what, port, *why in answers if what == "drop"}
