"""Trains a preset on real text with coat-train and checks that it learns.

    train.py COAT_TRAIN PRESET BATCH [--gradients fp32|bf16] [--steps N]

Text: the sources of this machine's Python libraries (collect_text.sh), as bytes. Prints the losses and
the median step; exit status 1 when a step was skipped or the loss did not fall by a nat.
"""
import argparse
import pathlib
import sys
import tempfile

import runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("coat_train")
    parser.add_argument("preset")
    parser.add_argument("batch", type=int)
    parser.add_argument("--gradients", default="fp32")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        data = pathlib.Path(name) / "data"
        runs.collect_text(data)
        steps = runs.train(arguments.coat_train, data, arguments.preset, arguments.batch,
                           steps=arguments.steps, gradients=arguments.gradients)
    trained = [step for step in steps if "loss" in step]
    losses = [step["loss"] for step in trained]
    validation = [step["validationLoss"] for step in steps if "validationLoss" in step]
    skipped = sum(bool(step.get("skipped")) for step in trained)
    median = runs.median_seconds(steps)
    print(f"{arguments.preset}: {len(trained)} steps, {skipped} skipped, loss {losses[0]:.3f} to "
          f"{losses[-1]:.3f}, validation {validation[0]:.3f} to {validation[-1]:.3f}, "
          f"median step {1000 * median:.1f} ms, {arguments.batch * 2048 / median:.0f} tokens/s")
    if len(trained) != arguments.steps or skipped or not losses[-1] < losses[0] - 1:
        sys.exit(1)


if __name__ == "__main__":
    main()
