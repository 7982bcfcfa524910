"""Computes the logits of a GGUF model in float64, slowly and plainly.

    python3 ref64.py MODEL.gguf --tokens 1,2,3 -o logits.bin

The result is raw little-endian float32 [T,V], row t holding the logits after token t. Weights are dequantized to float32 as
their format says; all else is float64, and the logits are rounded to float32 at the end. Positions count from 0, and the
tokens are used exactly as given.
"""

import argparse
import importlib
import os
import sys

import numpy as np

import gguf
import nn

ARCHS = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "gemma4", "gpt-oss"]


def logits(path, tokens):
    """Returns the logits [T,V] of the model at path as float32."""
    w = nn.Weights(gguf.File(path))
    if w.arch not in ARCHS:
        raise ValueError(f"ref64: unknown architecture {w.arch} in {path}; known: {', '.join(ARCHS)}")
    module = importlib.import_module(w.arch.replace("-", "_"))
    return module.run(w, np.array(tokens)).astype(np.float32)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--tokens", required=True, help="ids, separated by commas")
    ap.add_argument("-o", "--output", required=True, help="file of raw float32 [T,V]")
    args = ap.parse_args()
    y = logits(args.model, [int(t) for t in args.tokens.split(",")])
    y.astype("<f4").tofile(args.output)
    print(f"{os.path.basename(args.model)}: wrote [{y.shape[0]},{y.shape[1]}] float32 to {args.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
