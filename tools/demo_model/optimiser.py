"""All parameters in one flat buffer, updated by Muon (matrices) and Adam (the rest).

Muon: momentum, then the nearest orthogonal matrix by a Newton-Schulz iteration. Matrices of one shape lie side by side, so that a
shape costs one batch of products.
"""

from __future__ import annotations

import math

import torch


def blocks(name: str, p) -> tuple[int, int, int] | None:
    """(count, out, in) of the square-ish blocks that a matrix consists of; None: not for Muon."""
    if p.dim() != 2 or min(p.shape) < 128 or "embed" in name or "lm_head" in name:
        return None
    out, width = p.shape
    if out > width and out % width == 0 and name.endswith(("in_proj_weight", "in_proj_qkv.weight", "q_proj.weight")):
        return out // width, width, width
    return 1, out, width


def orthogonal(g, steps: int = 5):
    x = g.to(torch.bfloat16 if g.is_cuda else torch.float32)
    tall = x.shape[-2] > x.shape[-1]
    x = x.transpose(-1, -2) if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.transpose(-1, -2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(-1, -2) if tall else x).float()


class Optimiser:
    def __init__(self, model, matrix_rate: float, rate: float, decay: float = 0.05):
        named = list(model.named_parameters())
        shaped = {}
        for name, p in named:
            b = blocks(name, p)
            if b:
                shaped.setdefault(b[1:], []).append((p, b[0]))
        rest = [(name, p) for name, p in named if not blocks(name, p)]
        order = [p for _, p in rest] + [p for group in shaped.values() for p, _ in group]
        device = order[0].device
        total = sum(p.numel() for p in order)
        self.flat = torch.empty(total, device=device)
        self.grad = torch.zeros(total + 1, device=device)  # the last element carries the clock between processes
        at, starts = 0, {}
        for p in order:
            n = p.numel()
            self.flat[at : at + n] = p.detach().reshape(-1)
            p.data = self.flat[at : at + n].view(p.shape)
            p.grad = self.grad[at : at + n].view(p.shape)
            starts[id(p)] = at
            at += n
        self.split = sum(p.numel() for _, p in rest)
        self.first, self.second = torch.zeros(self.split, device=device), torch.zeros(self.split, device=device)
        self.groups = []
        for (out, width), group in shaped.items():
            start, count = starts[id(group[0][0])], sum(n for _, n in group)
            size = count * out * width
            view = lambda t: t[start : start + size].view(count, out, width)
            self.groups.append((view(self.flat), view(self.grad), torch.zeros(count, out, width, device=device), 0.2 * math.sqrt(max(out, width))))
        self.matrix_rate, self.rate, self.decay = matrix_rate, rate, decay
        self.steps = 0

    @torch.no_grad()
    def step(self, share: float, clip: float = 1.0):
        """share scales both rates."""
        self.steps += 1
        gradient = self.grad[:-1]
        gradient.nan_to_num_(0.0, 0.0, 0.0)
        norm = gradient.norm()
        gradient.mul_((clip / (norm + 1e-6)).clamp(max=1.0))
        g, b1, b2 = self.grad[: self.split], 0.9, 0.97
        self.first.lerp_(g, 1 - b1)
        self.second.mul_(b2).addcmul_(g, g, value=1 - b2)
        root = (self.second / (1 - b2**self.steps)).sqrt_().add_(1e-9)
        self.flat[: self.split].addcdiv_(self.first, root, value=-self.rate * share / (1 - b1**self.steps))
        for p, gradient, momentum, scale in self.groups:
            momentum.lerp_(gradient, 0.05)
            update = orthogonal(gradient.lerp(momentum, 0.95))
            p.mul_(1 - self.matrix_rate * share * self.decay).add_(update, alpha=-self.matrix_rate * share * scale)
        return norm
