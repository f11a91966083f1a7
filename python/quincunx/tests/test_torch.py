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

    def test_gradients_in_fixed_point_are_those_of_floats(self) -> None:
        self.hold()

    def test_blocks_are_quantised_as_in_rust(self) -> None:
        self.hold()

    def test_sums_of_quantised_vectors_are_those_of_rust(self) -> None:
        self.hold()

    def test_gradients_in_blocks_are_those_of_floats_but_for_their_codes(self) -> None:
        self.hold()

    def test_messages_go_in_batches(self) -> None:
        self.hold()

    def test_messages_say_whether_they_have_come_and_from_whom(self) -> None:
        self.hold()

    def test_a_rank_that_dies_is_an_exception_at_the_others(self) -> None:
        self.hold()

    def test_fsdp2_trains_as_one_process_does(self) -> None:
        self.hold()

    def test_tensor_parallel_layers_train_as_whole_ones_do(self) -> None:
        self.hold()

    def test_sequence_parallel_layers_gather_and_scatter(self) -> None:
        self.hold()

    def test_distributed_tensors_change_their_layout(self) -> None:
        self.hold()

    def test_functional_collectives_have_gradients(self) -> None:
        self.hold()

    def test_groups_of_a_mesh_work_side_by_side(self) -> None:
        self.hold(ranks=4)


if __name__ == "__main__":
    unittest.main()
