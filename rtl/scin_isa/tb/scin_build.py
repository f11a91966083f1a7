"""Shapes of SCIN's switch that are simulated."""

from dataclasses import dataclass

import simulators


@dataclass(frozen=True)
class Shape(simulators.Shape):
    """Parameters of scin_switch."""

    block = simulators.SCIN

    ports: int
    waves: int
    wave_bytes: int
    payload_bytes: int
    slots: int
    quant: int = 0
    peer_credits: int = 8
    data_flits: int = 1024


# The prototype's (3.5), with the quantizer that it lacks; eight accelerators, several packets to a wave and few waves; the same with one wave.
PROTOTYPE = Shape(4, 8, 4096, 4096, 8, quant=1)
EIGHT = Shape(8, 4, 256, 64, 6, peer_credits=4, data_flits=64)
SMALL = Shape(3, 1, 2048, 32, 3, quant=1, peer_credits=2, data_flits=16)
SHAPES = (PROTOTYPE, EIGHT, SMALL)
