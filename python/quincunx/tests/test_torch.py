"""The backend of torch.distributed, each test on three ranks of a fabric that `quincunx run` starts. `make test-torch` brings torch."""

import unittest

import needs
from package import OnRanks


@needs.modules("torch", by="`make test-torch`")
class Torch(OnRanks):
    programs = "torch_on_ranks.py"

    def test_collectives_give_what_gloo_gives(self) -> None:
        self.hold()

    def test_fallbacks_warn_once(self) -> None:
        self.hold()

    def test_objects_and_subgroups_work(self) -> None:
        self.hold()

    def test_ddp_trains_as_one_process_does(self) -> None:
        self.hold()

    def test_work_under_way_has_futures(self) -> None:
        self.hold()


if __name__ == "__main__":
    unittest.main()
