"""Architecture gemma4, all variants: per-layer embeddings (PLE), layers that share K and V, K = V layers, experts beside a dense
feed-forward.

    x = E[tok] sqrt(D)
    x1 = x + rms(Wo softmax(q k^T + mask) v, post_attention_norm);  q = rope(rms(Wq a)), k = rope(rms(Wk a)), v = rms(Wv a)
    x2 = x1 + rms(f(x1), post_ffw_norm)
    x2 = x2 + rms(proj(gelu(inp_gate x2) * ple_l), post_norm)          with PLE
    x = x2 layer_output_scale
    logits = softcap(W rms(x, output_norm))
"""

import numpy as np

import nn
import rope


def per_layer_inputs(w, x, tokens, L, P, eps):
    """(rms(Wp x / sqrt(D), per_layer_proj_norm) + per_layer_token_embd[tok] sqrt(P)) / sqrt(2), [T,L,P]; x is scaled already"""
    T, D = x.shape
    s = w.get("per_layer_token_embd.weight")[tokens].reshape(T, L, P) * np.sqrt(P)
    c = w.linear(x, "per_layer_model_proj").reshape(T, L, P) / np.sqrt(D)
    return (nn.rms(c, w.get("per_layer_proj_norm.weight"), eps) + s) / np.sqrt(2)


def dense(w, x, b, eps):
    """down(gelu(gate z) * up z) of z = rms(x, ffn_norm)"""
    z = nn.rms(x, w.get(b + "ffn_norm.weight"), eps)
    return w.linear(nn.gelu(w.linear(z, b + "ffn_gate")) * w.linear(z, b + "ffn_up"), b + "ffn_down")


def expert_weights(w, b):
    """Returns gate, up, down [E,...] with their optional scales, gate and up from one fused tensor or from two."""
    if w.has(b + "ffn_gate_up_exps.weight"):
        gate, up = np.split(w.get(b + "ffn_gate_up_exps.weight"), 2, 1)
    else:
        gate, up = w.get(b + "ffn_gate_exps.weight"), w.get(b + "ffn_up_exps.weight")
    scales = [w.optional(f"{b}ffn_{n}_exps.scale", np.ones(len(gate))) for n in ("gate", "up", "down")]
    return [m * s[:, None, None] for m, s in zip((gate, up, w.get(b + "ffn_down_exps.weight")), scales)]


def mixture(w, x, b, eps):
    """sum over the chosen experts of p_e / max(sum p, 6.1e-5) down_e(gelu(gate_e z) * up_e z), z = rms(x, pre_ffw_norm_2);
    p = softmax(router), router = W (rms(x) / sqrt(D) * ffn_gate_inp.scale)
    """
    z = nn.rms(x, w.get(b + "pre_ffw_norm_2.weight"), eps)
    r = nn.rms(x, eps=eps) / np.sqrt(x.shape[1]) * w.optional(b + "ffn_gate_inp.scale", 1.0)
    p = nn.softmax(w.linear(r, b + "ffn_gate_inp"))
    gate, up, down = expert_weights(w, b)
    out = np.zeros_like(x)
    for t, es in enumerate(nn.experts(p, w.key("expert_used_count"))):
        for e in es:
            share = p[t, e] / max(p[t, es].sum(), 6.1e-5)
            out[t] += share * (down[e] @ (nn.gelu(gate[e] @ z[t]) * (up[e] @ z[t])))
    return out


def feed_forward(w, x, b, eps):
    """dense, or rms(dense, post_ffw_norm_1) + rms(experts, post_ffw_norm_2); then post_ffw_norm"""
    f = dense(w, x, b, eps)
    if w.has(b + "ffn_gate_inp.weight"):
        f = nn.rms(f, w.get(b + "post_ffw_norm_1.weight"), eps)
        f = f + nn.rms(mixture(w, x, b, eps), w.get(b + "post_ffw_norm_2.weight"), eps)
    return nn.rms(f, w.get(b + "post_ffw_norm.weight"), eps)


def keys_values(w, a, b, G, K, table, eps):
    """Returns k = rope(rms(Wk a, attn_k_norm)) and v = rms(Wv a), where a layer without attn_v uses Wk a for both."""
    k = w.linear(a, b + "attn_k").reshape(-1, G, K)
    v = w.linear(a, b + "attn_v").reshape(-1, G, K) if w.has(b + "attn_v.weight") else k
    return rope.neox(nn.rms(k, w.get(b + "attn_k_norm.weight"), eps), table), nn.rms(v, eps=eps)


def run(w, tokens):
    """Returns logits [T,V]."""
    T, D, L = len(tokens), w.key("embedding_length"), w.key("block_count")
    H, G = w.per_layer("attention.head_count", L), w.per_layer("attention.head_count_kv", L)
    eps, window, P = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.sliding_window"), w.key("embedding_length_per_layer_input")
    slides = w.key("attention.sliding_window_pattern")
    width = {True: w.key("attention.key_length_swa"), False: w.key("attention.key_length")}
    owners = L - w.key("attention.shared_kv_layers", 0)
    table = {True: rope.table(T, w.key("rope.freq_base_swa", 10000.0), w.key("rope.dimension_count_swa", width[True])),
             False: rope.table(T, w.key("rope.freq_base", 10000.0), w.key("rope.dimension_count", width[False]),
                               w.key("rope.scaling.factor", 0.0) or 1.0, w.optional("rope_freqs.weight"))}
    x = w.get("token_embd.weight")[tokens] * np.sqrt(D)
    ple = per_layer_inputs(w, x, tokens, L, P, eps) if P else None
    cache = {}  # sliding or not -> k, v of the last layer of that kind that owns them
    for layer in range(L):
        b, sliding = f"blk.{layer}.", bool(slides[layer])
        K = width[sliding]
        a = nn.rms(x, w.get(b + "attn_norm.weight"), eps)
        q = nn.rms(w.linear(a, b + "attn_q").reshape(T, H[layer], K), w.get(b + "attn_q_norm.weight"), eps)
        if layer < owners:
            cache[sliding] = keys_values(w, a, b, G[layer], K, table[sliding], eps)
        k, v = cache[sliding]
        o = nn.attention(rope.neox(q, table[sliding]), k, v, 1.0, window if sliding else 0)
        x = x + nn.rms(w.linear(o, b + "attn_output"), w.get(b + "post_attention_norm.weight"), eps)
        x = x + feed_forward(w, x, b, eps)
        if P:
            g = nn.gelu(w.linear(x, b + "inp_gate")) * ple[:, layer]
            x = x + nn.rms(w.linear(g, b + "proj"), w.get(b + "post_norm.weight"), eps)
        x = x * w.optional(b + "layer_output_scale.weight", 1.0)
    y = w.logits(nn.rms(x, w.get("output_norm.weight"), eps))
    return nn.softcap(y, w.key("final_logit_softcapping", 30.0))
