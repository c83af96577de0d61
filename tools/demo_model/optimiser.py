"""All parameters in one flat buffer, updated by Muon (matrices) and Adam (the rest).

Muon: momentum, then the nearest orthogonal matrix by a Newton-Schulz iteration. Matrices of one shape lie side by side, so that a
shape costs one batch of products. A running average of the weights stands for the model while the rates are high.
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
        # Rates live on the device, so that a step can be recorded once and replayed.
        self.share, self.steps = torch.zeros((), device=device), torch.zeros((), device=device)
        self.average, self.norm = self.flat.clone(), torch.zeros((), device=device)
        self.graph = None

    @torch.no_grad()
    def update(self, clip: float = 1.0):
        self.steps += 1
        gradient = self.grad[:-1]
        gradient.nan_to_num_(0.0, 0.0, 0.0)
        self.norm.copy_(gradient.norm())
        gradient.mul_((clip / (self.norm + 1e-6)).clamp(max=1.0))
        g, b1, b2 = self.grad[: self.split], 0.9, 0.97
        self.first.lerp_(g, 1 - b1)
        self.second.mul_(b2).addcmul_(g, g, value=1 - b2)
        root = (self.second / (1 - b2**self.steps)).sqrt_().add_(1e-9)
        self.flat[: self.split].sub_(self.first / root * (self.rate * self.share / (1 - b1**self.steps)))
        rate = self.matrix_rate * self.share
        for p, gradient, momentum, scale in self.groups:
            momentum.lerp_(gradient, 0.05)
            change = orthogonal(gradient.lerp(momentum, 0.95))
            p.mul_(1 - rate * self.decay).sub_(change * (rate * scale))
        self.average.lerp_(self.flat, 0.004)
        self.grad.zero_()

    def step(self, share: float):
        """share scales both rates. The gradients are zero afterwards."""
        self.share.fill_(share)
        self.graph.replay() if self.graph else self.update()

    def record(self):
        """Records a step; weights and momenta are as before."""
        kept = [t.clone() for t in self.state()]
        self.share.fill_(0.0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.update()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.update()
        torch.cuda.synchronize()
        for t, before in zip(self.state(), kept):
            t.copy_(before)
        self.graph = graph

    def state(self):
        return [self.flat, self.average, self.grad, self.first, self.second, self.steps] + [momentum for _, _, momentum, _ in self.groups]

    @torch.no_grad()
    def swap(self):
        """Exchanges the weights with their running average."""
        kept = self.flat.clone()
        self.flat.copy_(self.average)
        self.average.copy_(kept)
