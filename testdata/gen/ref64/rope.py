"""Rotary position embedding.

Pair i of a head is turned by its angle: (a, b) -> (a cos - b sin, a sin + b cos). Layout "norm": the pair is (2i, 2i+1);
layout "neox": (i, i + R/2), R being the rotary width.
"""

import math

import numpy as np


def table(T, theta, R, factor=1.0, freqs=None):
    """Returns cos and sin [T, 1, R/2] of p theta^(-2i/R) / factor / freqs[i]."""
    angle = np.arange(T)[:, None] * theta ** (-np.arange(0, R, 2) / R) / factor
    if freqs is not None:
        angle = angle / freqs
    return np.cos(angle)[:, None], np.sin(angle)[:, None]


def yarn(T, theta, R, factor, context, attn_factor=1.0, fast=32.0, slow=1.0, freqs=None):
    """Returns cos and sin of YaRN: pair i mixes the angle a and a / factor, and both tables are scaled.

        d(r) = R ln(context / (2 pi r)) / (2 ln theta);  lo = max(0, floor d(fast));  hi = min(R-1, ceil d(slow))
        keep_i = 1 - clamp((i - lo) / max(0.001, hi - lo), 0, 1)
        angle = a keep_i + a (1 - keep_i) / factor;  scale = (1 + 0.1 ln factor) attn_factor
    """
    def d(r):
        return R * math.log(context / (2 * math.pi * r)) / (2 * math.log(theta))
    lo, hi = max(0, math.floor(d(fast))), min(R - 1, math.ceil(d(slow)))
    keep = 1 - np.clip((np.arange(R // 2) - lo) / max(0.001, hi - lo), 0, 1)
    a = np.arange(T)[:, None] * theta ** (-np.arange(0, R, 2) / R)
    if freqs is not None:
        a = a / freqs
    angle = a * keep + a * (1 - keep) / factor
    scale = (1 + 0.1 * math.log(factor)) * attn_factor
    return np.cos(angle)[:, None] * scale, np.sin(angle)[:, None] * scale


def from_keys(w, T, R, freqs=None):
    """Returns the table that the keys rope.freq_base and rope.scaling.* of the architecture ask for."""
    theta = w.key("rope.freq_base", 10000.0)
    factor = w.key("rope.scaling.factor", w.key("rope.scale_linear", 0.0)) or 1.0
    kind = w.key("rope.scaling.type", "linear")
    if kind == "none":
        return table(T, theta, R, 1.0, freqs)
    if kind == "linear":
        return table(T, theta, R, factor, freqs)
    if kind == "yarn":
        context = w.key("rope.scaling.original_context_length", w.key("context_length"))
        return yarn(T, theta, R, factor, context, w.key("rope.scaling.attn_factor", 1.0), freqs=freqs)
    raise ValueError(f"ref64: rope scaling {kind} is not supported; supported: none, linear, yarn")


def norm(z, cos_sin):
    """Turns z [T,heads,K], adjacent pairs."""
    cos, sin = cos_sin
    a, b = z[..., 0::2], z[..., 1::2]
    return np.stack((a * cos - b * sin, a * sin + b * cos), -1).reshape(z.shape)


def neox(z, cos_sin):
    """Turns the first R dimensions of z [T,heads,K], pairs half R apart."""
    cos, sin = cos_sin
    h = cos.shape[-1]
    a, b = z[..., :h], z[..., h:2 * h]
    return np.concatenate((a * cos - b * sin, a * sin + b * cos, z[..., 2 * h:]), -1)
