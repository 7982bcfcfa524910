"""The Muon optimizer for matrices: momentum, then the nearest orthogonal matrix as the step.

    m = 0.95 m + g;   u = g + 0.95 m;   W -= rate (orthogonal(u) sqrt(max(1, out / in)) + decay W)
orthogonal(u) replaces the singular values of u by about 1 with five Newton-Schulz steps.
Source: K. Jordan and others, "Muon: an optimizer for hidden layers in neural networks", 2024.
"""

import torch


def orthogonal(u):
    """x = u / |u|, then five times x = a x + (b A + c A A) x with A = x x^T"""
    wide = u if u.shape[0] <= u.shape[1] else u.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        A = x @ x.T
        x = 3.4445 * x + (-4.7750 * A + 2.0315 * (A @ A)) @ x
    return x if u.shape[0] <= u.shape[1] else x.T


class Muon(torch.optim.Optimizer):
    """params: pairs (matrix, rows of each of the matrices stacked in it); those are treated one by one."""

    def __init__(self, params, lr, decay):
        self.rows = {p: rows for p, rows in params}
        super().__init__([p for p, _ in params], dict(lr=lr, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                m.mul_(0.95).add_(p.grad)
                for part, g, mm in zip(*(t.split(self.rows[p]) for t in (p.data, p.grad, m))):
                    u = orthogonal(g + 0.95 * mm) * max(1, part.shape[0] / part.shape[1]) ** 0.5
                    part.mul_(1 - group["lr"] * group["decay"]).add_(u, alpha=-group["lr"])
