"""Architecture gemma2: gemma3 without norms of q and k, with every second layer full, one theta, and capped scores and logits."""

import numpy as np

import nn
import rope
from gemma3 import feed_forward


def run(w, tokens):
    """Returns logits [T,V]."""
    T, D, L, H = len(tokens), w.key("embedding_length"), w.key("block_count"), w.key("attention.head_count")
    G, K = w.key("attention.head_count_kv", H), w.key("attention.key_length", 256)
    eps, window = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.sliding_window", 4096)
    cap = w.key("attn_logit_softcapping", 50.0)
    scale = (D / H) ** -0.5 if L == 46 else K ** -0.5  # 46 layers: the 27B
    table = rope.table(T, w.key("rope.freq_base", 10000.0), K)
    x = w.get("token_embd.weight")[tokens] * np.sqrt(D)
    for layer in range(L):
        b = f"blk.{layer}."
        q, k, v = w.qkv(nn.rms(x, w.get(b + "attn_norm.weight"), eps), b, H, G, K)
        o = nn.attention(rope.neox(q, table), rope.neox(k, table), v, scale, window if layer % 2 == 0 else 0, cap)
        x = x + nn.rms(w.linear(o, b + "attn_output"), w.get(b + "post_attention_norm.weight"), eps)
        x = x + feed_forward(w, x, b, eps)
    y = w.logits(nn.rms(x, w.get("output_norm.weight"), eps))
    return nn.softcap(y, w.key("final_logit_softcapping", 30.0))
