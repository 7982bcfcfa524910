"""Dequantization of the formats of 256 values per block; see dequant.py for the conventions.

A K-quant block is 16 groups of 16 or 8 groups of 32 values; a group has its own small integer scale (and minimum), which the
block's d (and dmin) multiply.
"""

import numpy as np

# The codebook of IQ4_NL and IQ4_XS.
IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)


def _f16(b):
    return np.ascontiguousarray(b).view("<f2").astype(np.float32)


def _planes(b, shifts, mask):
    """[N,B] bytes to [N,len(shifts),B]: the byte shifted right by each shift, and masked."""
    return (b[:, None, :] >> np.array(shifts, np.uint8)[:, None]) & mask


def q2_k(b):
    """y = d sc q - dmin m; bytes: 16 scales (sc low, m high half), 64 of q, d, dmin"""
    d, dmin = _f16(b[:, 80:82]), _f16(b[:, 82:84])
    dl, ml = d * (b[:, :16] & 15), dmin * (b[:, :16] >> 4)  # [N,16]
    q = np.concatenate([_planes(b[:, 16 + h:48 + h], (0, 2, 4, 6), 3) for h in (0, 32)], 1).reshape(-1, 16, 16)
    return dl[:, :, None] * q.astype(np.float32) - ml[:, :, None]


def q3_k(b):
    """y = d (sc - 32) (q - 4 (1 - h)); bytes: 32 of h, 64 of q, 12 of six-bit scales, d"""
    low = np.concatenate((b[:, 96:104] & 15, b[:, 96:104] >> 4), 1)  # [N,16]
    high = _planes(b[:, 104:108], (0, 2, 4, 6), 3).reshape(-1, 16)
    dl = _f16(b[:, 108:110]) * ((low | high << 4).astype(np.float32) - 32)
    q = np.concatenate([_planes(b[:, 32 + h:64 + h], (0, 2, 4, 6), 3) for h in (0, 32)], 1)  # [N,8,32]
    h = _planes(b[:, :32], range(8), 1)
    value = q.astype(np.float32) - 4 * (1 - h.astype(np.float32))
    return dl[:, :, None] * value.reshape(-1, 16, 16)


def _scale_min(s):
    """The 12 bytes of Q4_K and Q5_K to eight scales and eight minima of six bits."""
    lo, hi, last = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    sc = np.concatenate((lo & 63, last & 15 | lo >> 6 << 4), 1)
    m = np.concatenate((hi & 63, last >> 4 | hi >> 6 << 4), 1)
    return sc.astype(np.float32), m.astype(np.float32)


def q4_k(b):
    """y = d sc q - dmin m; bytes: d, dmin, 12 of scales, 128 of q (32 bytes hold two groups: low halves, high halves)"""
    sc, m = _scale_min(b[:, 4:16])
    dl, ml = _f16(b[:, :2]) * sc, _f16(b[:, 2:4]) * m
    q = _planes(b[:, 16:].reshape(-1, 32), (0, 4), 15).reshape(-1, 8, 32)
    return dl[:, :, None] * q.astype(np.float32) - ml[:, :, None]


def q5_k(b):
    """y = d sc q - dmin m; as Q4_K with 32 bytes before q, whose bit g is the fifth bit of group g"""
    sc, m = _scale_min(b[:, 4:16])
    dl, ml = _f16(b[:, :2]) * sc, _f16(b[:, 2:4]) * m
    q = _planes(b[:, 48:].reshape(-1, 32), (0, 4), 15).reshape(-1, 8, 32) | _planes(b[:, 16:48], range(8), 1) << 4
    return dl[:, :, None] * q.astype(np.float32) - ml[:, :, None]


def q6_k(b):
    """y = d sc (q - 32); bytes: 128 of low 4 bits, 64 of high 2 bits, 16 signed scales, d"""
    low = np.concatenate([_planes(b[:, h:h + 64], (0, 4), 15).reshape(-1, 4, 32) for h in (0, 64)], 1)  # [N,8,32]
    high = np.concatenate([_planes(b[:, 128 + h:160 + h], (0, 2, 4, 6), 3) for h in (0, 32)], 1)
    q = (low | high << 4).astype(np.float32) - 32
    dl = _f16(b[:, 208:210]) * np.ascontiguousarray(b[:, 192:208]).view(np.int8).astype(np.float32)
    return dl[:, :, None] * q.reshape(-1, 16, 16)


def iq4_xs(b):
    """y = d (sc - 32) IQ4[q]; bytes: d, 16 bits of high scale bits, 4 of low scale bits, 128 of q"""
    high = np.ascontiguousarray(b[:, 2:4]).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3  # [N,8]
    low = np.stack((b[:, 4:8] & 15, b[:, 4:8] >> 4), 2).reshape(-1, 8)
    dl = _f16(b[:, :2]) * ((low | high << 4).astype(np.float32) - 32)
    q = _planes(b[:, 8:].reshape(-1, 16), (0, 4), 15).reshape(-1, 8, 32)
    return dl[:, :, None] * IQ4[q]


def tq1_0(b):
    """y = d (t - 1); five base-3 digits t per byte: digit n is (byte 3^n mod 256) 3 >> 8; bytes: 48 and 4 of digits, d"""
    def digits(part, n):
        power = np.array([1, 3, 9, 27, 81], np.uint8)[:n, None]
        return ((part[:, None, :] * power).astype(np.uint16) * 3 >> 8).reshape(len(part), -1)
    t = np.concatenate((digits(b[:, :32], 5), digits(b[:, 32:48], 5), digits(b[:, 48:52], 4)), 1)
    return (t.astype(np.float32) - 1) * _f16(b[:, 52:54])


def tq2_0(b):
    """y = d (q - 1); bytes: 64 of q, d"""
    q = np.concatenate([_planes(b[:, h:h + 32], (0, 2, 4, 6), 3) for h in (0, 32)], 1).reshape(-1, 256)
    return (q.astype(np.float32) - 1) * _f16(b[:, 64:66])
