"""A snapshot folder as Hugging Face lays it out: configs, tokenizer, and BF16 weights in safetensors files, in the releases' names."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import torch

import bpe


def names(model):
    """(file, tensor's name, parameter)"""
    for name, p in model.named_parameters():
        if name.startswith("backbone."):
            yield "model.safetensors", "model.language_model." + name[9:], p
        elif name.startswith("lm_head."):
            yield "model.safetensors", name, p
        else:
            yield "joint_head.safetensors", name[5:], p


def write(path: Path, tensors: dict):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, t in tensors.items():
        size = t.numel() * 2
        header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_suffix(".part")
    with open(part, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(t.detach().to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes())
    part.rename(path)


def read(path: Path) -> dict:
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            raw = torch.frombuffer(bytearray(data[8 + size + a : 8 + size + b]), dtype=torch.int16)
            found[name] = raw.view(torch.bfloat16).reshape(entry["shape"]).float()
    return found


def config(model) -> dict:
    c = model.config
    text = {
        "model_type": "qwen3_5_text", "vocab_size": c["vocab_size"], "hidden_size": c["hidden_size"], "intermediate_size": c["intermediate_size"],
        "num_hidden_layers": c["num_hidden_layers"], "num_attention_heads": c["num_attention_heads"], "num_key_value_heads": c["num_key_value_heads"], "head_dim": c["head_dim"],
        "hidden_act": "silu", "max_position_embeddings": 16384, "rms_norm_eps": c["rms_norm_eps"], "tie_word_embeddings": False, "attention_bias": False, "attn_output_gate": True,
        "full_attention_interval": c["full_attention_interval"],
        "layer_types": ["full_attention" if (i + 1) % c["full_attention_interval"] == 0 else "linear_attention" for i in range(c["num_hidden_layers"])],
        "linear_conv_kernel_dim": c["linear_conv_kernel_dim"], "linear_key_head_dim": c["linear_key_head_dim"], "linear_value_head_dim": c["linear_value_head_dim"],
        "linear_num_key_heads": c["linear_num_key_heads"], "linear_num_value_heads": c["linear_num_value_heads"],
        "rope_parameters": {"rope_type": "default", "rope_theta": c["rope_theta"], "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10], "mrope_interleaved": True},
        "dtype": "bfloat16",
    }
    return {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": False, "dtype": "bfloat16"}


def save(model, folder: Path, tokenizer: Path | None = None):
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for file, name, p in names(model):
        files.setdefault(file, {})[name] = p[:, :, :] if p.dim() == 3 else p
    for file, tensors in files.items():
        write(folder / file, tensors)
    (folder / "config.json").write_text(json.dumps(config(model), indent=2) + "\n")
    (folder / "joint_head_config.json").write_text(json.dumps(model.head_config, indent=2) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(bpe.TOKENIZER_CONFIG, indent=2) + "\n")
    if tokenizer:
        (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())


@torch.no_grad()
def load(model, folder: Path, backbone_only: bool = False):
    stored = {file: read(folder / file) for file in ("model.safetensors", "joint_head.safetensors")}
    for file, name, p in names(model):
        if backbone_only and file == "joint_head.safetensors":
            stored[file].pop(name)
            continue
        p.copy_(stored[file].pop(name).reshape(p.shape))
    left = [n for tensors in stored.values() for n in tensors]
    if left:
        raise ValueError(f"{folder}: unexpected tensors: {left[:5]}")
