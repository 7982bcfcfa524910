"""Samples stories from the exported file with plain numpy, many at a time, and measures its held-out loss.

    python3 sample.py stories.gguf --count 20 --temperature 0.8 --prompt "Once upon a time"
    python3 sample.py stories.gguf --loss

The tokenizer is rebuilt from the file, so it is tested too. The mathematics is that of ../ref64 with a cache of k and v.
"""

import argparse
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ref64"))

import gguf
import nn
import rope
import vocab
from corpus import stories
from llama import dense

HELD_SEED = 2


class Sampler:
    """A batch of sequences of one prompt; step feeds one token to each."""

    def __init__(self, path):
        self.w = nn.Weights(gguf.File(path))
        meta = self.w.file.meta
        self.voc = vocab.Vocab(meta["tokenizer.ggml.tokens"][vocab.CHAR0 + len(vocab.CHARS):])
        assert self.voc.pieces == meta["tokenizer.ggml.tokens"]
        loaded = {n: self.w.file.tensor(n).astype(np.float64) for n in self.w.file.tensors}
        self.w.get = loaded.__getitem__  # dequantize once
        self.H, self.G = self.w.key("attention.head_count"), self.w.key("attention.head_count_kv")
        self.K, self.eps = self.w.key("attention.key_length"), self.w.key("attention.layer_norm_rms_epsilon")
        self.L = self.w.key("block_count")
        self.cos, self.sin = rope.from_keys(self.w, self.w.key("context_length"), self.K)
        self.start()

    def start(self):
        self.cache, self.pos = [([], []) for _ in range(self.L)], 0

    def step(self, tokens):
        """Returns logits [B,V] after one more token of each sequence."""
        w, H, G, K, B = self.w, self.H, self.G, self.K, len(tokens)
        turn = self.cos[self.pos], self.sin[self.pos]
        x = w.get("token_embd.weight")[tokens]
        for layer, (ks, vs) in enumerate(self.cache):
            b = f"blk.{layer}."
            q, k, v = w.qkv(nn.rms(x, w.get(b + "attn_norm.weight"), self.eps), b, H, G, K)
            ks.append(rope.norm(k, turn))
            vs.append(v)
            q = rope.norm(q, turn).reshape(B, G, H // G, K)
            p = nn.softmax(np.einsum("bghk,sbgk->bghs", q, np.stack(ks)) / math.sqrt(K))
            o = np.einsum("bghs,sbgk->bghk", p, np.stack(vs)).reshape(B, H * K)
            x = x + w.linear(o, b + "attn_output")
            x = x + dense(w, nn.rms(x, w.get(b + "ffn_norm.weight"), self.eps), b)
        self.pos += 1
        return w.logits(nn.rms(x, w.get("output_norm.weight"), self.eps))

    def write(self, prompt, count, temperature, rng, limit=300):
        """Returns count texts and, for each, whether it ended with EOS."""
        self.start()
        ids = [vocab.BOS] + self.voc.encode(prompt)
        for t in ids:
            y = self.step([t] * count)
        out, ended = [list(ids) for _ in range(count)], [False] * count
        for _ in range(limit):
            if temperature == 0:
                pick = y.argmax(1)
            else:
                pick = (y / temperature + rng.gumbel(size=y.shape)).argmax(1)
            for i, t in enumerate(pick):
                ended[i] = ended[i] or t == vocab.EOS
                if not ended[i]:
                    out[i].append(int(t))
            if all(ended):
                break
            y = self.step(pick)
        return [self.voc.decode(o) for o in out], ended


def loss(path, sampler, count):
    """Returns nats per token (EOS included) on held-out stories, by ../ref64."""
    import llama
    total = n = 0
    for text in stories(HELD_SEED, count):
        ids = [vocab.BOS] + sampler.voc.encode(text) + [vocab.EOS]
        y = llama.run(sampler.w, np.array(ids[:-1]))
        y = y - y.max(1, keepdims=True)
        total += (np.log(np.exp(y).sum(1)) - y[np.arange(len(y)), ids[1:]]).sum()
        n += len(y)
    return total / n


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--count", type=int, default=1)
    ap.add_argument("--temperature", type=float, default=0.0)
    ap.add_argument("--prompt", default="Once upon a time")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--loss", action="store_true", help="measure the held-out loss instead")
    args = ap.parse_args()
    s = Sampler(args.model)
    if args.loss:
        y = loss(args.model, s, 300)
        print(f"held-out loss {y:.4f} nats per token, perplexity {math.exp(y):.3f}")
        return
    for text, ended in zip(*s.write(args.prompt, args.count, args.temperature, np.random.default_rng(args.seed))):
        print(text + ("" if ended else " [no end]") + "\n")


if __name__ == "__main__":
    main()
