#!/usr/bin/env python3
"""Makes up the requests that `quincunx predict` has: `made_requests.py > crates/scenario/language/requests/conversations.csv`.

Nobody asked them. They come at random, four a second (a Poisson process); prompts and answers are of logarithmic normal lengths, whose
medians are those of Azure's conversations, 1,020 and 129 tokens (Patel et al., Splitwise, ISCA 2024, figure 3).
"""

import random

# One of whose medians and rate are within 2 % of those asked for.
SEED = 4
REQUESTS = 400
PER_SECOND = 4.0
PROMPT = (1020, 0.8, 16, 4096)
ANSWER = (129, 0.6, 1, 1024)


def tokens(source: random.Random, median: int, spread: float, least: int, most: int) -> int:
    """Of a logarithmic normal distribution, within bounds."""
    return min(most, max(least, round(median * source.lognormvariate(0, spread))))


def rows() -> list[str]:
    source, arrival, found = random.Random(SEED), 0.0, ["arrival_s,prompt,answer"]
    for _ in range(REQUESTS):
        found.append(f"{arrival:.3f},{tokens(source, *PROMPT)},{tokens(source, *ANSWER)}")
        arrival += source.expovariate(PER_SECOND)
    return found


if __name__ == "__main__":
    print("\n".join(rows()))
