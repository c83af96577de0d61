"""Times PyTorch's attention with cuDNN's kernels at the shapes of attention_device, for a line-by-line comparison."""
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def median_ms(launch, launches=4):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for i in range(12):
        begin.record()
        for _ in range(launches):
            launch()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) / launches)
    return sorted(times)[len(times) // 2]


def time_case(q_heads, kv_heads, dim, batch, length, causal):
    def make(heads):
        return torch.randn(batch, length, heads, dim, device="cuda", dtype=torch.float16).transpose(1, 2)

    q, k, v = make(q_heads), make(kv_heads), make(kv_heads)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        ms = median_ms(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q_heads != kv_heads))
    flops = 4 * batch * length * length * q_heads * dim * (0.5 if causal else 1)
    print(f"{'torch, cuDNN':28} {q_heads:2d}/{kv_heads:<2d} x {dim:3d}  {batch:3d} x {length:5d} tokens  "
          f"{ms:9.4f} ms  {flops / ms * 1e-9:6.1f} TFLOP/s", flush=True)


for heads in (16, 24):
    for tokens in (346, 1382, 4510, 8072, 16347):
        time_case(heads, 4, 256, 1, tokens, True)
    time_case(heads, 4, 256, 64, 346, True)
time_case(16, 16, 72, 1, 336, False)
time_case(16, 16, 72, 1, 4096, False)
