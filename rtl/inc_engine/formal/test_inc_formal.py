"""Proofs of IncEngine's property modules, some steps by a model checker and an SMT solver; each has broken twins that are refuted."""

import unittest

import proofs
from proofs import Property, Twin
from rtl_tools import RTL

INC = RTL / "inc_engine"


class Proofs(proofs.Proofs):
    def test_slot_table(self) -> None:
        name = "slot_table.sv"
        twins = [
            # What is written in the cycle of a question is not seen; who has contributed is forgotten; a slot is given away that holds a number.
            Twin(name, "arrived_o <= arrived_d[PORTS*32'(slot)+:PORTS];", "arrived_o <= arrived_q[PORTS*32'(slot)+:PORTS];"),
            Twin(name, "holds[s] = used_d[s] &&", "holds[s] = used_q[s] &&"),
            Twin(name, "      if (!holds[s]) begin\n        free = 1'b1;", "      if (s == 0 || !holds[s]) begin\n        free = 1'b1;"),
            Twin(name, "!age[SEQW-1];", "1'b1;"),
        ]
        self.check(Property(INC / "formal/prove_slot_table.sv", [INC / "rtl/slot_table.sv"], steps=6, bound=10), twins)

    def test_page_pool(self) -> None:
        name = "page_pool.sv"
        twins = [
            # A page is free at once; when one of the readers is done; or it is given out twice.
            Twin(name, "!fold_left[MARKW-1] && !forward_left[MARKW-1];", "!forward_left[MARKW-1];"),
            Twin(name, "!fold_left[MARKW-1] && !forward_left[MARKW-1];", "!fold_left[MARKW-1];"),
            Twin(name, "assign valid_o      = out_q != wait_q;", "assign valid_o      = out_q != in_q;"),
            Twin(name, "if (take_i) out_q", "if (take_i && !release_i) out_q"),
        ]
        self.check(Property(INC / "formal/prove_page_pool.sv", [INC / "rtl/page_pool.sv"], steps=6, bound=10), twins)


if __name__ == "__main__":
    unittest.main()
