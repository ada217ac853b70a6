"""Trains a preset on real text with coat-train and checks that it learns.

    train.py COAT_TRAIN PRESET BATCH [--gradients fp32|bf16] [--steps N]

Text: the sources of this machine's Python libraries (collect_text.sh), as bytes. Prints the losses and
the median step; exit status 1 when a step was skipped or the loss did not fall by a nat.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JOB = """\
api_version: coatrack/v1
name: {preset}
model: {{preset: {preset}}}
data: {{text: ["*.txt"], tokenizer: byte, validation_fraction: 0.01}}
train: {{steps: {steps}, sequence_length: 2048, global_batch: {batch}, micro_batch: {batch},
        seed: 1, eval_sequences: {batch}}}
optimizer: {{lr: 1.0e-4, warmup_steps: 10}}
precision: {{recipe: coat, gradients: {gradients}}}
checkpoint: {{root: default, every_steps: 0}}
resources: {{ranks: 1, device: gpu}}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coat_train")
    parser.add_argument("preset")
    parser.add_argument("batch", type=int)
    parser.add_argument("--gradients", default="fp32")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run(["bash", HERE / "collect_text.sh", folder / "data"], check=True)
        job = folder / "job.yaml"
        job.write_text(JOB.format(preset=arguments.preset, batch=arguments.batch,
                                  steps=arguments.steps, gradients=arguments.gradients))
        subprocess.run([arguments.coat_train, "--job", job, "--data-root", folder / "data",
                        "--out", folder / "out"], check=True, stdout=subprocess.DEVNULL)
        (records,) = folder.glob("out/**/records.jsonl")
        steps = [json.loads(line) for line in records.read_text().splitlines()]
    trained = [step for step in steps if "loss" in step]
    losses = [step["loss"] for step in trained]
    validation = [step["validationLoss"] for step in steps if "validationLoss" in step]
    skipped = sum(bool(step.get("skipped")) for step in trained)
    median = statistics.median(step["stepSeconds"] for step in trained[5:])
    print(f"{arguments.preset}: {len(trained)} steps, {skipped} skipped, loss {losses[0]:.3f} to "
          f"{losses[-1]:.3f}, validation {validation[0]:.3f} to {validation[-1]:.3f}, "
          f"median step {1000 * median:.1f} ms, {arguments.batch * 2048 / median:.0f} tokens/s")
    if len(trained) != arguments.steps or skipped or not losses[-1] < losses[0] - 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
