"""The model in PyTorch, for training only: Llama as in the file format's `llama` architecture.

    x = E[tok]
    per layer: a = rms(x);  x += Wo softmax(q k^T / sqrt(K) + causal) v, with q = rope(Wq a), k = rope(Wk a), v = Wv a
               z = rms(x);  x += Wd (silu(Wg z) * Wu z)
    logits = E rms(x)
Rope turns adjacent pairs (2i, 2i+1) of a head by p theta^(-2i/K). Query head h reads kv head h / (H/G).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

CONFIG = dict(D=128, L=4, H=4, G=2, K=32, F=384, context=512, theta=10000.0, eps=1e-5)


class Norm(nn.Module):
    """y = x / sqrt(mean x^2 + eps) * w"""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + CONFIG["eps"]) * self.weight


def rope_table(length):
    """Returns cos and sin, each [length, K/2]."""
    K = CONFIG["K"]
    angle = torch.arange(length)[:, None] * CONFIG["theta"] ** (-torch.arange(0, K, 2) / K)[None, :]
    return angle.cos(), angle.sin()


def rope(z, cos, sin):
    """Turns z [B, heads, T, K]."""
    a, b = z[..., 0::2], z[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Layer(nn.Module):
    """Attention and feed-forward of one layer; q, k, v and gate, up are fused here and split on export."""

    def __init__(self):
        super().__init__()
        c = CONFIG
        self.attn_norm, self.ffn_norm = Norm(c["D"]), Norm(c["D"])
        self.qkv = nn.Linear(c["D"], (c["H"] + 2 * c["G"]) * c["K"], bias=False)
        self.out = nn.Linear(c["H"] * c["K"], c["D"], bias=False)
        self.gate_up = nn.Linear(c["D"], 2 * c["F"], bias=False)
        self.down = nn.Linear(c["F"], c["D"], bias=False)

    def forward(self, x, cos, sin, mask):
        H, G, K = (CONFIG[n] for n in "HGK")
        B, T, _ = x.shape
        z = self.qkv(self.attn_norm(x)).view(B, T, H + 2 * G, K).transpose(1, 2)  # [B,H+2G,T,K]
        qk = rope(z[:, :H + G], cos, sin)
        q = qk[:, :H].reshape(B, G, H // G * T, K) * (1 / math.sqrt(K))  # heads of one group share k and v
        score = (q @ qk[:, H:].transpose(2, 3)).view(B, G, H // G, T, T) + mask
        y = score.softmax(-1).view(B, G, H // G * T, T) @ z[:, H + G:]
        x = x + self.out(y.view(B, H, T, K).transpose(1, 2).reshape(B, T, H * K))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """tokens [B,T] to logits [B,T,V]; the output matrix is the embedding."""

    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, CONFIG["D"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["L"]))
        self.norm = Norm(CONFIG["D"])
        for name, p in self.named_parameters():
            if p.dim() == 2:
                last = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 if "embed" in name else 0.08 / (math.sqrt(2 * CONFIG["L"]) if last else 1))

    def forward(self, tokens):
        T = tokens.shape[1]
        cos, sin = rope_table(T)
        mask = torch.full((T, T), -1e9).triu(1)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.norm(x) @ self.embed.weight.T
