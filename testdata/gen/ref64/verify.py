"""Compares ref64 with stored logits.

    python3 verify.py DIR

DIR holds one folder per model with model.gguf, golden.json (whose `tokens` are fed) and logits_ref64.bin (float32 [T,V]).
Prints the largest difference of each model and fails if one exceeds 1e-4.
"""

import json
import os
import sys

import numpy as np

import ref64

LIMIT = 1e-4


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    bad = 0
    for name in sorted(os.listdir(sys.argv[1])):
        folder = os.path.join(sys.argv[1], name)
        if not os.path.exists(os.path.join(folder, "logits_ref64.bin")):
            continue
        with open(os.path.join(folder, "golden.json")) as f:
            tokens = json.load(f)["tokens"]
        got = ref64.logits(os.path.join(folder, "model.gguf"), tokens)
        want = np.fromfile(os.path.join(folder, "logits_ref64.bin"), "<f4").reshape(got.shape)
        diff = float(np.abs(got - want).max())
        bad += not diff < LIMIT
        print(f"{name:32} T {len(tokens):3}  max difference {diff:.1e}  {'ok' if diff < LIMIT else 'FAIL'}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
