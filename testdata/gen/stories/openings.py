"""First sentences of a story: who, where, and what the hero likes.

Each plot begins after them with a sentence that names a day, so any opening fits any plot.
"""

import words as w


def opening(s, solo):
    """Introduces the hero in one to three sentences; solo leaves the friend out. Sets day, which begins the plot."""
    r = s.rng.random()
    if solo:
        r = r if r < 0.72 or r >= 0.82 else 0.0
    s.pick("day", ["That day", "That morning", "After breakfast"] if r >= 0.90 else
           ["One day", "One day", "One day", "One morning", "One {weather} day", "One {weather} morning", "One afternoon"])
    plays = [p for p in w.PLAY if not (solo and "friends" in p)]
    s.v["play"], s.v["play2"] = s.rng.sample(plays, 2)
    s.v["trait"], s.v["trait2"] = s.rng.sample(w.TRAITS, 2)
    s.v["day"] = s.v["day"].format_map(s.v)
    if r < 0.48:
        s.say("Once upon a time, there was a {size} {kind} named {n}.",
              "Once upon a time, there was a {size} {kind} named {n}.",
              "Once upon a time, there lived a {size} {kind} named {n}.",
              "Once upon a time, {home}, there lived a {size} {kind} [named|called] {n}.",
              "Once upon a time, a {size} {kind} named {n} lived {home}.",
              "Once upon a time, in a [far away land|small village|big green forest], there was a {trait} {kind} named {n}.",
              "Once upon a time there was a {trait} {kind} named {n}.")
    elif r < 0.62:
        s.say("There was [once |]a {size} {kind} [named|called] {n}.",
              "There once was a {trait} {kind} [named|called] {n}.",
              "There was {akind} named {n} who lived {home}.")
    elif r < 0.72:
        s.say("{n} was a {trait} {kind}[| who lived {home}].",
              "{n} was a {size} {kind} who loved to {play}.",
              "{n} the {kind} lived {home}.")
    elif r < 0.82:
        s.say("{n} and {f} were [best|good] friends. {n} was {akind}, and {f} was {afkind}.",
              "{n} had a friend named {f}. {n} was a {size} {kind}, and {f} was {afkind}.",
              "{n} and {f} lived {home}. {n} was a {trait} {kind}, and {f} was {afkind}.")
    elif r < 0.90:
        s.say("A {size} {kind} named {n} lived {home}.",
              "A long time ago, there was a {trait} {kind} named {n}.",
              "Long ago, a {size} {kind} named {n} lived {home}.",
              "In a [small|little|cozy] house {home}, there lived {akind} named {n}.")
    else:
        s.say("One day, a {size} {kind} named {n} [woke up early|woke up with a smile|looked out of the window].",
              "One [sunny|warm|bright] morning, a {size} {kind} named {n} woke up with a big smile.",
              "The {size} {kind} was named {n}.")
    s.maybe(0.5, "{n} loved to {play2}.", "{n} liked to {play2} [every day|with {his} {p}|all day long].",
            "{n} loved to {play2}[| more than anything].", "Every day, {n} liked to {play2}.",
            "{n} was very {trait2}[| and always wanted to learn new things].",
            "{n} lived with {his} {p} in a [small|cozy|warm] house.")
