"""The backend of torch.distributed, each test on three ranks of a fabric that `quincunx run` starts. `make test-torch` brings torch."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import needs
from package import HERE, LIMIT_SECONDS, PACKAGE, ROOT, OnRanks, one_address


@needs.modules("torch", by="`make test-torch`")
class Torch(OnRanks):
    programs = "torch_on_ranks.py"

    def test_collectives_give_what_gloo_gives(self) -> None:
        self.hold()

    def test_every_type_is_reduced_and_averaged(self) -> None:
        self.hold()

    def test_objects_and_subgroups_work(self) -> None:
        self.hold()

    def test_groups_that_are_destroyed_or_dropped_are_given_back(self) -> None:
        self.hold()

    def test_ddp_trains_as_one_process_does(self) -> None:
        self.hold()

    def test_the_profiler_shows_each_collective_with_its_design_and_bytes(self) -> None:
        self.hold()

    def test_work_under_way_has_futures(self) -> None:
        self.hold()

    def test_gradients_in_blocks_are_near_those_of_floats_and_alike_at_all_ranks(self) -> None:
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

    def test_ranks_that_disagree_hear_which_two_and_in_what(self) -> None:
        self.hold(ranks=4)

    def test_the_analyser_of_flight_recorders_reads_what_ranks_have_called(self) -> None:
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

    def test_a_layer_of_experts_has_the_outputs_and_gradients_of_one_process(self) -> None:
        self.hold(ranks=4)

    def test_a_dispatch_without_a_combine_has_gradients(self) -> None:
        self.hold(ranks=4)

    def test_a_batch_for_experts_that_makes_no_sense_is_an_exception(self) -> None:
        self.hold(ranks=4)

    def test_a_group_over_relays_gathers(self) -> None:
        self.hold(ranks=4, options=("--design", "multiwrite"))

    def test_a_mixture_of_experts_on_two_servers_of_four_has_the_losses_of_one_process(self) -> None:
        options = ("--steps", "2", "--tokens", "20", "--json")
        found = json.loads(self.run_on_ranks(sys.executable, str(ROOT / "examples" / "moe" / "train.py"), *options, ranks=8))
        relayed, direct = found["designs"]["multiwrite"], found["designs"]["direct"]
        for counts in (relayed, direct):
            self.assertLess(counts["losses"][1], counts["losses"][0])
            self.assertLess(counts["apart"], 1e-4)
        if not self.everywhere:
            # A token crosses once where it is for ranks of the other server, or once for each of them; headers and acknowledges come with it.
            factor = direct["dispatch_bytes"] / relayed["dispatch_bytes"]
            self.assertAlmostEqual(factor, relayed["to_ranks"] / relayed["to_servers"], delta=0.4)

    def test_inference_by_parts_gives_the_tokens_of_the_whole_model(self) -> None:
        program = ROOT / "examples" / "gpt" / "infer.py"
        found = self.run_on_ranks(sys.executable, str(program), "--prompt", "20", "--rounds", "1", "--width", "64", ranks=2)
        self.assertIn("TPOT", found)

    def test_sharded_and_split_models_have_the_losses_of_gloo(self) -> None:
        found = self.run_on_ranks(sys.executable, str(ROOT / "examples" / "gpt" / "shard.py"), "--steps", "1", "--width", "64", ranks=2)
        self.assertIn("tensor parallel", found)

    def test_a_job_that_torchrun_starts_again_goes_on(self) -> None:
        # Ranks attach under new names as they start again, so the fabric is one that knows none: a manager and a switch.
        program = str(self.target / "quincunx")
        with tempfile.TemporaryDirectory() as folder:
            manager = subprocess.Popen([program, "manager", "--listen", "127.0.0.1:0"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self.addCleanup(ended, manager)
            address = manager.stdout.readline().split()[-1]
            leaf = [program, "switch", "--name", "leaf", "--address", one_address(250), "--manager", address]
            self.addCleanup(ended, subprocess.Popen(leaf, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
            more = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "QUINCUNX_MANAGER": address, "QUINCUNX_SWITCHES": "1", "KEPT": f"{folder}/kept"}
            if self.everywhere:
                more["QUINCUNX_ADDRESS"] = self.everywhere[1]
            command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--max-restarts", "1", "--standalone"]
            command += [str(HERE / self.programs), "a_job_that_torchrun_starts_again_goes_on"]
            found = subprocess.run(command, env=dict(os.environ, **more), text=True, capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual(found.returncode, 0, found.stderr[-4000:])
        self.assertIn("went on to the end", found.stdout)


@needs.modules("torch", by="`make test-torch`")
class BehindOneAddress(Torch):
    """The same, all ranks behind one address."""

    everywhere = ("--addresses", one_address(202))


def ended(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


if __name__ == "__main__":
    unittest.main()
