"""A rank of a job for `faults.py`: rounds of collectives, each round in a group of its own, every result looked at element by element.

    python3 rounds.py JSON

JSON has `seed`, `kinds` (collectives that are called, as often as they are named), `elements` (the longest vector), `collectives` (of a round), `pause`, `think` and `rest` (seconds), `rounds` (how many; none: until
a line comes on rank 0's standard input), and `mistake` (none, or who calls something else once in one of so many rounds, and in what that differs). The rest is in the environment, as any program has it. Prints a line of JSON for all that it begins and ends.
Exit status 0: it has left with all others; 3: its group is over; 4: it was not let in, or its endpoint is gone.

`faults.py` starts it: this file needs the package `quincunx`, and nothing else.
"""

import json
import os
import random
import struct
import sys
import threading
import time

import quincunx

# Collectives under way at once.
DEPTH = 2
# What a word of rank 0 to all others says.
LEAVE, ANOTHER = 1, 2


def tell(what: str, **more: object) -> None:
    print(json.dumps({"what": what, "at": round(time.monotonic(), 3), **more}), flush=True)


class Call:
    """One collective of a round: what all ranks know of it."""

    def __init__(self, told: dict, life: int, number: int, collective: int, size: int) -> None:
        self.key = f"{told['seed']}/{life}/{number}/{collective}"
        draws = random.Random(self.key)
        self.kind = draws.choice(told["kinds"])
        self.letter = draws.choice("if")
        self.op = draws.choice(["max", "min", "sum", "sum"])
        self.root = draws.randrange(size)
        self.pause = draws.random()
        count = draws.randint(1, max(told["elements"], 1))
        self.count = -(-count // size) if self.kind in ("reduce_scatter", "all_gather") else count

    def mistaken(self, differs_in: str, kinds: list[str], size: int) -> bool:
        """Becomes another call than others make; whether there is one."""
        if differs_in == "collective":
            others = [kind for kind in kinds if kind != self.kind]
            self.kind = others[0] if others else self.kind
            return bool(others)
        if differs_in == "root" and self.kind in ("reduce", "broadcast"):
            self.root = (self.root + 1) % size
        elif differs_in == "operation" and self.kind in ("all_reduce", "reduce", "reduce_scatter"):
            self.op = "sum" if self.op == "max" else "max"
        elif differs_in == "type" and self.kind != "barrier":
            self.letter = "i" if self.letter == "f" else "f"
        elif differs_in == "length" and self.kind != "barrier":
            self.count = self.count // 2 if self.count > 1 else 2
        else:
            return False
        return True

    def vector(self, rank: int, size: int) -> list[int]:
        """Whole numbers, whose sums are exact, and so the same in every order."""
        count = {"barrier": 0, "reduce_scatter": self.count * size}.get(self.kind, self.count)
        return random.Random(f"{self.key}/{rank}").choices(range(-1000, 1001), k=count)

    def expected(self, rank: int, size: int) -> list[int] | None:
        if self.kind == "barrier" or (self.kind == "reduce" and rank != self.root):
            return None
        if self.kind == "broadcast":
            return self.vector(self.root, size)
        vectors = [self.vector(other, size) for other in range(size)]
        if self.kind == "all_gather":
            return [value for vector in vectors for value in vector]
        all_of = {"sum": sum, "max": max, "min": min}[self.op]
        reduced = [all_of(column) for column in zip(*vectors)]
        return reduced[rank * self.count:(rank + 1) * self.count] if self.kind == "reduce_scatter" else reduced

    def begin(self, group: quincunx.Group) -> tuple[quincunx.Pending, memoryview | None]:
        rank, size = group.rank, group.size
        pack = lambda values: memoryview(bytearray(struct.pack(f"<{len(values)}{self.letter}", *values))).cast(self.letter)  # noqa: E731
        if self.kind == "barrier":
            return group.barrier(wait=False), None
        own = pack(self.vector(rank, size))
        if self.kind == "broadcast":
            buffer = own if rank == self.root else pack([0] * self.count)
            return group.broadcast(buffer, root=self.root, wait=False), buffer
        if self.kind == "all_gather":
            output = pack([0] * (self.count * size))
            return group.all_gather(own, output, wait=False), output
        if self.kind == "reduce_scatter":
            output = pack([0] * self.count)
            return group.reduce_scatter(own, output, op=self.op, wait=False), output
        output = pack([0] * self.count)
        if self.kind == "reduce":
            return group.reduce(own, output, root=self.root, op=self.op, wait=False), output if rank == self.root else None
        return group.all_reduce(own, output, op=self.op, wait=False), output


def mistake(told: dict, life: int, number: int, rank: int) -> int | None:
    """The collective of a round at which a rank calls something else."""
    plan = told.get("mistake")
    draws = random.Random(f"{told['seed']}/{life}/{number}/mistake")
    index, hits = draws.randrange(told["collectives"]), draws.randrange(plan["one_in"] if plan else 1) == 0
    return index if plan and hits and plan["rank"] == rank else None


def play(group: quincunx.Group, told: dict, life: int, number: int, chance: random.Random) -> None:
    """A round: as many collectives, two of them under way at once."""
    pending: list = []

    def finish() -> None:
        index, call, (handle, output) = pending.pop(0)
        handle.wait()
        expected = call.expected(group.rank, group.size)
        wrong = 0
        if expected is not None:
            found = output.tolist()
            wrong = sum(one != other for one, other in zip(found, expected)) + abs(len(found) - len(expected))
        tell("result", round=number, collective=index, kind=call.kind, wrong=wrong)

    mistaken = mistake(told, life, number, group.rank)
    for index in range(told["collectives"]):
        call = Call(told, life, number, index, group.size)
        if index == mistaken and call.mistaken(told["mistake"]["differs_in"], told["kinds"], group.size):
            tell("mistaken", round=number, collective=index, differs_in=told["mistake"]["differs_in"])
        if len(pending) == DEPTH:
            finish()
        time.sleep(call.pause * told["pause"] + chance.random() * told["think"])
        tell("calls", round=number, collective=index, kind=call.kind)
        pending.append((index, call, call.begin(group)))
    while pending:
        finish()


def main() -> int:
    told = json.loads(sys.argv[1])
    rank, life = int(os.environ["RANK"]), int(os.environ["ROUNDS_LIFE"])
    chance = random.Random(f"{told['seed']}/{life}/{rank}/pauses")
    is_over = threading.Event()
    if rank == 0 and told.get("rounds") is None:
        threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    try:
        tell("attaches")
        world = quincunx.init()
        tell("joined", design=world.design)
        number = 0
        while True:
            wants = ANOTHER if (number < told["rounds"] if told.get("rounds") is not None else not is_over.is_set()) else LEAVE
            # Rank 0 decides. All designs offer an AllReduce.
            word = memoryview(bytearray([wants if rank == 0 else 0, 0, 0, 0])).cast("i")
            tell("asks", round=number)
            world.all_reduce(word)
            if word[0] == LEAVE:
                break
            tell("splits", round=number)
            group = world.split(0)
            tell("round", round=number, design=group.design)
            play(group, told, life, number, chance)
            group.close()
            tell("played", round=number)
            number += 1
            time.sleep(chance.random() * told["rest"])
        tell("leaves")
        quincunx.shutdown()
        tell("left")
        return 0
    except quincunx.GroupError as error:
        tell("ended", error=str(error))
        status = 3
    except Exception as error:  # noqa: BLE001
        tell("failed", error=f"{type(error).__name__}: {error}")
        status = 4
    sys.stdout.flush()
    # As a program that falls: it does not wait for its endpoint.
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
