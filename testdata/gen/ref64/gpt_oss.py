"""Architecture gpt-oss: biases everywhere, attention sinks, every second layer (0, 2, ...) sliding, a mixture of experts with a
clamped gate.

    x += Wo softmax([q k^T / sqrt(K) + mask, sink]) v
    z = rms(x, post_attention_norm);  S = the U largest of r = Wr z;  p = softmax(r_S)
    x += sum_S p_e down_e(g sigmoid(1.702 g) (u + 1)),  g = min(gate_e z, 7),  u = clamp(up_e z, -7, 7)
"""

import numpy as np

import nn
import rope


def mixture(w, z, b):
    """Returns the experts' sum for z [T,D]."""
    r = w.linear(z, b + "ffn_gate_inp")
    W, B = ({n: w.get(f"{b}ffn_{n}_exps.{kind}") for n in ("gate", "up", "down")} for kind in ("weight", "bias"))
    out = np.zeros_like(z)
    for t, es in enumerate(nn.experts(r, w.key("expert_used_count"))):
        for p, e in zip(nn.softmax(r[t, es]), es):
            g = np.minimum(W["gate"][e] @ z[t] + B["gate"][e], 7)
            u = np.clip(W["up"][e] @ z[t] + B["up"][e], -7, 7)
            h = g / (1 + np.exp(-1.702 * g)) * (u + 1)
            out[t] += p * (W["down"][e] @ h + B["down"][e])
    return out


def run(w, tokens):
    """Returns logits [T,V]."""
    D, H, eps = w.key("embedding_length"), w.key("attention.head_count"), w.key("attention.layer_norm_rms_epsilon")
    G, K = w.key("attention.head_count_kv", H), w.key("attention.key_length", D // H)
    window = w.key("attention.sliding_window", 128)
    table = rope.from_keys(w, len(tokens), w.key("rope.dimension_count", K))
    x = w.get("token_embd.weight")[tokens]
    for layer in range(w.key("block_count")):
        b = f"blk.{layer}."
        q, k, v = w.qkv(nn.rms(x, w.get(b + "attn_norm.weight"), eps), b, H, G, K)
        o = nn.attention(rope.neox(q, table), rope.neox(k, table), v, K ** -0.5, window if layer % 2 == 0 else 0,
                         sinks=w.optional(b + "attn_sinks.weight"))
        x = x + w.linear(o, b + "attn_output")
        x = x + mixture(w, nn.rms(x, w.get(b + "post_attention_norm.weight"), eps), b)
    return w.logits(nn.rms(x, w.get("output_norm.weight"), eps))
