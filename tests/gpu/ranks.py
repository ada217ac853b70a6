"""Data-parallel training on 1, 2 and 4 GPUs of this machine: speed, scaling, memory.

    ranks.py COAT_TRAIN [--device gpu|cpu] [--steps N]

One JSON line a shape and number of ranks: tokens/s a GPU, efficiency against one GPU, the share of
the gradients' sums that backward hides, and rank 0's bytes, measured and planned. More ranks than
GPUs are named on stderr and not run. `--device cpu` shows with a tiny model that the script works.
Exit status 1 when a run fails, when ranks of one batch do not learn, or when the arena is not the
planned one.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import runs

WORLDS = (1, 2, 4)
# Preset, sequences a rank, gradients, sequence length.
SHAPES = {"gpu": (("olmo-1b", 8, "fp32", 2048), ("llama-7b", 4, "bf16", 2048)),
          "cpu": (("llama-tiny", 2, "fp32", 64),)}


def count_gpus():
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())


def hidden_share(records):
    """Of the sampled steps behind the first ones; None for one rank."""
    total = wait = 0.0
    for record in records:
        if "allReduceSeconds" in record and int(record["step"]) > 5:
            total += record["allReduceSeconds"]
            wait += record["allReduceWaitSeconds"]
    return max(0.0, 1 - wait / total) if total > 0 else None


def bytes_of(records, field):
    sampled = [record for record in records if "health" in record][-1]
    return {kind["kind"]: int(kind.get("bytes", 0)) for kind in sampled[field]}


def measure(arguments, data, shape, ranks):
    preset, batch, gradients, sequence = shape
    environment = dict(os.environ, NCCL_NVLS_ENABLE="0")  # multicast off
    records = runs.train(arguments.coat_train, data, preset, batch, steps=arguments.steps,
                         ranks=ranks, device=arguments.device, gradients=gradients,
                         sequence=sequence, telemetry=10, environment=environment)
    losses = [record["loss"] for record in records if "loss" in record]
    if len(losses) != arguments.steps or not losses[-1] < losses[0]:
        sys.exit(f"ranks.py: {preset} on {ranks} ranks: {len(losses)} losses, "
                 f"{losses[0]} to {losses[-1]}")
    measured, planned = bytes_of(records, "memory"), bytes_of(records, "memoryPlanned")
    for kind, planned_bytes in planned.items():
        if measured.get(kind) != planned_bytes:
            sys.exit(f"ranks.py: {preset} on {ranks} ranks: {kind}: planned {planned_bytes}, "
                     f"measured {measured.get(kind)}")
    seconds = runs.median_seconds(records)
    return {"bench": "ranks", "device": arguments.device, "model": preset, "ranks": ranks,
            "batch": batch, "gradients": gradients, "step_ms": 1000 * seconds,
            "tokens_per_second_per_rank": batch * sequence / seconds,
            "hidden_share": hidden_share(records), "arena_bytes": sum(planned.values()),
            "bytes_in_use": sum(measured.values()), "first_loss": losses[0],
            "last_loss": losses[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coat_train")
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    available = count_gpus() if arguments.device == "gpu" else 2
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name) / "data"
        runs.collect_text(data)
        for shape in SHAPES[arguments.device]:
            alone = None
            for ranks in WORLDS:
                if ranks > available:
                    print(f"NOT RUN: {shape[0]} on {ranks} ranks, this machine has {available} "
                          "devices for them", file=sys.stderr)
                    continue
                row = measure(arguments, data, shape, ranks)
                alone = alone or row["tokens_per_second_per_rank"]
                row["efficiency"] = row["tokens_per_second_per_rank"] / alone
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
