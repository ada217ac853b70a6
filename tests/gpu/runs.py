"""Training runs of coat-train on real text, for the scripts beside this one."""
import json
import pathlib
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
JOB = """\
api_version: coatrack/v1
name: {preset}
model: {{preset: {preset}}}
data: {{text: ["*.txt"], tokenizer: byte, validation_fraction: 0.01}}
train: {{steps: {steps}, sequence_length: {sequence}, global_batch: {global_batch},
        micro_batch: {batch}, seed: 1, eval_sequences: {batch}, telemetry_every_steps: {telemetry}}}
optimizer: {{lr: 1.0e-4, warmup_steps: 10}}
precision: {{recipe: coat, gradients: {gradients}}}
checkpoint: {{root: default, every_steps: 0}}
resources: {{ranks: {ranks}, device: {device}}}
"""


def collect_text(folder):
    subprocess.run(["bash", HERE / "collect_text.sh", folder], check=True)


def train(coat_train, data, preset, batch, *, steps=50, ranks=1, device="gpu", gradients="fp32",
          sequence=2048, telemetry=50, environment=None):
    """Records of rank 0, `batch` sequences a rank and step; checkpoints are thrown away."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = folder / "job.yaml"
        job.write_text(JOB.format(preset=preset, batch=batch, global_batch=batch * ranks,
                                  steps=steps, ranks=ranks, device=device, gradients=gradients,
                                  sequence=sequence, telemetry=telemetry))
        subprocess.run([coat_train, "--job", job, "--data-root", data, "--out", folder / "out"],
                       check=True, stdout=subprocess.DEVNULL, env=environment)
        # A folder a rank, named by its number.
        records = sorted(folder.glob("out/**/records.jsonl"))[0]
        return [json.loads(line) for line in records.read_text().splitlines()]


def median_seconds(records):
    """Of steps that were neither the first five nor sampled for telemetry."""
    return statistics.median(record["stepSeconds"] for record in records
                             if "loss" in record and "health" not in record
                             and int(record["step"]) > 5)
