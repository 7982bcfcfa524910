"""Dequantization of the formats of 32 values per block, and the table of all formats.

Each function takes blocks as bytes [N, block bytes] and returns float32 [N, values], rounding like the format's definition:
products and sums in float32, in the order of the formula given. q are the stored integers, lo and hi the halves of a byte.
"""

import numpy as np

import kquants
from kquants import IQ4

# The MXFP4 codebook: the e2m1 values doubled.
E2M1X2 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float32)


def f16(b):
    """The two bytes of each block as a float32 column."""
    return np.ascontiguousarray(b).view("<f2").astype(np.float32)


def nibbles(b):
    """[N,16] bytes to [N,32]: first the low halves, then the high halves."""
    return np.concatenate((b & 15, b >> 4), 1)


def high_bits(b):
    """[N,4] bytes to [N,32]: bit j of the little-endian word, as 16 or 0."""
    return np.unpackbits(b, axis=1, bitorder="little") << 4


def f32(b):
    return b.view("<f4")


def f16_values(b):
    return f16(b)


def bf16(b):
    """bf16 is the upper half of an f32."""
    return (b.view("<u2").astype(np.uint32) << 16).view(np.float32)


def q4_0(b):
    """y = (q - 8) d"""
    return (nibbles(b[:, 2:]).astype(np.float32) - 8) * f16(b[:, :2])


def q4_1(b):
    """y = q d + m"""
    return nibbles(b[:, 4:]).astype(np.float32) * f16(b[:, :2]) + f16(b[:, 2:4])


def q5_0(b):
    """y = (q - 16) d, q of 4 low bits and one bit of a 32-bit word"""
    q = nibbles(b[:, 6:]) | high_bits(b[:, 2:6])
    return (q.astype(np.float32) - 16) * f16(b[:, :2])


def q5_1(b):
    """y = q d + m"""
    q = nibbles(b[:, 8:]) | high_bits(b[:, 4:8])
    return q.astype(np.float32) * f16(b[:, :2]) + f16(b[:, 2:4])


def q8_0(b):
    """y = q d"""
    return b[:, 2:].view(np.int8).astype(np.float32) * f16(b[:, :2])


def iq4_nl(b):
    """y = IQ4[q] d"""
    return IQ4[nibbles(b[:, 2:])] * f16(b[:, :2])


def mxfp4(b):
    """y = e2m1[q] 2^(e - 127), computed as the doubled value times 2^(e - 128)"""
    return E2M1X2[nibbles(b[:, 1:])] * np.ldexp(np.float32(1), b[:, :1].astype(np.int32) - 128)


# Type number in the file: (name, values per block, bytes per block, function).
TYPES = {
    0: ("F32", 1, 4, f32), 1: ("F16", 1, 2, f16_values), 30: ("BF16", 1, 2, bf16),
    2: ("Q4_0", 32, 18, q4_0), 3: ("Q4_1", 32, 20, q4_1), 6: ("Q5_0", 32, 22, q5_0), 7: ("Q5_1", 32, 24, q5_1),
    8: ("Q8_0", 32, 34, q8_0), 20: ("IQ4_NL", 32, 18, iq4_nl), 39: ("MXFP4", 32, 17, mxfp4),
    10: ("Q2_K", 256, 84, kquants.q2_k), 11: ("Q3_K", 256, 110, kquants.q3_k), 12: ("Q4_K", 256, 144, kquants.q4_k),
    13: ("Q5_K", 256, 176, kquants.q5_k), 14: ("Q6_K", 256, 210, kquants.q6_k), 23: ("IQ4_XS", 256, 136, kquants.iq4_xs),
    34: ("TQ1_0", 256, 54, kquants.tq1_0), 35: ("TQ2_0", 256, 66, kquants.tq2_0),
}


def size(kind, count, name=""):
    """Returns the bytes of count values of that type."""
    if kind not in TYPES:
        raise ValueError(f"gguf: tensor {name}: type {kind} is not supported; supported: {', '.join(t[0] for t in TYPES.values())}")
    _, values, nbytes, _ = TYPES[kind]
    if count % values:
        raise ValueError(f"gguf: tensor {name}: {count} values do not fill blocks of {values}")
    return count // values * nbytes


def dequantize(raw, kind):
    """Returns the float32 values of raw bytes, flat."""
    _, _, nbytes, function = TYPES[kind]
    return function(raw.reshape(-1, nbytes)).reshape(-1)
