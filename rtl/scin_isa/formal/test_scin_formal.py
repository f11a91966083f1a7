"""Proofs of SCIN's property modules, for ever by a model checker and some steps by an SMT solver; each has broken twins that are refuted."""

import unittest

import proofs
from proofs import Property, Twin
from rtl_tools import RTL

SCIN = RTL / "scin_isa"
ARBITER = RTL / "prim/arbiter/rtl/prim_arbiter_rr.sv"


class Proofs(proofs.Proofs):
    def sources(self, *names: str) -> list:
        return [ARBITER, *(SCIN / "rtl" / f"{name}.sv" for name in names)]

    def test_table_manager(self) -> None:
        tables, awaited = "table_manager.sv", "awaited_packets.sv"
        twins = [
            # An entry is taken that holds a wave; it is given away with its first piece, or never; a piece is read before it has come, or twice.
            Twin(tables, "if (!busy_q[e]) idle_entry_o", "if (!busy_q[e] || e == 0) idle_entry_o"),
            Twin(tables, "if (done_i && unread_q[32'(done_entry_i)*PACKETS+:PACKETS] == '0) busy_d", "if (done_i) busy_d"),
            Twin(tables, "if (done_i && unread_q", "if (done_i && !read_i && unread_q"),
            Twin(tables, "= unread_q[e*PACKETS+:PACKETS] & ~open[e*Places+:PACKETS];", "= unread_q[e*PACKETS+:PACKETS];"),
            Twin(tables, "else if (open[e*Places+:Places] != '0)", "else if (open[e*Places+:PACKETS] != '0)"),
            Twin(tables, "if (read_i) unread_d", "if (read_i && !take_i) unread_d"),
            Twin(tables, ".take_i (read_i)", ".take_i (1'b0)"),
            # A response that comes as a wave is taken is forgotten; one is taken again and again; one of another port is.
            Twin(awaited, "(mine & ~come) | taken;", "(take_i ? mine : mine & ~come) | taken;"),
            Twin(awaited, "(mine & ~come) | taken;", "mine | taken;"),
            Twin(awaited, "for (int p = 0; p < PORTS; p++) open_o |=", "for (int p = 1; p < PORTS; p++) open_o |="),
        ]
        sources = self.sources("awaited_packets", "table_manager")
        self.check(Property(SCIN / "formal/prove_table_manager.sv", sources, steps=5), twins)

    def test_result_manager(self) -> None:
        results, awaited = "result_manager.sv", "awaited_packets.sv"
        twins = [
            Twin(results, "if (!busy_o[s]) free_slot_o", "free_slot_o"),
            Twin(results, "busy_o[s] = open[s*PLACES+:PLACES] != '0;", "busy_o[s] = open[s*PLACES+:PLACES] == '1;"),
            Twin(results, "free_o = busy_o != '1;", "free_o = 1'b1;"),
            Twin(awaited, "place_i[p*PlaceW+:PlaceW] == PlaceW'(k);", "1'b1;"),
            Twin(awaited, "= take_i && take_ports_i[p] &&", "= take_i &&"),
        ]
        sources = self.sources("awaited_packets", "result_manager")
        self.check(Property(SCIN / "formal/prove_result_manager.sv", sources, steps=7), twins)

    def test_port_transmitter(self) -> None:
        port, credit = "port_transmitter.sv", "credit_counter.sv"
        twins = [
            Twin(credit, "count_q <= CountW'(CREDITS);", "count_q <= CountW'(CREDITS + 1);"),
            Twin(credit, "else if (give_i && !take_i)", "else if (give_i)"),
            Twin(credit, "if (take_i && !give_i)", "if (take_i)"),
            Twin(port, "core_valid_i & has_credit_i[3:0];", "core_valid_i;"),
            Twin(port, "if (out) inside_q <= !out_last;", "inside_q <= !out_last;"),
            Twin(port, "assign whose  = inside_q ? whose_q : chosen;", "assign whose  = (inside_q && core_valid_i != '0) ? whose_q : chosen;"),
            Twin(port, "assign begins = !inside_q && set_want", "assign begins = set_want"),
            Twin(port, "= begins ? {chosen[1:0], chosen[5:2]} : '0;", "= {chosen[1:0], chosen[5:2]};"),
        ]
        sources = self.sources("credit_counter", "port_transmitter")
        wrapper = SCIN / "formal/prove_port_transmitter.sv"
        self.check(Property(wrapper, sources, steps=5), twins)
        waits = Property(wrapper, sources, {"WAITS": 1}, bound=16)
        self.assertTrue(waits.holds())
        # Turns that do not go on: between the two, and within one of them.
        self.assertFalse(waits.holds(Twin(port, ".take_i (begins),", ".take_i (1'b0),")))
        self.assertFalse(waits.holds(Twin(port, ".take_i (begins && set_grant[1]),", ".take_i (1'b0),")))


if __name__ == "__main__":
    unittest.main()
