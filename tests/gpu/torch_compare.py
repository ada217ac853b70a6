"""Compares log probabilities and gradients of dump_model with PyTorch.

    torch_compare.py DIR [--device cuda|cpu]

The reference is PyTorch in FP64. PyTorch in BF16 autocast from FP32 weights, which rounds about as
often as the recipe `bf16`, gives the measure: an error of Coatrack's may be at most twice that of
autocast, plus 2^-8 of the tensor's norm over the square root of its elements, the rounding of one
BF16 result. One line per tensor; exit status 1 when a bound is broken.
"""
import argparse
import json
import pathlib
import struct
import sys

import torch

TYPES = {"F32": torch.float32, "I32": torch.int32}


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


class Llama:
    """The forward from weights named as in checkpoints."""

    def __init__(self, metadata):
        self.layers, self.heads, self.kv_heads, self.head_size = (
            int(metadata[key]) for key in ("layers", "heads", "kv_heads", "head_size"))
        self.eps, self.theta = float(metadata["norm_eps"]), float(metadata["rope_theta"])
        self.tied = metadata["tied"] == "1"

    def norm(self, x, gain):
        wide = x.double() if x.dtype == torch.float64 else x.float()
        return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps) * gain

    def rotate(self, x):
        half = self.head_size // 2
        angle = torch.outer(
            torch.arange(x.shape[-2], dtype=torch.float64, device=x.device),
            self.theta ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half))
        wide = x.double() if x.dtype == torch.float64 else x.float()
        cos, sin = angle.cos().to(wide.dtype), angle.sin().to(wide.dtype)
        a, b = wide[..., :half], wide[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)

    def attention(self, x, weights, name):
        batch, seq, _ = x.shape
        q_width, kv_width = self.heads * self.head_size, self.kv_heads * self.head_size
        qkv = torch.nn.functional.linear(x, weights[name + ".qkv"])
        q, k, v = qkv.split([q_width, kv_width, kv_width], -1)
        q, k, v = (t.reshape(batch, seq, -1, self.head_size).transpose(1, 2) for t in (q, k, v))
        group = self.heads // self.kv_heads
        k, v = (t.repeat_interleave(group, 1) for t in (self.rotate(k), v))
        out = torch.nn.functional.scaled_dot_product_attention(self.rotate(q), k, v, is_causal=True)
        out = out.transpose(1, 2).reshape(batch, seq, q_width)
        return torch.nn.functional.linear(out, weights[name + ".output"])

    def logits(self, tokens, weights, stream):
        """`stream`: element type of the residual stream."""
        x = weights["embedding"][tokens.long()].to(stream)
        for layer in range(self.layers):
            name = f"layers.{layer}"
            y = self.norm(x, weights[name + ".attention_norm"]).to(stream)
            x = (x + self.attention(y, weights, name)).to(stream)
            y = self.norm(x, weights[name + ".mlp_norm"]).to(stream)
            gate, up = torch.nn.functional.linear(y, weights[name + ".gate_up"]).chunk(2, -1)
            y = torch.nn.functional.silu(gate) * up
            x = (x + torch.nn.functional.linear(y, weights[name + ".down"])).to(stream)
        y = self.norm(x, weights["final_norm"]).to(stream)
        return torch.nn.functional.linear(y, weights["embedding" if self.tied else "head"])


def run(llama, dump, device, reference):
    """Log probabilities at the dumped positions, the summed loss and the gradients of its mean."""
    dtype = torch.float64 if reference else torch.float32
    weights = {name[7:]: tensor.to(device, dtype).requires_grad_()
               for name, tensor in dump.items() if name.startswith("weight.")}
    with torch.autocast(device, dtype=torch.bfloat16, enabled=not reference):
        logits = llama.logits(dump["tokens"].to(device), weights,
                              torch.float64 if reference else torch.bfloat16)
    logits = logits.to(dtype).flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, dump["targets"].to(device).long().flatten(),
                                             reduction="sum")
    (loss / logits.shape[0]).backward()
    result = {"log_probabilities": logits.log_softmax(-1)[dump["positions"].long().to(device)],
              "nll": loss.reshape(1)}
    result.update({"grad." + name: weight.grad for name, weight in weights.items()})
    return {name: tensor.detach().double().cpu() for name, tensor in result.items()}


def compare(path, device):
    dump, metadata = read_safetensors(path)
    llama = Llama(metadata)
    want = run(llama, dump, device, reference=True)
    autocast = run(llama, dump, device, reference=False)
    broken = 0
    for name, exact in want.items():
        norm = exact.norm().item()
        ours = (dump[name].double() - exact).norm().item() / norm
        torch_error = (autocast[name] - exact).norm().item() / norm
        bound = 2 * torch_error + 2 ** -8 / exact.numel() ** 0.5
        bad = not ours <= bound
        broken += bad
        print(f"{path.stem:6} {name:28} error {ours:.3e}  autocast {torch_error:.3e}  "
              f"bound {bound:.3e}{'  BROKEN' if bad else ''}")
    return broken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    arguments = parser.parse_args()
    files = sorted(arguments.dir.glob("*.safetensors"))
    if not files:
        sys.exit(f"torch_compare.py: no .safetensors in {arguments.dir}; run dump_model first")
    broken = sum(compare(path, arguments.device) for path in files)
    print(f"{len(files)} models, {broken} bounds broken, PyTorch {torch.__version__}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
