"""Trains the story model; seeded, resumable.

    python3 train.py --out DIR --steps 4000        writes DIR/checkpoint.pt and DIR/vocab.json; run again to resume

Rows of a batch are BOS story EOS BOS story EOS ..., cut at the row's length. AdamW in two phases: after a warm-up the rate is
constant and rows have 256 tokens; in the last `--tail` of the steps the rate falls to zero along a cosine and rows have the
whole context of 512. Because the first phase does not depend on --steps, a resumed run may change it.

Two processes of one thread each train on stories of their own and average weights and moments every few steps. On two cores
this is several times as fast as one process of two threads, which wait for each other after every small product.
"""

import argparse
import json
import math
import os
import time

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn import functional as F

import vocab
from corpus import stories
from model import CONFIG, Model
from muon import Muon

MODEL_SEED, HELD_SEED, VOCAB_SEED, DATA_SEED = 1, 2, 3, 100
PROCESSES = 2
TOKENS = 1024  # per step and process, about
AVERAGE = 16  # steps between averages


def load_vocab(folder):
    """Returns the vocabulary, trained once and then read from the folder."""
    path = os.path.join(folder, "vocab.json")
    if not os.path.exists(path):
        v = vocab.train(stories(VOCAB_SEED, 20000), 1280)
        with open(path, "w") as f:
            json.dump(v.pieces[vocab.CHAR0 + len(vocab.CHARS):], f)
    with open(path) as f:
        return vocab.Vocab(json.load(f))


def rows(voc, texts, length):
    """Yields rows of length+1 ids; every row begins with a new story."""
    row = []
    for t in texts:
        row += [vocab.BOS] + voc.encode(t) + [vocab.EOS]
        if len(row) > length:
            yield row[:length + 1]
            row = []


def batches(voc, held, length, phase, rank, skip):
    """Yields the batches of a phase and process, without the first `skip`."""
    source = rows(voc, stories(DATA_SEED + 10 * phase + rank, exclude=held), length)
    n = TOKENS // length
    for _ in range(skip * n):
        next(source)
    while True:
        yield torch.tensor([next(source) for _ in range(n)])


def held_out(model, voc, texts):
    """Returns the mean loss in nats per token (EOS included) of each text alone after BOS."""
    total = count = 0
    with torch.no_grad():
        for t in texts:
            ids = torch.tensor([[vocab.BOS] + voc.encode(t) + [vocab.EOS]])
            total += F.cross_entropy(model(ids[:, :-1])[0], ids[0, 1:], reduction="sum").item()
            count += ids.shape[1] - 1
    return total / count


def average(model, opts):
    """Replaces weights and moments by their mean over the processes."""
    tensors = [p.data for p in model.parameters()]
    tensors += [s[k] for o in opts for s in o.state.values() for k in ("exp_avg", "exp_avg_sq") if k in s]
    flat = torch.cat([t.flatten() for t in tensors])
    dist.all_reduce(flat)
    flat /= PROCESSES
    for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_(part.view_as(t))


def optimizers(model, lr, muon):
    """Returns AdamW for everything, or, if muon is a rate, AdamW for embedding and norms and Muon for the matrices of layers."""
    layer = {n: p for n, p in model.named_parameters() if p.dim() == 2 and "embed" not in n}
    rest = [p for n, p in model.named_parameters() if n not in layer]
    groups = [dict(params=rest, weight_decay=0.0)]
    if not muon:
        groups.append(dict(params=list(layer.values()), weight_decay=0.1))
    opts = [torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))]
    if muon:
        H, G, K, F = (CONFIG[n] for n in "HGKF")
        stacked = {"qkv": [H * K, G * K, G * K], "gate_up": [F, F]}
        pairs = [(p, stacked.get(n.split(".")[2], [p.shape[0]])) for n, p in layer.items()]
        opts.append(Muon(pairs, lr=muon, decay=0.1))
    return opts


def run(rank, args):
    """Trains as process rank; process 0 writes and prints."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
    dist.init_process_group("gloo", rank=rank, world_size=PROCESSES)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(MODEL_SEED)
    voc = load_vocab(args.out)
    model = Model(len(voc.pieces))
    held = list(stories(HELD_SEED, 300))
    opts = optimizers(model, args.lr, args.muon)
    path, first, begin = os.path.join(args.out, "checkpoint.pt"), 0, 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        first = begin = saved["step"]
        if len(saved["opts"]) == len(opts):
            begin = saved["begin"]
            for opt, state in zip(opts, saved["opts"]):
                opt.load_state_dict(state)

    def report(*words):
        if rank == 0:
            print(*words, flush=True)

    def save(step):
        if rank == 0:
            torch.save(dict(model=model.state_dict(), opts=[o.state_dict() for o in opts], step=step, begin=begin), path + ".tmp")
            os.replace(path + ".tmp", path)

    report("parameters:", sum(p.numel() for p in model.parameters()))
    turn = int(args.steps * (1 - args.tail))  # first step of the second phase
    start, last, mean, source = time.time(), time.time(), None, None
    for step in range(first, args.steps):
        if source is None or step == turn:
            phase = int(step >= turn)
            source = batches(voc, set(held), (args.rows, CONFIG["context"])[phase], phase, rank, step - turn * phase)
        fall = max(0, step - turn) / max(1, args.steps - turn)
        rate = min((step - begin + 1) / args.warm, 0.5 + 0.5 * math.cos(math.pi * fall))
        for opt, peak in zip(opts, (args.lr, args.muon)):
            for g in opt.param_groups:
                g["lr"] = peak * rate
        batch = next(source)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        mean = loss.item() if mean is None else 0.98 * mean + 0.02 * loss.item()
        if (step + 1) % AVERAGE == 0:
            average(model, opts)
            if (step + 1) % (2 * AVERAGE) == 0:
                report(f"step {step + 1} loss {mean:.4f} rate {rate:.3f} {(time.time() - start) / (step + 1 - first):.3f} s/step")
            if time.time() - last > 120:
                save(step + 1)
                last = time.time()
    average(model, opts)
    save(args.steps)
    if rank == 0:
        loss = held_out(model, voc, held)
        report(f"held-out loss {loss:.4f} nats per token, perplexity {math.exp(loss):.3f}, {len(held)} stories")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", required=True)
    ap.add_argument("--steps", type=int, default=4000)
    ap.add_argument("--tail", type=float, default=0.4, help="fraction of the steps in the second phase")
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--muon", type=float, default=0.0, help="rate of Muon for the matrices; 0: AdamW for all")
    ap.add_argument("--warm", type=int, default=200, help="steps of warm-up")
    ap.add_argument("--rows", type=int, default=256, help="tokens of a row in the first phase")
    ap.add_argument("--port", type=int, default=29531, help="where the processes meet")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    load_vocab(args.out)
    mp.spawn(run, args=(args,), nprocs=PROCESSES)


if __name__ == "__main__":
    main()
