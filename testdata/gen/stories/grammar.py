"""The template language and the cast of one story.

A template is text with alternatives in square brackets, which may nest, and fields in braces:

    "[One day|One morning], {n} [walked|ran] to {place}."

Fields of the hero: n (name), he, him, his, He, His. The same with prefix f for the friend (f, fhe, ...) and p for the grown-up
(p is "mom", so the text says "{his} {p}"). A plot adds fields of its own.
"""

import re

import words as w

PRONOUNS = {"f": ("she", "her", "her"), "m": ("he", "him", "his")}
_TOKEN = re.compile(r"[\[\]|]|[^\[\]|]+")
_cache = {}


def parse(template):
    """Returns the template as a list of strings and alternatives, an alternative being a tuple of such lists."""
    if template not in _cache:
        stack = [[[]]]  # open brackets; each is a list of alternatives
        for tok in _TOKEN.findall(template):
            if tok == "[":
                stack.append([[]])
            elif tok == "|":
                stack[-1].append([])
            elif tok == "]":
                alternatives = stack.pop()
                stack[-1][-1].append(tuple(alternatives))
            else:
                stack[-1][-1].append(tok)
        if len(stack) != 1 or len(stack[0]) != 1:
            raise ValueError("unbalanced template: " + template)
        _cache[template] = stack[0][0]
    return _cache[template]


def expand(tree, rng):
    """Picks one alternative of each bracket and returns the text, fields untouched."""
    return "".join(t if isinstance(t, str) else expand(t[int(rng.random() * len(t))], rng) for t in tree)


def article(noun):
    """Returns noun with a or an."""
    return ("an " if noun[0] in "aeiouAEIOU" else "a ") + noun


class Story:
    """Sentences written so far, and the fields that later ones refer to."""

    def __init__(self, rng):
        self.rng, self.lines, self.v = rng, [], {}
        self.animal = rng.random() < 0.3
        self.gender = rng.choice("fm")
        kind = rng.choice(w.ANIMALS if self.animal else w.CHILD[self.gender])
        self.person("", self.gender, self.name(self.gender, self.animal))
        parent, pg = rng.choice(w.PARENTS)
        self.person("p", pg, parent)
        place, prep = rng.choice(w.PLACES)
        self.v.update(kind=kind, akind=article(kind), size=rng.choice(w.SIZES), place=place, at=prep + " " + place,
                      home=rng.choice(w.HOMES), weather=rng.choice(w.WEATHER))
        self.friend()

    def name(self, gender, animal):
        """Returns a name of that gender: a child's, a pet's, or now and then a made-up one."""
        r = self.rng
        if r.random() < 0.08:
            return r.choice(w.HEAD) + r.choice(w.MIDDLE) + r.choice(w.TAIL[gender])
        if animal and r.random() < 0.7:
            return r.choice(w.SHE_PETS if gender == "f" else w.HE_PETS)
        return r.choice(w.GIRLS if gender == "f" else w.BOYS)

    def person(self, prefix, gender, name):
        """Sets the name and pronoun fields with that prefix."""
        he, him, his = PRONOUNS[gender]
        self.v.update({prefix or "n": name, prefix + "he": he, prefix + "him": him, prefix + "his": his,
                       prefix + "He": he.capitalize(), prefix + "His": his.capitalize()})

    def friend(self):
        """Chooses the friend: a child or an animal with another name than the hero."""
        r = self.rng
        gender = r.choice("fm")
        animal = r.random() < (0.6 if self.animal else 0.15)
        name = self.name(gender, animal)
        while name == self.v["n"]:
            name = self.name(gender, animal)
        self.person("f", gender, name)
        kind = r.choice(w.ANIMALS if animal else {"f": ["girl"], "m": ["boy"]}[gender])
        self.v.update(fkind=kind, afkind=article(kind))

    def pick(self, field, values):
        """Sets a field to one of the values and returns it."""
        self.v[field] = self.rng.choice(values)
        return self.v[field]

    def thing(self, nouns):
        """Sets thing (noun), athing ("a red ball") and color."""
        noun, color = self.rng.choice(nouns), self.rng.choice(w.COLORS)
        self.v.update(thing=noun, color=color, athing=article(color + " " + noun))

    def say(self, *templates):
        """Adds one of the templates, filled in."""
        self.lines.append(expand(parse(self.rng.choice(templates)), self.rng).format_map(self.v))

    def maybe(self, p, *templates):
        """Adds one of the templates with probability p."""
        if self.rng.random() < p:
            self.say(*templates)

    def text(self):
        return " ".join(self.lines)
