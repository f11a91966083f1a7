"""Proofs of the property modules in formal/: some steps by an SMT solver, more or for ever by a model checker.

Each has broken twins that the model checker refutes, the first one of them is near enough for the solver, too.
"""

import unittest

import proofs
from proofs import Property, Twin
from rtl_tools import RTL

FIFO, ARBITER, SWITCH = RTL / "prim/fifo", RTL / "prim/arbiter", RTL / "allreduce_switch"


class Proofs(proofs.Proofs):
    def test_fifo_sync(self) -> None:
        name = "prim_fifo_sync.sv"
        twins = [
            Twin(name, "assign ready_o = !level[AddrW];", "assign ready_o = 1'b1;"),
            Twin(name, "(!valid_q || ready_i);", "1'b1;"),
            Twin(name, "if (read) valid_d = 1'b1;", "if (read && !ready_i) valid_d = 1'b1;"),
        ]
        self.check(Property(FIFO / "formal/prove_fifo_sync.sv", [FIFO / "rtl" / name], steps=8), twins)

    def test_fifo_async(self) -> None:
        name = "prim_fifo_async.sv"
        twins = [
            Twin(name, "assign empty     = wgray_seen == rgray_q;", "assign empty     = 1'b0;"),
            Twin(name, "assign wready_o  = wfree_o != '0;", "assign wready_o  = 1'b1;"),
        ]
        sources = [FIFO / "rtl" / name, RTL / "prim/sync/rtl/prim_sync.sv"]
        self.check(Property(FIFO / "formal/prove_fifo_async.sv", sources, several_clocks=True, steps=10, bound=24), twins)

    def test_arbiter_rr(self) -> None:
        name = "prim_arbiter_rr.sv"
        twins = [
            # The lowest is always first.
            Twin(name, "if (take_i && valid_o) done_d = gnt_o | (gnt_o - 1'b1);", "done_d = '0;"),
            Twin(name, "done_d = gnt_o | (gnt_o - 1'b1);", "done_d = gnt_o - 1'b1;"),
        ]
        self.check(Property(ARBITER / "formal/prove_arbiter_rr.sv", [ARBITER / "rtl" / name]), twins)

    def test_arbiter_weighted(self) -> None:
        name = "prim_arbiter_weighted.sv"
        twins = [
            Twin(name, "if (new_round) credit_d = WEIGHTS;", "credit_d = WEIGHTS;"),
            Twin(name, "assign eligible  = new_round ? req_i : (req_i & has_credit);", "assign eligible  = req_i & has_credit;"),
        ]
        sources = [ARBITER / "rtl/prim_arbiter_rr.sv", ARBITER / "rtl" / name]
        self.check(Property(ARBITER / "formal/prove_arbiter_weighted.sv", sources, steps=9), twins)

    def test_frame_status_buffer(self) -> None:
        name = "frame_status_buffer.sv"
        twins = [
            Twin(name, "assign in_turn = s1_ahead_q == '0;", "assign in_turn = s1_ahead_q <= 1;"),
            Twin(name, "          sum_d[c*FRAMES+:FRAMES]  = '0;\n", ""),
            Twin(name, "if (s1_fresh_q) valid_d = '0;", ""),
            Twin(name, "      next_d = next_q + 1'b1;\n", "      next_d = next_q;\n"),
            Twin(name, "else if (status_q[index] && sum_q[index]) again = 1'b1;", "else if (status_q[index]) again = 1'b1;"),
            Twin(name, "status_q[again_index_i] && sum_q[again_index_i] && is_turn;", "status_q[again_index_i] && is_turn;"),
            # Another message's sum is taken for the one that was asked for.
            Twin(name, "sum_q[again_index_i] && is_turn;", "sum_q[again_index_i];"),
            Twin(name, "          turn_d[c*TURN_W+:TURN_W] = turn_q[c*TURN_W+:TURN_W] + 1'b1;\n", ""),
            # What is there is told a cycle late.
            Twin(name, "assign again_there_o = status_q[again_index_i] && sum_q[again_index_i] && is_turn;", "always_ff @(posedge clk_i) again_there_o <= status_q[again_index_i] && sum_q[again_index_i] && is_turn;"),
        ]
        wrapper, sources = SWITCH / "formal/prove_frame_status_buffer.sv", [SWITCH / "rtl" / name]
        self.check(Property(wrapper, sources, steps=9), twins)
        # More columns and places than a twin needs to go wrong.
        self.assertTrue(Property(wrapper, sources, {"FLOWS": 4, "FRAMES": 4, "PSN_W": 6}, bound=16).holds())

    def test_output_arbiter(self) -> None:
        name = "output_arbiter.sv"
        twins = [
            Twin(name, "if (valid_o && ready_i && beat_o[67]) state_d", "if (valid_o && beat_o[67]) state_d"),
            Twin(name, "if (ready_i) {agg_ready_o, fwd_ready_o} = source_q;", "{agg_ready_o, fwd_ready_o} = source_q;"),
            Twin(name, ".take_i (take && grant[PORTS])", ".take_i (1'b0)"),
        ]
        sources = [ARBITER / "rtl/prim_arbiter_rr.sv", SWITCH / "rtl" / name]
        self.check(Property(SWITCH / "formal/prove_output_arbiter.sv", sources, steps=8), twins)

    def test_cross_fifo_rx(self) -> None:
        name = "cross_fifo_rx.sv"
        twins = [
            Twin(name, "({abort, rx_tlast_i || abort", "({1'b0, rx_tlast_i || abort"),
            Twin(name, "count_q == CountW'(MAX_BEATS);", "count_q > CountW'(MAX_BEATS);"),
            # The rest of a frame that does not fit goes on; no place is kept for its mark; one that does not begin is not told.
            Twin(name, "else if (abort) state_d = Discard;", ""),
            Twin(name, "overrun_o = free < 2;", "overrun_o = free < 1;"),
            Twin(name, "if (free < 2) overrun_o = 1'b1;\n          else write = 1'b1;", "write = 1'b1;"),
        ]
        sources = [RTL / "prim/sync/rtl/prim_sync.sv", FIFO / "rtl/prim_fifo_async.sv", SWITCH / "rtl" / name]
        self.check(Property(SWITCH / "formal/prove_cross_fifo_rx.sv", sources, bound=14), twins)
