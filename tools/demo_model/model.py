"""The network in PyTorch, for training: Qwen3.5's text backbone (Gated DeltaNet and gated attention) and Clef's joint schema head.

Every record is a row of its own, padded on the right; all operators are causal, so padding changes nothing before it.
"""

from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = {
    "vocab_size": 8000, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 256,
    "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4, "rms_norm_eps": 1e-6, "rope_theta": 10000000, "rotary": 64,
}
HEAD = {"hidden_size": 256, "width": 192, "routing_layers": 2, "layers": 1, "heads": 6, "feedforward": 384}
CHUNK = 64
BLOCK = 16


def working_type(x):
    """What a matrix product takes: BF16 under autocast, else x's own type."""
    return torch.bfloat16 if torch.is_autocast_enabled() else x.dtype


def rms(x, weight, shift: float, eps: float, dtype):
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y * (weight + shift)).to(dtype)


def convolve(mixed, taps, key_width: int, heads: int, dk: int):
    """Causal depthwise convolution, SiLU, and q, k of unit length (q also scaled): float32 from mixed [B, T, channels]."""
    t, width = mixed.shape[1], taps.shape[1]
    padded = F.pad(mixed, (0, 0, width - 1, 0))
    total = padded[:, :t] * taps[:, 0]
    for i in range(1, width):
        total = total + padded[:, i : i + t] * taps[:, i]
    y = F.silu(total.float())
    q, k, v = y[..., :key_width], y[..., key_width : 2 * key_width], y[..., 2 * key_width :]
    q, k = q.unflatten(-1, (heads, dk)), k.unflatten(-1, (heads, dk))
    q = q * (torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * dk**-0.5)
    k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
    return q, k, v


def chunk_weights(kk, qk, beta, total):
    """The strictly lower A and the masked, decayed Q K^T of every chunk."""
    place = torch.arange(kk.shape[-1], device=kk.device)
    lower = place[:, None] >= place[None, :]
    decay = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~lower, -1e30).exp()
    a = (beta.unsqueeze(-1) * kk * decay).masked_fill(place[:, None] <= place[None, :], 0.0)
    return a, qk * decay


def chunk_scales(q, k, v, beta, total):
    """What the recurrence multiplies by: beta v, decayed beta k, decayed q, k decayed to the chunk's end, and the chunk's own decay."""
    grown, last = total.exp().unsqueeze(-1), total[..., -1:]
    scale = beta.unsqueeze(-1)
    return scale * v, scale * grown * k, q * grown, k * (last - total).exp().unsqueeze(-1), last.exp().unsqueeze(-1)


def gated_norm(out, weight, z, eps: float, dtype):
    y = out * torch.rsqrt(out.square().mean(-1, keepdim=True) + eps)
    return (y * weight * F.silu(z.float())).to(dtype)


def swiglu(gate, up):
    return F.silu(gate) * up


def rotated_norm(x, weight, cos, sin, eps: float, dtype):
    """RMS norm of a head, then rotary on its first features; x [B, T, heads, D], cos and sin [T, 1, R/2]."""
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * (weight + 1.0)
    half = cos.shape[-1]
    a, b, rest = y[..., :half], y[..., half : 2 * half], y[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1).to(dtype)


def gates(b, a, a_log, bias):
    """beta and the log decay g, [B, H, T] float32."""
    return torch.sigmoid(b.float()).transpose(1, 2), (-a_log.float().exp() * F.softplus(a.float() + bias)).transpose(1, 2)


FUSED = {f.__name__: f for f in (rms, convolve, chunk_weights, chunk_scales, gated_norm, swiglu, rotated_norm, gates)}
PLAIN = dict(FUSED)


def fuse(on: bool):
    """Compiles the elementwise pieces, or takes them as they are."""
    for name, f in PLAIN.items():
        FUSED[name] = torch.compile(f, dynamic=True) if on else f


class RmsNorm(nn.Module):
    def __init__(self, size, zero_centred=True, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size) if zero_centred else torch.ones(size))
        self.shift, self.eps = float(zero_centred), eps

    def forward(self, x):
        return FUSED["rms"](x, self.weight, self.shift, self.eps, working_type(x))


