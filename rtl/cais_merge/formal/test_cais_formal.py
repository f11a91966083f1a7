"""Proofs of the tables of CAIS's merge unit, by a model checker and an SMT solver; each has broken twins that are refuted."""

import os
import unittest

import proofs
from proofs import Property, Twin
from rtl_tools import RTL

CAIS = RTL / "cais_merge"
LONG = os.environ.get("CAIS_MERGE_LONG") == "1"


class Proofs(proofs.Proofs):
    def test_access_order(self) -> None:
        name = "access_order.sv"
        twins = [
            # What is beyond an end is written; an end is not moved; the first one is not known.
            Twin(name, "if (!is_oldest) newer_q[older]", "newer_q[older]"),
            Twin(name, "if (newest_o) newest_q <= older;", ""),
            Twin(name, "if (is_oldest) oldest_q <= newer_o;", "if (is_oldest && !newest_o) oldest_q <= older;"),
            Twin(name, "if (!newest_o) older_q[newer_o] <= older;", ""),
            Twin(name, "if (!any_o) oldest_q <= number_i;", "oldest_q <= number_i;"),
        ]
        self.check(Property(CAIS / "formal/prove_access_order.sv", [CAIS / "rtl/access_order.sv"], steps=8, bound=16), twins)

    def test_lookup_table(self) -> None:
        name = "lookup_table.sv"
        twins = [
            # What was taken out is found; the last of two writes counts; a key is compared in part.
            Twin(name, "valid_q[e] && key_q[e] == key_i", "key_q[e] == key_i"),
            Twin(name, "else if (clear_i) valid_q[number_i] <= 1'b0;", ""),
            Twin(name, "if (write_i) valid_q[number_i] <= 1'b1;", "if (write_i) valid_q <= ENTRIES'(1) << number_i;"),
            Twin(name, "key_q[e] == key_i;", "key_q[e][0] == key_i[0];"),
        ]
        self.check(Property(CAIS / "formal/prove_lookup_table.sv", [CAIS / "rtl/lookup_table.sv"], steps=8, bound=16), twins)

    def test_group_sync_table(self) -> None:
        name = "group_sync_table.sv"
        twins = [
            # One is enough; the last one is not told; a group that is over is found again; who was told stays there; a group is that of its neighbour.
            Twin(name, "else if ((present | asks) == all) state_d = Free;", "else if ((present | asks) != '0) state_d = Free;"),
            Twin(name, "assign port_o  = next_member;", "assign port_o  = 4'd1;"),
            Twin(name, "write   = 1'b1;\n        file    = 1'b1;", "write   = 1'b0;\n        file    = 1'b1;"),
            Twin(name, "          tell_d = tell_q & ~next;\n          if", "          if"),
            Twin(name, "assign key         = {header_q.address, header_q.tag};", "assign key         = {48'd0, header_q.tag};"),
        ]
        sources = [RTL / "prim/flit/rtl/prim_flit_pkg.sv", *(CAIS / f"rtl/{each}.sv" for each in ("cais_pkg", "lookup_table", "access_order", "group_sync_table"))]
        self.check(Property(CAIS / "formal/prove_group_sync_table.sv", sources, steps=9, bound=18), twins)

    # It takes two minutes.
    if LONG:

        def test_merge_control(self) -> None:
            name = "merge_control.sv"
            twins = [
                # An entry is not counted; a sum that is whole is kept, too; a sum that makes room is lost; and one that times out; it does not say how much is in it.
                Twin(name, "else fresh_q <= fresh_q + 1'b1;", "else fresh_q <= fresh_q;"),
                Twin(name, "                  plan_d.free   = 1'b1;\n                end\n              end\n            end\n            prim_flit_pkg::KindReadResponse", "                end\n              end\n            end\n            prim_flit_pkg::KindReadResponse"),
                Twin(name, "if (entry_q.status == cais_pkg::Reduction && !drops_partial) end_plan.act = 1'b1;", "if (entry_q.status == cais_pkg::Reduction && state_q != Evict) end_plan.act = 1'b1;"),
                Twin(name, "if (entry_q.status == cais_pkg::Reduction && !drops_partial) end_plan.act = 1'b1;", "if (entry_q.status == cais_pkg::Reduction && state_q != Ends) end_plan.act = 1'b1;"),
                Twin(name, "    said = contributions;", "    said = 6'd1;"),
            ]
            sources = [*(RTL / f"prim/{each}.sv" for each in ("add/rtl/prim_half_pkg", "flit/rtl/prim_flit_pkg")), *(CAIS / f"rtl/{each}.sv" for each in ("cais_pkg", "lookup_table", "access_order", "merge_control"))]
            self.check(Property(CAIS / "formal/prove_merge_control.sv", sources, steps=10, bound=30), twins)


if __name__ == "__main__":
    unittest.main()
