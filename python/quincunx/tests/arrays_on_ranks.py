"""What every rank runs for the tests in test_arrays.py: `arrays_on_ranks.py FUNCTION`."""

import array
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import disagreements
import numpy
from package import asked_of_group, expect_as_shown, expect_groups_at_the_manager, is_told, wait_for_waits, waits

import quincunx
from quincunx import blocks


def expect(error: type[BaseException], call: Callable[[], object]) -> None:
    try:
        call()
    except error as found:
        assert str(found).startswith("expected "), found
    else:
        sys.exit(f"expected {error.__name__}, found none")


def sums_are_in_place_and_whole_however_long(group: quincunx.Group) -> None:
    for count in (1, 3, 1000, 700_001):
        values = (numpy.arange(count) % 50 + group.rank).astype(numpy.float32)
        group.all_reduce(values)
        expected = numpy.arange(count) % 50 * group.size + group.size * (group.size - 1) // 2
        assert (values == expected).all(), count


def each_primitive_gives_what_its_table_says(group: quincunx.Group) -> None:
    rank, size = group.rank, group.size
    gathered = numpy.empty((size, 5), numpy.float64)
    group.all_gather(numpy.full(5, rank, numpy.float64), gathered)
    assert (gathered == numpy.arange(size)[:, None]).all()
    part = numpy.empty(2, numpy.float16)
    group.reduce_scatter(numpy.ones(2 * size, numpy.float16), part)
    assert (part == size).all()
    numbers = array.array("i", [rank] * 7)
    group.broadcast(numbers, root=1)
    assert list(numbers) == [1] * 7
    least = numpy.array([rank + 3], numpy.int32)
    group.reduce(least, root=2, op="min")
    assert least[0] == (3 if rank == 2 else rank + 3)
    group.barrier()


def messages_come_whole_and_in_order(group: quincunx.Group) -> None:
    rank, size = group.rank, group.size
    source = numpy.arange(size * 3, dtype=numpy.uint8) + rank
    turned = numpy.empty_like(source)
    group.all_to_all(source, turned)
    assert (turned.reshape(size, 3) == numpy.arange(3 * rank, 3 * rank + 3) + numpy.arange(size)[:, None]).all()
    if rank == 0:
        group.send(numpy.arange(100_000.0), 1)
        group.send(numpy.zeros(1), 1)
        group.send(numpy.ones(1), 1, tag=7)
    if rank == 1:
        one, long, short = numpy.empty(1), numpy.empty(100_000), numpy.empty(1)
        group.receive(one, 0, tag=7)
        group.receive(long, 0)
        group.receive(short, 0)
        assert one[0] == 1 and short[0] == 0 and (long == numpy.arange(100_000.0)).all()
    all_ranks = numpy.empty(size, numpy.int64)
    group.gather(numpy.array([rank]), all_ranks, root=0)
    assert rank != 0 or list(all_ranks) == list(range(size))
    mine = numpy.empty(1, numpy.int64)
    group.scatter(numpy.arange(size) * 10, mine, root=1)
    assert mine[0] == 10 * rank


def every_type_and_operation_is_reduced(group: quincunx.Group) -> None:
    for kind in ("int64", "uint8", "int16", "float64", "float32"):
        values = numpy.array([2, 1, 3], kind)
        group.all_reduce(values, op="prod")
        assert (values == numpy.array([2, 1, 3], kind) ** group.size).all(), kind
    bits = numpy.array([1 << group.rank], numpy.int32)
    group.all_reduce(bits, op="bor")
    assert bits[0] == (1 << group.size) - 1
    for kind in ("int64", "uint8", "float64", "float16"):
        values = numpy.array([2, 1, 3], kind) * (group.rank + 1)
        group.all_reduce(values, op="avg")
        mean = numpy.array([2, 1, 3], "float64") * (group.size + 1) / 2
        assert (values == (mean if "float" in kind else numpy.trunc(mean)).astype(kind)).all(), kind


def block_formats_are_added_up_in_the_network(group: quincunx.Group) -> None:
    for element in blocks.FORMATS:
        vectors = [numpy.random.default_rng(rank).normal(size=5000).astype(numpy.float32) for rank in range(group.size)]
        first, *others = (blocks.quantize(vector, element) for vector in vectors)
        for other in others:
            first = blocks.add(first, other)
        found = blocks.quantize(vectors[group.rank], element)
        group.all_reduce(found)
        # Set to add in rank order, the network has the bits of that order.
        assert (found.tiles == first.tiles).all(), element
        into = blocks.zeros(5000, element)
        group.all_reduce(blocks.quantize(numpy.full(5000, 3.0), element), into, op="avg")
        assert (into.dequantize() == 3).all(), element
        expect(ValueError, lambda: group.all_reduce(blocks.zeros(1, element), op="max"))  # noqa: B023


