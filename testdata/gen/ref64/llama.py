"""Architecture llama: Llama 1 to 3, Mistral, TinyLlama, SmolLM; with experts, Mixtral.

    x = E[tok]
    a = rms(x, attn_norm);  x += Wo softmax(q k^T / sqrt(K) + causal) v;  q = rope(Wq a), k = rope(Wk a), v = Wv a
    z = rms(x, ffn_norm);   x += Wd (silu(Wg z) * Wu z), or the experts
    logits = W rms(x, output_norm)
"""

import numpy as np

import nn
import rope


def dense(w, z, block):
    """down(silu(gate z) * up z)"""
    return w.linear(nn.silu(w.linear(z, block + "ffn_gate")) * w.linear(z, block + "ffn_up"), block + "ffn_down")


def mixture(w, z, block):
    """sum over the chosen experts e of p_e / (sum of chosen p) down_e(silu(gate_e z) * up_e z), p = softmax(router z)"""
    p = nn.softmax(w.linear(z, block + "ffn_gate_inp"))
    gate, up, down = (w.get(f"{block}ffn_{n}_exps.weight") for n in ("gate", "up", "down"))
    chosen = nn.experts(p, w.key("expert_used_count"))
    out = np.zeros_like(z)
    for t, es in enumerate(chosen):
        for e in es:
            out[t] += p[t, e] / p[t, es].sum() * (down[e] @ (nn.silu(gate[e] @ z[t]) * (up[e] @ z[t])))
    return out


def run(w, tokens):
    """Returns logits [T,V]."""
    return skeleton(w, tokens, rope.norm)


def skeleton(w, tokens, turn, qk_norm=False):
    """The forward pass that llama, qwen2 and qwen3 share; turn is the rope layout."""
    D, H, eps = w.key("embedding_length"), w.key("attention.head_count"), w.key("attention.layer_norm_rms_epsilon")
    G = w.key("attention.head_count_kv", H)
    K = w.key("attention.key_length", D // H)
    table = rope.from_keys(w, len(tokens), w.key("rope.dimension_count", K), w.optional("rope_freqs.weight"))
    x = w.get("token_embd.weight")[tokens]
    for layer in range(w.key("block_count")):
        b = f"blk.{layer}."
        q, k, v = w.qkv(nn.rms(x, w.get(b + "attn_norm.weight"), eps), b, H, G, K)
        if qk_norm:
            q, k = nn.rms(q, w.get(b + "attn_q_norm.weight"), eps), nn.rms(k, w.get(b + "attn_k_norm.weight"), eps)
        x = x + w.linear(nn.attention(turn(q, table), turn(k, table), v, K ** -0.5), b + "attn_output")
        z = nn.rms(x, w.get(b + "ffn_norm.weight"), eps)
        x = x + (mixture if w.has(b + "ffn_gate_inp.weight") else dense)(w, z, b)
    return w.logits(nn.rms(x, w.get("output_norm.weight"), eps))
