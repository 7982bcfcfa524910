"""Architecture gemma3.

    x = E[tok] sqrt(D)
    x += rms(Wo softmax(q k^T s + mask) v, post_attention_norm);  q = rope(rms(Wq a)), k = rope(rms(Wk a)), a = rms(x, attn_norm)
    x += rms(Wd (gelu(Wg z) * Wu z), post_ffw_norm),  z = rms(x, ffn_norm)
    logits = W rms(x, output_norm)
Layer l is full iff l mod period = period - 1; the others see a sliding window and use the theta of their own.
"""

import numpy as np

import nn
import rope


def feed_forward(w, x, b, eps):
    """rms(down(gelu(gate z) * up z), post_ffw_norm) of z = rms(x, ffn_norm)"""
    z = nn.rms(x, w.get(b + "ffn_norm.weight"), eps)
    f = w.linear(nn.gelu(w.linear(z, b + "ffn_gate")) * w.linear(z, b + "ffn_up"), b + "ffn_down")
    return nn.rms(f, w.get(b + "post_ffw_norm.weight"), eps)


def run(w, tokens):
    """Returns logits [T,V]."""
    T, D, L, H = len(tokens), w.key("embedding_length"), w.key("block_count"), w.key("attention.head_count")
    G, K = w.key("attention.head_count_kv", H), w.key("attention.key_length", 256)
    eps, window = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.sliding_window", 0)
    period = w.key("attention.sliding_window_pattern", 6) if window else 1
    scale = (D / H) ** -0.5 if L == 62 else K ** -0.5  # 62 layers: the 27B
    full = rope.from_keys(w, T, K)
    local = rope.table(T, w.key("rope.freq_base_swa", 10000.0), K)
    x = w.get("token_embd.weight")[tokens] * np.sqrt(D)
    for layer in range(L):
        b, sliding = f"blk.{layer}.", layer % period != period - 1
        q, k, v = w.qkv(nn.rms(x, w.get(b + "attn_norm.weight"), eps), b, H, G, K)
        q, k = nn.rms(q, w.get(b + "attn_q_norm.weight"), eps), nn.rms(k, w.get(b + "attn_k_norm.weight"), eps)
        table = local if sliding else full
        o = nn.attention(rope.neox(q, table), rope.neox(k, table), v, scale, window if sliding else 0)
        x = x + nn.rms(w.linear(o, b + "attn_output"), w.get(b + "post_attention_norm.weight"), eps)
        x = x + feed_forward(w, x, b, eps)
    y = w.logits(nn.rms(x, w.get("output_norm.weight"), eps))
    return nn.softcap(y, w.key("final_logit_softcapping", 0.0))
