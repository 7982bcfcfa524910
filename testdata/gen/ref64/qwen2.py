"""Architecture qwen2: llama with bias on q, k and v, and rope pairs half a head apart."""

import llama
import rope


def run(w, tokens):
    """Returns logits [T,V]."""
    y = llama.skeleton(w, tokens, rope.neox)
    return y + w.get("output.bias") if w.has("output.bias") else y
