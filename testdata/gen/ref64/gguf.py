"""Reader of GGUF files, versions 2 and 3: metadata as Python values, tensors as numpy arrays.

Layout: "GGUF", u32 version, u64 tensor count, u64 key count, the keys, the tensor descriptions, padding to `general.alignment`
(default 32), then tensor data at the described offsets.
"""

import mmap
import struct

import numpy as np

import dequant

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class File:
    """An opened file: meta (key to value) and shape, type and place of every tensor."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self._data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self._pos = 0
        if self._data[:4] != b"GGUF":
            raise ValueError(f"gguf: {path}: no GGUF file")
        self._pos = 4
        version, = self._take("I")
        if version not in (2, 3):
            raise ValueError(f"gguf: {path}: version {version} is not supported; supported: 2, 3")
        tensors, keys = self._take("QQ")
        self.meta = {}
        for _ in range(keys):
            key = self._string()
            self.meta[key] = self._value(self._take("I")[0])
        self.tensors = {}
        for _ in range(tensors):
            name = self._string()
            dims = self._take("%dQ" % self._take("I")[0])
            kind, offset = self._take("IQ")
            self.tensors[name] = (dims[::-1], kind, offset)
        align = self.meta.get("general.alignment", 32)
        self._base = (self._pos + align - 1) // align * align

    def _take(self, fmt):
        fmt = "<" + fmt
        out = struct.unpack_from(fmt, self._data, self._pos)
        self._pos += struct.calcsize(fmt)
        return out

    def _string(self):
        n, = self._take("Q")
        self._pos += n
        return self._data[self._pos - n:self._pos].decode("utf-8", "surrogateescape")

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            item, n = self._take("IQ")
            if item in _SCALARS:
                return list(self._take("%d%s" % (n, _SCALARS[item])))
            return [self._value(item) for _ in range(n)]
        return self._take(_SCALARS[kind])[0]

    def tensor(self, name):
        """Returns the tensor dequantized to float32, its shape slowest dimension first: a matrix is [out, in]."""
        shape, kind, offset = self.tensors[name]
        count = int(np.prod(shape))
        raw = np.frombuffer(self._data, np.uint8, dequant.size(kind, count, name), self._base + offset)
        return dequant.dequantize(raw, kind).reshape(shape)