def many_are_under_way_at_once(group: quincunx.Group) -> None:
    arrays = [numpy.full(20_000, index + group.rank, numpy.float32) for index in range(20)]
    pending = [group.all_reduce(one, wait=False) for one in arrays]
    for index, one in reversed(list(enumerate(pending))):
        one.wait()
        assert one.done() and (arrays[index] == index * group.size + group.size * (group.size - 1) // 2).all()


def parts_of_a_group_are_groups(group: quincunx.Group) -> None:
    half = group.split(group.rank % 2)
    ones = numpy.ones(10, numpy.float32)
    half.all_reduce(ones)
    assert half.size == (group.size + 1 - group.rank % 2) // 2 and (ones == half.size).all()


def groups_that_are_dropped_closed_or_left_are_given_back(group: quincunx.Group) -> None:
    ones = numpy.ones(10, numpy.float32)

    def used(part: quincunx.Group) -> quincunx.Group:
        assert part.design == group.design
        part.all_reduce(numpy.ones(10, numpy.float32))
        return part

    for _ in range(20):
        used(group.split(0))
    for _ in range(20):
        part = used(group.split(0))
        clone = part._core
        part.close()
        assert clone.is_closed
        expect(ValueError, part.barrier)
    for _ in range(20):
        with group.split(0) as part:
            used(part)
    try:
        with group.split(0) as part:
            raise KeyError
    except KeyError:
        expect(ValueError, part.barrier)
    # A cycle, which the garbage collector finds in whatever thread it runs.
    part = used(group.split(0))
    part.cycle = part  # type: ignore[attr-defined]
    del part
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    # What is under way goes on to its end.
    pending = group.split(0).all_reduce(ones, wait=False)
    pending.wait()
    assert (ones == group.size).all()
    expect_groups_at_the_manager(2)
    group.barrier()


def a_group_of_all_ranks_is_left_with_its_with(group: quincunx.Group) -> None:
    with group:
        group.barrier()
    expect(ValueError, group.barrier)
    group.close()


def misuse_is_an_exception_and_changes_nothing(group: quincunx.Group) -> None:
    values = numpy.zeros(1000, numpy.float32)
    expect(BufferError, lambda: group.all_reduce(values[:-1], values[1:]))
    expect(TypeError, lambda: group.all_reduce(numpy.zeros(3, complex)))
    expect(TypeError, lambda: group.all_reduce([1, 2]))
    expect(TypeError, lambda: group.all_reduce(numpy.zeros(3, ">f4")))
    expect(TypeError, lambda: group.all_reduce(values, op="mean"))
    expect(TypeError, lambda: group.all_reduce(values, numpy.zeros(1000, numpy.int32)))
    expect(ValueError, lambda: group.all_reduce(values, numpy.zeros(3, numpy.float32)))
    expect(ValueError, lambda: group.all_reduce(values, op="bor"))
    expect(ValueError, lambda: group.broadcast(values, root=9))
    for strided_or_read_only in (values[::2], b"1234"):
        try:
            group.all_reduce(strided_or_read_only)
        except BufferError:
            continue
        sys.exit("expected a BufferError, found none")
    # The group is as good as before.
    group.all_reduce(values)
    assert not values.any()


def memory_in_use_is_refused_until_its_end(group: quincunx.Group) -> None:
    values = numpy.ones(1 << 20, numpy.float32)
    # Nobody ends it before rank 0 comes to it.
    if group.rank > 0:
        pending = group.all_reduce(values, wait=False)
        expect(BufferError, lambda: group.all_reduce(values))
        group.send(numpy.zeros(1), 0)
        pending.wait()
    else:
        for other in range(1, group.size):
            group.receive(numpy.zeros(1), other)
        group.all_reduce(values)
    assert (values == group.size).all()


def a_rank_that_dies_is_an_exception_at_the_others(group: quincunx.Group) -> None:
    values = numpy.ones(1 << 18, numpy.float32)
    group.all_reduce(values)
    if group.rank == 1:
        os._exit(0)
    try:
        while True:
            group.all_reduce(values)
    except quincunx.GroupError as error:
        assert "rank1" in str(error), error
    # What is begun later has met the same.
    expect(quincunx.GroupError, group.barrier)
    os._exit(0)


def a_forked_child_is_refused_and_its_parent_goes_on(group: quincunx.Group) -> None:
    values = numpy.ones(1 << 16, numpy.float32)
    group.all_reduce(values)
    pending = group.all_reduce(values, wait=False)
    child = os.fork()
    if child == 0:
        # What was under way is the parent's, and so is the endpoint; to end is no error.
        for call in (pending.wait, group.barrier, lambda: group.all_reduce(values), lambda: group.split(0)):
            expect(quincunx.EndpointError, call)
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    pending.wait()
    group.all_reduce(values)
    assert (values == 27).all(), values


def who_is_waited_for_is_said_while_ranks_hang(group: quincunx.Group) -> None:
    """Rank 0 asks: rank 2 is busy with something else, and rank 1's process is stopped."""
    processes = numpy.zeros((group.size, 1), numpy.int64)
    group.all_gather(numpy.array([os.getpid()]), processes)
    values = numpy.ones(1000, numpy.float32)
    if group.rank == 0:
        line = sys._getframe().f_lineno + 1
        pending = group.all_reduce(values, wait=False)
        busy = wait_for_waits([1, 2], "not_called")
        assert busy["call"] == f"all_reduce of 4000 bytes, sum of f32 at {__file__}:{line}" and busy["number"] == 2, busy
        reason = busy["waited_for"][0]["reason"]
        assert "has not called it: its last, all_gather of 8 bytes, i64 at " in reason and " (number 1), ended " in reason, busy
        os.kill(processes[1, 0], signal.SIGSTOP)
        try:
            stopped = waits()
            reasons = [(rank["rank"], rank["state"]) for rank in stopped["waited_for"]]
            assert reasons == [(1, "stopped"), (2, "not_called")] and stopped["waiting"] == [0], stopped
            expect_as_shown("quincunx group waits 1")
        finally:
            os.kill(processes[1, 0], signal.SIGCONT)
        assert f"{__file__}:{line} (number 2 of group " in group.waits(), group.waits()
        everywhere = [os.environ["QUINCUNX_COMMAND"], "group", "waits", "--manager", os.environ["QUINCUNX_MANAGER"], "--json"]
        everywhere = json.loads(subprocess.run(everywhere, text=True, capture_output=True, check=True).stdout)["all"]
        assert [found["number"] for found in everywhere] == [2], everywhere
        pathlib.Path(os.environ["WAITS"]).touch()
        pending.wait()
        return
    while not pathlib.Path(os.environ["WAITS"]).exists():
        time.sleep(0.01)
    group.all_reduce(values)


def the_rank_that_is_slow_is_named(group: quincunx.Group) -> None:
    values = numpy.ones(1000, numpy.float32)
    for _ in range(10):
        if group.rank == 5:
            time.sleep(0.005)
        group.all_reduce(values)
    if group.rank == 0:
        late = [rank["late"] for rank in asked_of_group("calls")["calls"]["ranks"]]
        assert all(rank["calls"] == 10 for rank in late), late
        assert max(range(group.size), key=lambda rank: late[rank]["last"]) == 5 and late[5]["mean_us"] > 3000, late


def who_comes_last_is_told_as_the_page_has_it(group: quincunx.Group) -> None:
    """Rank 1 is late, but for the first time, and the switch sees it."""
    values = numpy.ones(1000, numpy.float32)
    for turn in range(10):
        if group.rank == 1 and turn > 0:
            time.sleep(0.02)
        group.all_reduce(values)
    if group.rank == 0:
        expect_as_shown("quincunx group stragglers 1")


def a_pause_is_no_death(group: quincunx.Group) -> None:
    """Rank 0 stops rank 1's process in the middle of what all do; later it goes on where it was."""
    processes = numpy.zeros((group.size, 1), numpy.int64)
    group.all_gather(numpy.array([os.getpid()]), processes)
    values = numpy.empty(100_000, numpy.float32)
    for turn in range(60):
        if group.rank == 0 and turn == 20:
            other = int(processes[1, 0])
            os.kill(other, signal.SIGSTOP)
            threading.Timer(2.5, os.kill, (other, signal.SIGCONT)).start()
        values[:] = group.rank + turn
        group.all_reduce(values)
        assert (values == group.size * turn + group.size * (group.size - 1) // 2).all(), turn


def ranks_that_disagree_hear_which_two_and_in_what(group: quincunx.Group) -> None:
    for kind, call in disagreements.of_all(group.rank == 1).items():
        one = group.split(0)
        try:
            # Others may be through, and disagree, before a slow rank knows that it is: then it hears it here.
            one.barrier()
            call(one)
        except quincunx.GroupError as error:
            text = str(error)
        else:
            sys.exit(f"{kind}: expected a GroupError, found a result")
        assert is_told(text, kind), (kind, text)
    # The group that these were parts of is as good as before.
    group.all_reduce(whole := numpy.ones(1024, numpy.float32))
    assert (whole == group.size).all()


def a_time_without_end_is_a_time(group: quincunx.Group) -> None:
    group.set_timeout(1e18)
    pending = group.barrier(wait=False)
    pending.wait(1e18)
    expect(ValueError, lambda: pending.wait(float("nan")))
    expect(ValueError, lambda: group.set_timeout(float("inf")))


def a_message_to_several_ranks_is_among_the_others_in_order(group: quincunx.Group) -> None:
    rank, long = group.rank, 300_000
    number = lambda index: numpy.full(long if index % 3 == 0 else 5, index)  # noqa: E731
    # To one rank directly, to all of the other server over a relay, to everybody by both: order holds however they travel.
    destinations = [[3], [2, 3], [0, 1, 2, 3], [3], [2], [3, 1]]
    if rank == 0:
        under_way = [group.multi_write(number(index), to, wait=False) for index, to in enumerate(destinations)]
        for one in under_way:
            one.wait()
    for index, to in enumerate(destinations):
        if rank in to:
            found = numpy.empty_like(number(index))
            group.receive(found, 0)
            assert (found == index).all(), (rank, index, found)
    for nobody in ([], [1, 1], [4]):
        expect(ValueError, lambda nobody=nobody: group.multi_write(number(0), nobody))
    # A part of one server and one of the other has two of one: no relay there, but all arrives.
    part = group.split(int(rank in (0, 3)))
    if rank == 0:
        part.multi_write(number(7), [1])
    if rank == 3:
        part.receive(found := numpy.empty(5, int), 0)
        assert (found == 7).all()


def a_message_to_several_ranks_goes_to_another_server_once(group: quincunx.Group) -> None:
    (link,) = (link for link in pathlib.Path("/sys/class/net").iterdir() if link.name != "lo")
    values = numpy.full(1 << 20, group.rank, numpy.uint8)
    # Read before the barrier: after it rank 0 may already send, and this rank pass on, before this line is run.
    before = int((link / "statistics/tx_bytes").read_text())
    group.barrier()
    if group.rank == 0:
        group.multi_write(values, [1, 2, 3])
    else:
        group.receive(values, 0)
        assert not values.any()
    group.barrier()
    sent = (int((link / "statistics/tx_bytes").read_text()) - before) / values.nbytes
    # Rank 0 to its neighbour and to the other server, where rank 2 passes it on.
    expected = {0: 2, 2: 1}.get(group.rank, 0)
    assert expected <= sent < expected + 0.2, (group.rank, sent)


WIDTH, TOP_K = 6, 3


def batch(rank: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """A rank's tokens, their experts of eight and the weights of these; rank 1 has none."""
    count = 0 if rank == 1 else 7 - rank
    tokens = numpy.arange(count * WIDTH, dtype=numpy.float32).reshape(count, WIDTH) + 1000 * rank
    experts = (numpy.arange(count)[:, None] + numpy.array([0, 1, 5]) + rank) % 8
    weights = numpy.arange(count * TOP_K, dtype=numpy.float32).reshape(count, TOP_K) / 8 + rank
    return tokens, experts, weights


def out_and_back(experts: quincunx.Experts, rank: int, size: int) -> None:
    tokens, chosen, weights = batch(rank)
    came = numpy.zeros((experts.room, WIDTH), numpy.float32)
    dispatched = experts.dispatch(tokens, chosen, weights, output=came, wait=False)
    dispatched.wait(60.0)
    expected = [(source, number) for source in range(size) for number, row in enumerate(batch(source)[1]) if any(one in experts.own for one in row)]
    assert list(zip(dispatched.sources, dispatched.numbers)) == expected and dispatched.count == len(expected)
    for index, (source, number) in enumerate(expected):
        whole, all_experts, all_weights = batch(source)
        assert (came[index] == whole[number]).all() and (dispatched.experts[index] == all_experts[number]).all()
        assert numpy.allclose(dispatched.weights[index], all_weights[number])
    scales = [sum(w * (e + 1) for e, w in zip(row, ws) if e in experts.own) for row, ws in zip(dispatched.experts, dispatched.weights)]
    results = came[: dispatched.count] * numpy.array(scales, numpy.float32).reshape(-1, 1)
    sums = numpy.empty_like(tokens)
    experts.combine(dispatched, results, sums)
    assert numpy.allclose(sums, tokens * (weights * (chosen + 1)).sum(axis=1, keepdims=True), rtol=1e-5), rank


def tokens_go_to_the_ranks_of_their_experts_and_come_back_as_sums(group: quincunx.Group) -> None:
    for design in (None, "direct"):
        experts = group.experts(8, TOP_K, 7, 4 * WIDTH, design=design)
        assert experts.design == (design or "multiwrite") and len(experts.own) == 8 // group.size
        for _ in range(3):
            out_and_back(experts, group.rank, group.size)
        experts.close()


def a_batch_that_makes_no_sense_is_an_exception_and_changes_nothing(group: quincunx.Group) -> None:
    expect(ValueError, lambda: group.experts(7, 2, 4, 8))
    expect(ValueError, lambda: group.experts(8, 2, 4, 8 + 4 * group.rank))
    experts = group.experts(8, TOP_K, 7, 4 * WIDTH)
    tokens, came = numpy.zeros((2, WIDTH), numpy.float32), numpy.zeros((experts.room, WIDTH), numpy.float32)
    for chosen in ([[0, 1, 2], [0, 1, 8]], [[0, 1, 2], [0, 1, -1]], [[0, 1, 2]], [0, 1]):
        expect(ValueError, lambda chosen=chosen: experts.dispatch(tokens, chosen, output=came))
    three = [[0, 1, 2], [0, 1, 2]]
    expect(ValueError, lambda: experts.dispatch(tokens, three, [1.0], output=came))
    expect(ValueError, lambda: experts.dispatch(tokens, three, output=came[1:]))
    expect(ValueError, lambda: experts.dispatch(tokens, three, output=came, length=4 * WIDTH + 1))
    expect(TypeError, lambda: experts.dispatch(tokens, three, output=came.view(numpy.int32)))
    dispatched = experts.dispatch(tokens, three, output=came)
    expect(ValueError, lambda: experts.combine(dispatched, came, tokens))
    expect(ValueError, lambda: experts.combine(dispatched, came[: dispatched.count], tokens, op="avg"))
    out_and_back(experts, group.rank, group.size)
    expect(ValueError, lambda: experts.combine(dispatched, came[: dispatched.count], tokens))
    experts.close()
    expect(ValueError, lambda: experts.dispatch(tokens, three, output=came))


def a_token_goes_to_another_server_once(group: quincunx.Group) -> None:
    width = 1 << 14
    tokens = numpy.full((8, width), group.rank, numpy.uint8)
    address = quincunx._endpoint.address
    mine = numpy.frombuffer(address.encode().ljust(40), numpy.uint8)
    group.all_gather(mine, addresses := numpy.empty((group.size, 40), numpy.uint8))
    far = [bytes(one).decode().strip() for rank, one in enumerate(addresses) if rank // 2 != group.rank // 2]
    crossed = lambda: sum(sent for address, sent in quincunx.sent_to().items() if address in far)  # noqa: E731
    # Each token is for all four ranks.
    for design, expected in (("multiwrite", 1), ("direct", 2)):
        experts = group.experts(4, 4, 8, width, design=design)
        before = crossed()
        experts.dispatch(tokens, [[0, 1, 2, 3]] * 8, output=numpy.empty((experts.room, width), numpy.uint8))
        times = (crossed() - before) / tokens.nbytes
        assert expected <= times < expected + 0.2, (design, times)


ON_SERVERS_OF_TWO = (
    tokens_go_to_the_ranks_of_their_experts_and_come_back_as_sums,
    a_batch_that_makes_no_sense_is_an_exception_and_changes_nothing,
    a_token_goes_to_another_server_once,
    a_message_to_several_ranks_is_among_the_others_in_order,
    a_message_to_several_ranks_goes_to_another_server_once,
)

if __name__ == "__main__":
    program = globals()[sys.argv[1]]
    world = quincunx.init(**({"server": 2} if program in ON_SERVERS_OF_TWO else {}))
    program(world)
    quincunx.shutdown()