def invert_unit_lower(a):
    """(I + a)^-1 for strictly lower a [..., 64, 64]: a finite series on blocks of 16, then blocks joined pair by pair."""
    size = a.shape[-1]
    count = size // BLOCK
    eye = torch.eye(BLOCK, device=a.device, dtype=a.dtype)
    diagonal = torch.stack([a[..., i * BLOCK : (i + 1) * BLOCK, i * BLOCK : (i + 1) * BLOCK] for i in range(count)], -3)
    power, inverse = diagonal, eye - diagonal
    for _ in range(3):  # a^16 = 0
        power = power @ power
        inverse = inverse + inverse @ power
    width = BLOCK
    while width < size:
        top, bottom = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        below = torch.stack([a[..., (2 * i + 1) * width : (2 * i + 2) * width, 2 * i * width : (2 * i + 1) * width] for i in range(size // width // 2)], -3)
        left = torch.cat([top, -(bottom @ below @ top)], -2)
        right = torch.cat([torch.zeros_like(top), bottom], -2)
        inverse = torch.cat([left, right], -1)
        width *= 2
    return inverse[..., 0, :, :]


def delta_rule(q, k, v, beta, g):
    """Gated delta rule in chunks of 64. q, k [B, H, T, K]; v [B, H, T, V]; beta, g [B, H, T]; all float32.

    Only the state goes from chunk to chunk; what a chunk reads of it is computed for all chunks at once afterwards.
    """
    b, h, t, kd = q.shape
    n = t // CHUNK
    q, k, v = (x.reshape(b * h * n, CHUNK, -1) for x in (q, k, v))
    beta, g = beta.reshape(b * h * n, CHUNK), g.reshape(b * h * n, CHUNK)
    total = g.cumsum(-1)
    keys = k.transpose(-1, -2)
    a, qk = FUSED["chunk_weights"](k @ keys, q @ keys, beta, total)
    bv, bk, qs, ks, keep = FUSED["chunk_scales"](q, k, v, beta, total)
    u, w = (invert_unit_lower(a) @ torch.cat([bv, bk], -1)).split([v.shape[-1], kd], -1)
    apart = lambda x: x.view(b * h, n, *x.shape[1:]).unbind(1)
    us, ws, kss, keeps = apart(u), apart(w), apart(ks.transpose(-1, -2)), apart(keep)
    state = torch.zeros(b * h, kd, v.shape[-1], device=q.device, dtype=q.dtype)
    states, fresh = [], []
    for i in range(n):
        states.append(state)
        fresh.append(torch.baddbmm(us[i], ws[i], state, alpha=-1))
        if i + 1 < n:
            state = torch.baddbmm(keeps[i] * state, kss[i], fresh[i])
    together = lambda xs: torch.stack(xs, 1).flatten(0, 1)
    out = torch.baddbmm(qs @ together(states), qk, together(fresh))
    return out.reshape(b, h, t, -1)


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.key_heads, self.value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.dk, self.dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
        h, kd, vd = c["hidden_size"], self.key_heads * self.dk, self.value_heads * self.dv
        self.in_proj_qkv = nn.Linear(h, 2 * kd + vd, bias=False)
        self.in_proj_z = nn.Linear(h, vd, bias=False)
        self.in_proj_b = nn.Linear(h, self.value_heads, bias=False)
        self.in_proj_a = nn.Linear(h, self.value_heads, bias=False)
        self.conv1d = nn.Conv1d(2 * kd + vd, 2 * kd + vd, c["linear_conv_kernel_dim"], groups=2 * kd + vd, bias=False)
        self.A_log = nn.Parameter(torch.linspace(0.0, 1.5, self.value_heads))
        self.dt_bias = nn.Parameter(torch.linspace(-5.0, -2.5, self.value_heads))
        self.norm = RmsNorm(self.dv, zero_centred=False)
        self.out_proj = nn.Linear(vd, h, bias=False)
        self.sizes = (kd, kd, vd)

    def forward(self, x):
        b, t, _ = x.shape
        mixed = self.in_proj_qkv(x)
        q, k, v = FUSED["convolve"](mixed, self.conv1d.weight[:, 0].to(mixed.dtype), self.sizes[0], self.key_heads, self.dk)
        repeat = self.value_heads // self.key_heads
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.unflatten(-1, (self.value_heads, self.dv)).transpose(1, 2)
        if repeat > 1:
            q, k = q.repeat_interleave(repeat, 1), k.repeat_interleave(repeat, 1)
        beta, g = FUSED["gates"](self.in_proj_b(x), self.in_proj_a(x), self.A_log, self.dt_bias)
        with torch.autocast(x.device.type, enabled=False):
            out = delta_rule(q, k, v, beta, g)
        z = self.in_proj_z(x).view(b, t, self.value_heads, -1)
        out = FUSED["gated_norm"](out.transpose(1, 2), self.norm.weight, z, self.norm.eps, working_type(x))
        return self.out_proj(out.reshape(b, t, -1))


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        h = c["hidden_size"]
        self.q_proj = nn.Linear(h, 2 * self.heads * self.d, bias=False)
        self.k_proj = nn.Linear(h, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(h, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.heads * self.d, h, bias=False)
        self.q_norm, self.k_norm = RmsNorm(self.d), RmsNorm(self.d)
        half = c["rotary"] // 2
        self.register_buffer("frequencies", 1.0 / (c["rope_theta"] ** (torch.arange(half).float() * 2 / c["rotary"])), persistent=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, gate = self.q_proj(x).view(b, t, self.heads, 2, self.d).unbind(3)
        k, v = self.k_proj(x).view(b, t, self.kv, self.d), self.v_proj(x).view(b, t, self.kv, self.d)
        angles = torch.arange(t, device=x.device).float()[:, None] * self.frequencies
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        dtype = working_type(x)
        q = FUSED["rotated_norm"](q, self.q_norm.weight, cos, sin, 1e-6, dtype).transpose(1, 2)
        k = FUSED["rotated_norm"](k, self.k_norm.weight, cos, sin, 1e-6, dtype).transpose(1, 2)
        v = v.transpose(1, 2)
        repeat = self.heads // self.kv
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        out = attend(q, k, v.to(dtype), causal=True)
        out = out.transpose(1, 2) * torch.sigmoid(gate)
        return self.o_proj(out.reshape(b, t, -1))


def attend(q, k, v, causal=False, mask=None):
    """Softmax attention; mask [B, 1, 1, T] is true where a key counts."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
    scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1) @ v.float()).to(q.dtype)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(FUSED["swiglu"](self.gate_proj(x), self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, c, index):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(c["hidden_size"]), RmsNorm(c["hidden_size"])
        self.full = (index + 1) % c["full_attention_interval"] == 0
        if self.full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.mlp = Mlp(c)

    def forward(self, x):
        mixer = self.self_attn if self.full else self.linear_attn
        x = x + mixer(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"])

    def forward(self, ids, drop=0.0):
        x = F.dropout(self.embed_tokens(ids), drop, self.training and drop > 0)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Attend(nn.Module):
    """torch's MultiheadAttention with its names, over padded memory."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight, self.in_proj_bias = nn.Parameter(torch.empty(3 * width, width)), nn.Parameter(torch.zeros(3 * width))
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.out_proj = nn.Linear(width, width)

    def forward(self, queries, memory, mask):
        width = queries.shape[-1]
        wq, wk, wv = self.in_proj_weight.split(width)
        bq, bk, bv = self.in_proj_bias.split(width)
        split = lambda x: x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
        q, k, v = split(F.linear(queries, wq, bq)), split(F.linear(memory, wk, bk)), split(F.linear(memory, wv, bv))
        return self.out_proj(attend(q, k, v, mask=mask).transpose(1, 2).reshape(queries.shape))


class EvidenceLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        w = c["width"]
        self.query_norm, self.memory_norm, self.feedforward_norm = nn.LayerNorm(w), nn.LayerNorm(w), nn.LayerNorm(w)
        self.attention = Attend(w, c["heads"])
        self.feedforward = nn.ModuleDict({"0": nn.Linear(w, c["feedforward"]), "3": nn.Linear(c["feedforward"], w)})

    def forward(self, r, memory, mask):
        r = r + self.attention(self.query_norm(r), self.memory_norm(memory), mask)
        return r + self.feedforward["3"](F.gelu(self.feedforward["0"](self.feedforward_norm(r))))


class FieldLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        w = c["width"]
        self.self_attn, self.multihead_attn = Attend(w, c["heads"]), Attend(w, c["heads"])
        self.linear1, self.linear2 = nn.Linear(w, c["feedforward"]), nn.Linear(c["feedforward"], w)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(w), nn.LayerNorm(w), nn.LayerNorm(w)

    def forward(self, f, memory, field_mask, mask):
        y = self.norm1(f)
        f = f + self.self_attn(y, y, field_mask)
        f = f + self.multihead_attn(self.norm2(f), memory, mask)
        return f + self.linear2(F.gelu(self.linear1(self.norm3(f))))


class Head(nn.Module):
    def __init__(self, c):
        super().__init__()
        h, w = c["hidden_size"], c["width"]
        self.hidden_norm = nn.LayerNorm(h)
        for name in ("memory", "question", "option_question", "global", "option_context", "option_lexical"):
            setattr(self, f"{name}_projection", nn.Linear(h, w, bias=False))
        self.type_embedding = nn.Embedding(3, w)
        nn.init.normal_(self.type_embedding.weight, std=0.2)
        self.evidence_layers = nn.ModuleList(EvidenceLayer(c) for _ in range(c["routing_layers"]))
        self.layers = nn.ModuleList(FieldLayer(c) for _ in range(c["layers"]))
        self.option_summary_norm, self.field_norm, self.option_norm = nn.LayerNorm(w), nn.LayerNorm(w), nn.LayerNorm(w)
        self.residual_scorer = nn.ModuleDict({"0": nn.Linear(4 * w, w), "3": nn.Linear(w, 1)})
        self.prior_logit_scale = nn.Parameter(torch.tensor(1.0))
        self.joint_logit_scale = nn.Parameter(torch.tensor(1.0))
        self.residual_gate = nn.Parameter(torch.tensor(1.0))

    def forward(self, hidden, batch, embedding):
        """Log-probabilities [B, K] of padded options, each over the options of its own question."""
        ids, lengths = batch["ids"], batch["lengths"]
        place = torch.arange(ids.shape[1], device=ids.device)
        x = self.hidden_norm(hidden)
        memory = self.memory_projection(x)
        mask = (place[None] < lengths[:, None])[:, None, None]

        def averaging(spans):                                                    # [B, n, 2] -> [B, n, T], rows that sum to 1
            inside = (place >= spans[..., :1]) & (place < spans[..., 1:])
            return inside.float() / (spans[..., 1:] - spans[..., :1]).clamp(min=1)

        options = averaging(batch["options"])
        end = (place == lengths[:, None] - 1).float()[:, None]
        with torch.autocast(ids.device.type, enabled=False):
            pooled = torch.cat([averaging(batch["questions"]), options, end], 1) @ x.float()
            lexical = options @ F.embedding(ids, embedding)                      # [B, K, H]
        q = batch["questions"].shape[1]
        question, context, last = pooled[:, :q], pooled[:, q:-1], pooled[:, -1]  # [B, Q, H], [B, K, H], [B, H]
        belongs = batch["belongs"]                                               # [B, Q, K]: which question an option is of
        share = belongs.float().transpose(1, 2)
        with torch.autocast(ids.device.type, enabled=False):
            mine = share @ question
        routed = self.option_context_projection(context) + self.option_lexical_projection(lexical) + self.option_question_projection(mine)
        for layer in self.evidence_layers:
            routed = layer(routed, memory, mask)
        base = self.question_projection(question)                                # [B, Q, W]
        with torch.autocast(ids.device.type, enabled=False):
            scores = (base.float() @ routed.float().transpose(1, 2)) / math.sqrt(base.shape[-1])
            weights = scores.masked_fill(~belongs, -1e9).softmax(-1)
            summary = weights @ routed.float()
        fields = base + self.option_summary_norm(summary) + self.global_projection(last)[:, None] + self.type_embedding(batch["types"])
        field_mask = batch["question_mask"][:, None, None]
        for layer in self.layers:
            fields = layer(fields, memory, field_mask, mask)
        fields = self.field_norm(fields)
        cap = math.log(100.0)
        prior_scale, joint_scale = self.prior_logit_scale.clamp(max=cap).exp(), self.joint_logit_scale.clamp(max=cap).exp()
        anchor = F.normalize(mine + last.float()[:, None], dim=-1)
        prior = prior_scale * (F.normalize(lexical, dim=-1) * anchor).sum(-1)
        options = self.option_norm(routed.float()).float()
        with torch.autocast(ids.device.type, enabled=False):
            field = share @ fields.float()
        features = torch.cat([field, options, field * options, (field - options).abs()], -1)
        residual = self.residual_scorer["3"](F.gelu(self.residual_scorer["0"](features))).squeeze(-1).float()
        logits = prior + torch.sigmoid(self.residual_gate) * (joint_scale * F.cosine_similarity(field, options, dim=-1) + residual)
        everyone = torch.where(belongs, logits[:, None], torch.full_like(scores, -1e9))
        with torch.autocast(ids.device.type, enabled=False):
            total = (share @ everyone.logsumexp(-1).clamp(min=-1e6).unsqueeze(-1)).squeeze(-1)
        return logits - total, logits


class Clef(nn.Module):
    def __init__(self, config=None, head=None):
        super().__init__()
        self.config, self.head_config = dict(config or CONFIG), dict(head or HEAD)
        self.backbone = Backbone(self.config)
        self.lm_head = nn.Embedding(self.config["vocab_size"], self.config["hidden_size"])
        self.head = Head(self.head_config)
        self.initialise()

    def initialise(self):
        depth = 2 * self.config["num_hidden_layers"]
        for name, p in self.backbone.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=p.shape[1] ** -0.5 / (math.sqrt(depth) if name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")) else 1.0))
        nn.init.normal_(self.backbone.embed_tokens.weight, std=0.5)
        with torch.no_grad():
            self.lm_head.weight.copy_(self.backbone.embed_tokens.weight)

    def forward(self, batch, drop=0.0):
        hidden = self.backbone(batch["ids"], drop)
        return self.head(hidden, batch, self.lm_head.weight) + (hidden,)
