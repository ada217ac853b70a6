"""What the tests of deploy/ share: paths, tools, the table of exported metrics, a free port."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# The tests are started with the folder that tools.sh has filled and the build's bin/.
TOOLS = pathlib.Path(os.environ.get("COAT_DEPLOY_TOOLS", ROOT / "build/release/deploy_tools"))
PROGRAMS = pathlib.Path(os.environ.get("COAT_PROGRAMS", ROOT / "build/release/bin"))
# Those of dcgm-exporter's default list that the dashboards use.
DCGM_METRICS = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"}


def tool(name):
    path = TOOLS / "bin" / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; run tests/deploy/tools.sh {TOOLS}")
    return str(path)


def run(*command, timeout=60, **more):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=timeout, check=False, **more)


def needs_kubectl():
    """Skips the calling case, visibly, where no kubectl can render the manifests."""
    path = TOOLS / "bin/kubectl"
    if not path.exists():
        raise unittest.SkipTest("NOT RUN: kubectl is not installed")
    text = run(path, "version", "--client").stdout
    found = re.search(r"Kustomize Version: v(\d+)", text)
    if not found or int(found.group(1)) < 5:
        raise unittest.SkipTest(f"NOT RUN: kubectl with kustomize 5 or newer is needed, not {text}")


def metrics_by_page():
    """[{name: "gauge" | "counter" | "histogram"}] of the fleet, jobs and worker pages, as METRICS.md has
    them; a C++ test keeps that page equal to the table that the daemons render from."""
    text = (DEPLOY / "prometheus/METRICS.md").read_text()
    return [dict(re.findall(r"^\| `(coat_\w+)` \| (\w+) \|", section, re.MULTILINE))
            for section in text.split("\n## ")[1:]]


def exported_metrics():
    fleet, jobs, ranks = metrics_by_page()
    return {**fleet, **jobs, **ranks}


def recorded_metrics(yaml):
    rules = yaml.safe_load((DEPLOY / "prometheus/recording_rules.yml").read_text())
    return {rule["record"] for group in rules["groups"] for rule in group["rules"]}


def names_in(expression):
    """The metrics that a PromQL expression reads: coat_*, recorded level:metric:operation, and those of
    dcgm-exporter."""
    text = re.sub(r'"(\\.|[^"\\])*"', '""', expression)
    return set(re.findall(r"\b(?:[a-z]+:coat_[a-z0-9_:]+|coat_[a-z0-9_]+|DCGM_\w+|ALERTS|up)\b", text))


def unknown_names(expression, exported, recorded):
    known = set(exported) | recorded | {"up", "ALERTS"} | DCGM_METRICS
    for name, kind in exported.items():
        if kind == "histogram":
            known |= {name + "_bucket", name + "_sum", name + "_count"}
            known.discard(name)
    return sorted(names_in(expression) - known)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    """Runs the cases of the calling script; the last line is the count. Exit status 77: all skipped."""
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    # A case with several failing subtests counts once.
    broken = {str(getattr(case, "test_case", case)) for case, _ in result.failures + result.errors}
    skipped = len(result.skipped)
    sys.stderr.flush()
    passed = result.testsRun - len(broken) - skipped
    print(f"{passed} passed, {len(broken)} failed, {skipped} skipped")
    if broken or result.testsRun == 0:
        sys.exit(1)
    sys.exit(0 if passed else 77)
