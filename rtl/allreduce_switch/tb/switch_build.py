"""Shapes of the switch that are simulated."""

from dataclasses import dataclass

import simulators


@dataclass(frozen=True)
class Shape(simulators.Shape):
    """Parameters of allreduce_switch."""

    block = simulators.SWITCH

    ports: int = 8
    flows: int = 4
    frames: int = 128


EIGHT, THREE = Shape(8), Shape(3)
# What fills up at once.
TWO = Shape(2, 2, 8)
