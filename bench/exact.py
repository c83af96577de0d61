"""Qwen3.5's text backbone in float64, prefill only, one record: what FP32, BF16 and others are off from.

Weights of any type are widened layer by layer. Angles of the rotary embedding are products of float32, as the reference
has them; everything else is float64. On a GPU whose FP64 products are as fast as FP32's (H100, H200) it takes no longer.
"""

import torch
import torch.nn.functional as F

CHUNK = 64  # tokens of the recurrence that are taken together; any number gives the same
ROWS = 2048  # of attention at a time


def rms(x, weight, eps):
    """With a weight around zero, as the backbone's norms have it."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (1 + weight)


def convolve(x, taps):
    """Causal, channel by channel: x [T, channels], taps [channels, width]; the last tap meets the token itself."""
    width = taps.shape[1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    return sum(padded[i : i + len(x)] * taps[:, i] for i in range(width))


def delta_rule(q, k, v, beta, g):
    """Gated delta rule: q, k, v [heads, T, dim], beta and g [heads, T]; T whole chunks. arXiv 2412.06464, the chunk form."""
    heads, tokens, dim = v.shape
    cut = lambda x: x.reshape(heads, tokens // CHUNK, CHUNK, *x.shape[2:])
    q, k, v, beta, g = cut(q), cut(k), cut(v), cut(beta)[..., None], cut(g)
    total = g.cumsum(-1)
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    decay = (total[..., :, None] - total[..., None, :]).masked_fill(later, float("-inf")).exp()
    grown = total.exp()[..., None]
    mixed = (beta * k) @ k.transpose(-1, -2) * decay  # its strictly lower half counts: the diagonal is taken as ones
    u = torch.linalg.solve_triangular(mixed, beta * v, upper=False, unitriangular=True)
    w = torch.linalg.solve_triangular(mixed, beta * grown * k, upper=False, unitriangular=True)
    seen = q @ k.transpose(-1, -2) * decay
    kept = k * (total[..., -1:] - total).exp()[..., None]
    state = q.new_zeros(heads, q.shape[-1], dim)
    out = torch.empty_like(v)
    for c in range(tokens // CHUNK):
        fresh = u[:, c] - w[:, c] @ state
        out[:, c] = grown[:, c] * (q[:, c] @ state) + seen[:, c] @ fresh
        state = total[:, c, -1].exp()[:, None, None] * state + kept[:, c].transpose(-1, -2) @ fresh
    return out.reshape(heads, tokens, dim)


def delta_net(x, p, config):
    tokens, dim = len(x), config["linear_key_head_dim"]
    keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
    qkv = F.silu(convolve(x @ p["in_proj_qkv.weight"].T, p["conv1d.weight"][:, 0]))
    split = lambda y: y.reshape(tokens, -1, dim).transpose(0, 1)
    q, k, v = split(qkv[:, : keys * dim]), split(qkv[:, keys * dim : 2 * keys * dim]), split(qkv[:, 2 * keys * dim :])
    unit = lambda y: (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)).repeat_interleave(values // keys, 0)
    beta = torch.sigmoid(x @ p["in_proj_b.weight"].T).T
    g = (-p["A_log"].exp() * F.softplus(x @ p["in_proj_a.weight"].T + p["dt_bias"])).T
    padding = -tokens % CHUNK
    pad = lambda y: F.pad(y, (0, 0, 0, padding))
    y = delta_rule(pad(unit(q) * dim**-0.5), pad(unit(k)), pad(v), F.pad(beta, (0, padding)), F.pad(g, (0, padding)))[:, :tokens]
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + config["rms_norm_eps"]) * p["norm.weight"]
    return (y.transpose(0, 1).reshape(tokens, -1) * F.silu(x @ p["in_proj_z.weight"].T)) @ p["out_proj.weight"].T


def attention(x, p, config):
    tokens, dim, eps = len(x), config["head_dim"], config["rms_norm_eps"]
    rope = config["rope_parameters"]
    pairs = int(dim * rope["partial_rotary_factor"]) // 2
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, 2 * pairs, 2).float() / (2 * pairs)))
    angles = (torch.arange(tokens).float()[:, None] * frequencies).to(x.device).double()
    cos, sin = angles.cos(), angles.sin()

    def rotate(y):
        a, b = y[..., :pairs], y[..., pairs : 2 * pairs]
        return torch.cat([a * cos - b * sin, b * cos + a * sin, y[..., 2 * pairs :]], -1)

    split = lambda y: y.reshape(tokens, -1, dim).transpose(0, 1)
    q_gate = (x @ p["q_proj.weight"].T).reshape(tokens, -1, 2, dim).permute(2, 1, 0, 3)
    q = rotate(rms(q_gate[0], p["q_norm.weight"], eps)) * dim**-0.5
    k = rotate(rms(split(x @ p["k_proj.weight"].T), p["k_norm.weight"], eps))
    v = split(x @ p["v_proj.weight"].T)
    out = torch.empty_like(q)
    place = torch.arange(tokens, device=x.device)
    for head in range(len(q)):
        shared = head * len(k) // len(q)
        for first in range(0, tokens, ROWS):
            last = min(tokens, first + ROWS)
            scores = q[head, first:last] @ k[shared, :last].T
            scores.masked_fill_(place[first:last, None] < place[None, :last], float("-inf"))
            out[head, first:last] = scores.softmax(-1) @ v[shared, :last]
    return (out * torch.sigmoid(q_gate[1])).transpose(0, 1).reshape(tokens, -1) @ p["o_proj.weight"].T


def hidden(parameters: dict, config: dict, ids):
    """After the final norm, [T, hidden]. `parameters` by the names below model.language_model; config is its text_config."""
    eps = config["rms_norm_eps"]
    x = parameters["embed_tokens.weight"][ids].double()
    for i, kind in enumerate(config["layer_types"]):
        prefix = f"layers.{i}."
        layer = {name[len(prefix) :]: t.double() for name, t in parameters.items() if name.startswith(prefix)}
        part = lambda name: {n[len(name) + 1 :]: t for n, t in layer.items() if n.startswith(name + ".")}
        y = rms(x, layer["input_layernorm.weight"], eps)
        x = x + (delta_net(y, part("linear_attn"), config) if kind == "linear_attention" else attention(y, part("self_attn"), config))
        y, mlp = rms(x, layer["post_attention_layernorm.weight"], eps), part("mlp")
        x = x + (F.silu(y @ mlp["gate_proj.weight"].T) * (y @ mlp["up_proj.weight"].T)) @ mlp["down_proj.weight"].T
    return rms(x, parameters["norm.weight"].double(), eps)
