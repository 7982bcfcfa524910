"""Architecture qwen3: llama with rms over each head of q and k before rope, and rope pairs half a head apart."""

import llama
import rope


def run(w, tokens):
    """Returns logits [T,V]."""
    return llama.skeleton(w, tokens, rope.neox, qk_norm=True)
