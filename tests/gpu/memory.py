"""Planned against measured peak bytes on a GPU, every recipe and both shapes.

    memory.py COAT_BENCH

Runs `coat-bench memory`. Inside the arena plan and reservation must agree to the byte; what the
device has in use beyond it (context, libraries) must be the same for all rows within 1 % of the
smallest arena. Plans above the card's memory are printed and not run. Exit status 1 otherwise.
"""
import json
import subprocess
import sys

SHAPES = (("olmo-1b", 8, ()), ("llama-7b", 4, ("precision.gradients=bf16",)))
RECIPES = (("bf16", "standard"), ("fp8", "standard"), ("coat", "standard"), ("coat", "lean"))


def bench(program, model, batch, recipe, settings, steps):
    command = [program, "memory", "--device", "cuda:0", "--model", model, "--recipe", recipe,
               "--batch", str(batch), "--sequence", "2048", "--steps", str(steps)]
    for setting in settings:
        command += ["--set", setting]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"memory.py: {' '.join(command)}: {result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])


def main():
    card = 2 ** 20 * int(subprocess.run(
        ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits", "-i", "0"],
        capture_output=True, text=True, check=True).stdout)
    beyond = {}
    smallest = card
    equal = True
    for model, batch, more in SHAPES:
        for recipe, save in RECIPES:
            settings = (*more, *(("precision.save=" + save,) if recipe == "coat" else ()))
            name = f"{model} {recipe} {save if recipe == 'coat' else ''}".strip()
            planned = bench(sys.argv[1], model, batch, recipe, settings, 0)["planned_bytes"]
            if planned > card - 2 ** 30:
                print(f"{name}: planned {planned}, does not fit a card of {card}")
                continue
            row = bench(sys.argv[1], model, batch, recipe, settings, 2)
            equal &= row["equal"] and row["arena_bytes"] == planned
            smallest = min(smallest, planned)
            beyond[name] = row["device_used_bytes"] - row["arena_bytes"]
            print(f"{name}: planned {planned}, arena {row['arena_bytes']}, device in use "
                  f"{row['device_used_bytes']}, beyond the arena {beyond[name] / 2 ** 20:.0f} MiB",
                  flush=True)
    spread = max(beyond.values()) - min(beyond.values())
    print(f"equal inside the arena: {equal}; beyond it within {spread / 2 ** 20:.0f} MiB, "
          f"{100 * spread / smallest:.2f} % of the smallest arena")
    sys.exit(0 if equal and spread <= 0.01 * smallest else 1)


if __name__ == "__main__":
    main()
