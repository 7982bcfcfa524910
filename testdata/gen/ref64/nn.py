"""The shared mathematics, in float64, and access to a model's keys and weights.

Letters: T tokens, D width, H query heads, G kv heads, K head width, F ffn width, V vocabulary, E experts.
"""

import numpy as np


class Weights:
    """A GGUF file seen by an architecture: keys without their prefix, weights as float64."""

    def __init__(self, file):
        self.file = file
        self.arch = file.meta["general.architecture"]

    def key(self, name, default=None):
        """Returns a key of the architecture; without default it must exist."""
        value = self.file.meta.get(f"{self.arch}.{name}", default)
        if value is None:
            raise KeyError(f"ref64: key {self.arch}.{name} is missing")
        return value

    def per_layer(self, name, layers, default=None):
        """Returns a key as a list of one value per layer."""
        value = self.key(name, default)
        return value if isinstance(value, list) else [value] * layers

    def has(self, name):
        return name in self.file.tensors

    def get(self, name):
        return self.file.tensor(name).astype(np.float64)

    def optional(self, name, default=None):
        return self.get(name) if self.has(name) else default

    def linear(self, x, name):
        """y = W x + b, with b = NAME.bias if the file has one; W is [out, in]"""
        y = x @ self.get(name + ".weight").T
        return y + self.get(name + ".bias") if self.has(name + ".bias") else y

    def qkv(self, a, block, H, G, K, Kv=None):
        """Returns q [T,H,K], k and v [T,G,K] of one layer, from three tensors or the fused attn_qkv (rows q, k, v)."""
        if self.has(block + "attn_qkv.weight"):
            q, k, v = np.split(self.linear(a, block + "attn_qkv"), [H * K, (H + G) * K], 1)
        else:
            q, k, v = (self.linear(a, block + n) for n in ("attn_q", "attn_k", "attn_v"))
        return q.reshape(-1, H, K), k.reshape(-1, G, K), v.reshape(-1, G, Kv or K)

    def logits(self, x):
        """y = W x with output.weight, or the embedding when the output is tied"""
        return x @ self.get("output.weight" if self.has("output.weight") else "token_embd.weight").T


def rms(x, w=1.0, eps=1e-5):
    """y = x / sqrt(mean(x^2) + eps) w, over the last axis"""
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * w


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))"""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softcap(x, c):
    """c tanh(x / c), or x when c is 0"""
    return c * np.tanh(x / c) if c else x


def mask(T, window=0):
    """0 where position p sees s, minus infinity elsewhere: s <= p, and p - s < window if there is one"""
    p, s = np.arange(T)[:, None], np.arange(T)[None, :]
    sees = (s <= p) & ((p - s < window) if window else True)
    return np.where(sees, 0.0, -np.inf)


def attention(q, k, v, scale, window=0, cap=0.0, sinks=None):
    """softmax(cap(q k^T scale) + mask) v, heads joined: [T, H K].

    q is [T,H,K], k and v are [T,G,K]; query head h reads kv head h / (H/G). sinks [H] is one more score per head that takes
    part in the softmax and then is dropped.
    """
    T, H, _ = q.shape
    k, v = (np.repeat(z, H // z.shape[1], 1) for z in (k, v))
    score = softcap(np.einsum("thk,shk->hts", q, k) * scale, cap) + mask(T, window)
    if sinks is not None:
        score = np.concatenate((score, np.broadcast_to(sinks[:, None, None], (H, T, 1))), 2)
    p = softmax(score)[:, :, :T]
    return np.einsum("hts,shk->thk", p, v).reshape(T, -1)


def experts(router, used):
    """Returns, for every token, the `used` experts of largest router value."""
    return np.argsort(-router, axis=1, kind="stable")[:, :used]
