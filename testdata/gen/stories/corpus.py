"""Writes the story corpus: seeded, every story different.

    python3 corpus.py --seed 1 --count 5        prints five stories

Training imports `stories` and never stores the text.
"""

import argparse
import random

from grammar import Story
from openings import opening
from plots import PLOTS
from plots_more import SOLO


def story(rng):
    """Returns one story as a line of text."""
    s = Story(rng)
    plot = rng.choice(PLOTS)
    opening(s, plot in SOLO)
    plot(s)
    return s.text()


def stories(seed, count=float("inf"), exclude=()):
    """Yields count different stories, none of which is in exclude (a set of texts)."""
    rng, seen = random.Random(seed), set()
    while len(seen) < count:
        text = story(rng)
        if hash(text) not in seen and text not in exclude:
            seen.add(hash(text))
            yield text


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--count", type=int, default=5)
    args = ap.parse_args()
    for text in stories(args.seed, args.count):
        print(text)


if __name__ == "__main__":
    main()
