"""Bounded proofs of the property modules in formal/, and of each a broken twin that the same proof refutes."""

import unittest

import rtl_tools
from rtl_tools import RTL, Twin

FIFO, ARBITER, SWITCH = RTL / "prim/fifo", RTL / "prim/arbiter", RTL / "allreduce_switch"


@rtl_tools.programs("yosys", "yosys-smtbmc", "z3")
class Proofs(unittest.TestCase):
    def check(self, wrapper, sources: list, steps: int, twins: list[Twin], *, several_clocks: bool = False) -> None:
        self.assertTrue(rtl_tools.prove(wrapper, sources, steps, several_clocks=several_clocks), f"{wrapper.stem} does not hold")
        for twin in twins:
            refuted = not rtl_tools.prove(wrapper, sources, steps, several_clocks=several_clocks, twin=twin)
            self.assertTrue(refuted, f"{wrapper.stem} holds of a twin with {twin.new!r}")

    def test_fifo_sync(self) -> None:
        name = "prim_fifo_sync.sv"
        twins = [
            Twin(name, "assign ready_o = !level[AddrW];", "assign ready_o = 1'b1;"),
            Twin(name, "(!valid_q || ready_i);", "1'b1;"),
            Twin(name, "if (read) valid_d = 1'b1;", "if (read && !ready_i) valid_d = 1'b1;"),
        ]
        self.check(FIFO / "formal/prove_fifo_sync.sv", [FIFO / "rtl" / name], 12, twins)

    def test_fifo_async(self) -> None:
        name = "prim_fifo_async.sv"
        twins = [
            Twin(name, "assign wready_o  = wfree_o != '0;", "assign wready_o  = 1'b1;"),
            Twin(name, "assign empty     = wgray_seen == rgray_q;", "assign empty     = 1'b0;"),
        ]
        self.check(FIFO / "formal/prove_fifo_async.sv", [FIFO / "rtl" / name, RTL / "prim/sync/rtl/prim_sync.sv"], 16, twins, several_clocks=True)

    def test_arbiter_rr(self) -> None:
        name = "prim_arbiter_rr.sv"
        twins = [
            # The lowest is always first.
            Twin(name, "if (take_i && valid_o) done_d = gnt_o | (gnt_o - 1'b1);", "done_d = '0;"),
            Twin(name, "done_d = gnt_o | (gnt_o - 1'b1);", "done_d = gnt_o - 1'b1;"),
        ]
        self.check(ARBITER / "formal/prove_arbiter_rr.sv", [ARBITER / "rtl" / name], 12, twins)

    def test_arbiter_weighted(self) -> None:
        name = "prim_arbiter_weighted.sv"
        twins = [
            Twin(name, "if (new_round) credit_d = WEIGHTS;", "credit_d = WEIGHTS;"),
            Twin(name, "assign eligible  = new_round ? req_i : (req_i & has_credit);", "assign eligible  = req_i & has_credit;"),
        ]
        self.check(ARBITER / "formal/prove_arbiter_weighted.sv", [ARBITER / "rtl/prim_arbiter_rr.sv", ARBITER / "rtl" / name], 14, twins)

    def test_frame_status_buffer(self) -> None:
        name = "frame_status_buffer.sv"
        twins = [
            Twin(name, "          sum_d[c*FRAMES+:FRAMES]  = '0;\n", ""),
            Twin(name, "assign in_turn = s1_ahead_q == '0;", "assign in_turn = s1_ahead_q <= 1;"),
            Twin(name, "if (s1_fresh_q) valid_d = '0;", ""),
            Twin(name, "      next_d = next_q + 1'b1;\n", "      next_d = next_q;\n"),
            Twin(name, "else if (status_q[index] && sum_q[index]) again = 1'b1;", "else if (status_q[index]) again = 1'b1;"),
        ]
        self.check(SWITCH / "formal/prove_frame_status_buffer.sv", [SWITCH / "rtl" / name], 14, twins)
