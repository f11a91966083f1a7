"""How long frames take through an idle switch."""

import needs
import rtl_tools
from case import Case, held
from frames import FIRST, MIDDLE, address, ethernet
from hosts import Floats, Host


@rtl_tools.programs("verilator", "g++")
@needs.modules("numpy")
class Latency(Case):
    """Idle, all ports at once, from the last beat in to the first beat out; latency.toml says how long, and the paper (figure 17) how long at most."""

    def measure(self, frames: list[bytes]) -> float:
        for port, frame in enumerate(frames):
            self.bench.send(port, frame)
        outs = self.bench.run()
        self.assertEqual(len(outs), self.ports)
        ends = {sent.bytes[6:12].hex(): sent.last for sent in self.bench.sent}
        return max(out.first - ends[out.frame[12:24]] for out in outs)

    def test_latencies_are_those_of_the_table(self) -> None:
        self.learn()
        found = {}
        for size in (60, 1094, 1514):
            # One frame later than another by part of a cycle: the worst of some.
            found[f"forwarded_{size + 4}_ns"] = max(self.measure([ethernet(address((p + s) % 8), address(p), size) for p in range(8)]) for s in range(1, 8))
        for mode, kind, name in ((0, Host, "fixed"), (1, Floats, "floating")):
            self.bench.config(mode, 0xFF)
            hosts = self.hosts(kind)
            firsts = [self.measure([host.frame(FIRST) for host in hosts]) for _ in range(2)]
            found[f"aggregated_{name}_first_ns"] = max(firsts)
            found[f"aggregated_{name}_ns"] = max(self.measure([host.frame(MIDDLE) for host in hosts]) for _ in range(6))
        again = []
        for host in hosts:
            self.bench.send(host.port, host.sent[-1])
            again += [out.first - self.bench.sent[0].last for out in self.bench.run()]
        found["retransmitted_ns"] = max(again)
        found = {name: round(ns, 1) for name, ns in found.items()}
        held(self, "latency", "latency", found)
        for name, ns in found.items():
            limit = 250 if name.startswith("forwarded") else 2400 if "floating" in name else 2200
            self.assertLess(ns, limit, f"{name}: the paper's figure 17")
