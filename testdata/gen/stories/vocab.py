"""The tokenizer of the model: a SentencePiece-like vocabulary of byte-pair merges.

Ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 the bytes <0x00>..<0xFF>, then single characters, then merged pieces in order of their merge;
the score of a merged piece is minus its rank, that of a character lies below all merges. A text gets a space in front, spaces
become U+2581, and the adjacent pair whose concatenation is the piece of highest score is merged until none is left.
No piece holds U+2581 except in front, and none mixes letters with punctuation, so a text can be cut into WORDS first.
"""

import collections
import re

SPACE = "\u2581"
UNK, BOS, EOS, BYTE0, CHAR0 = 0, 1, 2, 3, 259
WORDS = re.compile(SPACE + r"?[A-Za-z']+|" + SPACE + r"?[^A-Za-z'" + SPACE + r"]|" + SPACE)
CHARS = [SPACE] + [chr(c) for c in range(33, 127)]
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def mark(text):
    """Returns text with the leading space and all spaces as U+2581."""
    return SPACE + text.replace(" ", SPACE)


class Vocab:
    """Pieces, scores and types by id, and the encoder."""

    def __init__(self, merged):
        """merged: the multi-character pieces in merge order."""
        self.pieces = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + CHARS + merged
        low = -float(len(merged) + 1)
        self.scores = [0.0] * CHAR0 + [low] * len(CHARS) + [-float(i) for i in range(len(merged))]
        self.types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(CHARS) + len(merged))
        self.ids = {p: i for i, p in enumerate(self.pieces) if i >= CHAR0}
        self.cache = {}

    def word(self, word):
        """Returns the ids of one word by highest-score merges, leftmost first among equals."""
        if word not in self.cache:
            parts = list(word)
            while True:
                best, at = None, -1
                for i in range(len(parts) - 1):
                    score = self.scores[self.ids[parts[i] + parts[i + 1]]] if parts[i] + parts[i + 1] in self.ids else None
                    if score is not None and (best is None or score > best):
                        best, at = score, i
                if at < 0:
                    break
                parts[at:at + 2] = [parts[at] + parts[at + 1]]
            out = []
            for p in parts:
                out += [self.ids[p]] if p in self.ids else [BYTE0 + b for b in p.encode()]
            self.cache[word] = out
        return self.cache[word]

    def encode(self, text):
        """Returns the ids of text, without BOS and EOS."""
        return [i for word in WORDS.findall(mark(text)) for i in self.word(word)]

    def decode(self, ids):
        """Returns the text of ids; control tokens are left out."""
        data = b""
        for i in ids:
            if BYTE0 <= i < CHAR0:
                data += bytes([i - BYTE0])
            elif i >= CHAR0:
                data += self.pieces[i].encode()
        return data.decode(errors="replace").replace(SPACE, " ").removeprefix(" ")


def train(texts, size):
    """Returns a Vocab of size pieces: repeatedly merges the most frequent adjacent pair (ties: first in dictionary order)."""
    counts = collections.Counter(word for t in texts for word in WORDS.findall(mark(t)))
    words = [(list(word), n) for word, n in sorted(counts.items())]
    merged, have = [], set()
    while CHAR0 + len(CHARS) + len(merged) < size:
        pairs = collections.Counter()
        for parts, n in words:
            for a, b in zip(parts, parts[1:]):
                pairs[a, b] += n
        (a, b), _ = min(pairs.items(), key=lambda kv: (-kv[1], kv[0]))
        if a + b not in have:
            have.add(a + b)
            merged.append(a + b)
        for parts, _ in words:
            i = 0
            while i < len(parts) - 1:
                if parts[i] == a and parts[i + 1] == b:
                    parts[i:i + 2] = [a + b]
                i += 1
    return Vocab(merged)
