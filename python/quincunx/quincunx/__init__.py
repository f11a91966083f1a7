"""Collectives computed inside the network, for programs in Python.

    import numpy, quincunx

    group = quincunx.init()            # as `quincunx run` has set the environment
    values = numpy.ones(1 << 20, dtype=numpy.float32)
    group.all_reduce(values)           # values is the sum over all ranks now

`quincunx.torch` is the backend of torch.distributed.
"""

from quincunx._core import EndpointError, GroupError, __version__

__all__ = ["EndpointError", "GroupError", "__version__"]
