"""The real daemons, started with the arguments of the manifests and of the compose file, inside their
own network and process namespaces: probes, pages, and every panel's expression against a Prometheus
that scrapes a running job."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import report_page
import support
import yaml

OVERLAYS = ("cpu-demo", "gpu", "ha-ready")
SERVING, NOT_SERVING = 1, 2
HOSTS = {"coordinator": "127.0.0.1", "worker-1": "127.0.0.2", "worker-2": "127.0.0.3"}
JOB = """
api_version: coatrack/v1
name: watched
model: {family: llama, hidden_size: 64, layers: 2, heads: 4, intermediate_size: 128}
data: {text: ["corpus/*.txt"], validation_fraction: 0.1}
train: {steps: 100000, sequence_length: 64, global_batch: 4, micro_batch: 2, seed: 7,
        eval_every_steps: 20, eval_sequences: 4, telemetry_every_steps: 10}
optimizer: {lr: 3.0e-3, warmup_steps: 10}
precision: {recipe: coat}
resources: {ranks: 2, device: cpu}
checkpoint: {root: default, every_steps: 50, keep: 2}
"""


def enter_namespaces():
    """Starts this script again with ports and processes of its own."""
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *rights, "--net", "--pid", "--fork", "--mount-proc", "--kill-child",
               sys.executable, "-B", os.path.abspath(__file__), "--inside", *sys.argv[1:]]
    os.execvp(command[0], command)


def raise_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(control, 0x8914, request)  # SIOCSIFFLAGS


def health(host, port, service):
    """grpc.health.v1.Health/Check as a kubelet calls it; None: unknown service or no server."""
    def frame(kind, flags, stream, body):
        return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body

    def literal(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    path = b"/grpc.health.v1.Health/Check"
    headers = (b"\x83\x86\x04" + bytes([len(path)]) + path + b"\x01\x04test"
               + literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers"))
    name = service.encode()
    message = b"\x0a" + bytes([len(name)]) + name if name else b""
    data = b"\0" + struct.pack(">I", len(message)) + message
    try:
        with socket.create_connection((host, port), timeout=3) as link:
            link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
                         + frame(1, 4, 1, headers) + frame(0, 1, 1, data))
            stream, body = link.makefile("rb"), b""
            while True:
                head = stream.read(9)
                if len(head) < 9:
                    return None
                payload = stream.read(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                if kind == 4 and not flags & 1:
                    link.sendall(frame(4, 1, 0, b""))
                if kind == 0:
                    body += payload
                if kind in (0, 1) and flags & 1:
                    return body[6] if len(body) > 6 else None
    except OSError:
        return None


def eventually(condition, timeout_s=20):
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    return condition()


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def expressions():
    """(place, expression as Grafana sends it, whether a short healthy run may leave it empty)"""
    sys.path.insert(0, str(support.DEPLOY / "grafana"))
    import build
    for path in sorted((support.DEPLOY / "grafana/sources").glob("*.yml")):
        source = yaml.safe_load(path.read_text())
        for row in source["rows"]:
            for panel in row["panels"]:
                for query in panel["queries"]:
                    text = build.expand(query["expr"]).replace("$__rate_interval", "1m")
                    for name in ("job", "worker", "device"):
                        text = text.replace(f'"${name}"', '".*"')
                    yield (f'{source["title"]} / {panel["title"]}: {text}', text,
                           panel.get("may_be_empty", False))
    for note in build.annotations()["list"]:
        yield note["name"], note["expr"].replace('"$job"', '".*"'), True


class Daemons(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="coat-deploy-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, name, command, **more):
        log = open(self.folder / f"{name}.log", "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, **more)

        def end():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.addCleanup(end)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def relocated(self, text, paths):
        longest_first = "|".join(re.escape(p) for p in sorted(paths, key=len, reverse=True))
        return re.sub(longest_first, lambda match: f"{self.folder}{match.group()}", text)

    def pod_command(self, overlay, kind):
        """The pod's command and arguments; its mounts are folders of this test, its config is there."""
        rendered = support.run(support.tool("kubectl"), "kustomize",
                               support.DEPLOY / "kubernetes/overlays" / overlay)
        documents = [d for d in yaml.safe_load_all(rendered.stdout) if d]
        (workload,) = [d for d in documents if d["kind"] == kind]
        container = workload["spec"]["template"]["spec"]["containers"][0]
        paths = [m["mountPath"] for m in container["volumeMounts"]] + ["/usr/share/coatrack/data"]
        for path in paths:
            (self.folder / path[1:]).mkdir(parents=True, exist_ok=True)
        prefix = "coatrack-server-" if kind == "StatefulSet" else "coatrack-worker-"
        for document in documents:
            if document["kind"] == "ConfigMap" and document["metadata"]["name"].startswith(prefix):
                for name, text in document["data"].items():
                    text = self.relocated(text, [p for p in paths if p != "/etc/coatrack"])
                    text = text.replace("coatrack-coordinator:", "127.0.0.1:")
                    (self.folder / "etc/coatrack" / name).write_text(text)
        words = [w for w in container["command"] if w != "coat-init"] + container["args"]
        words = [w.replace("$(NODE_NAME)", "node-1").replace("$(POD_IP)", "127.0.0.1") for w in words]
        command = [support.PROGRAMS / words[0]] + [self.relocated(w, paths) for w in words[1:]]
        return command, container

    def probe(self, container, name):
        grpc = container[name]["grpc"]
        return health("127.0.0.1", grpc["port"], grpc.get("service", ""))

    def test_coordinators_of_the_manifests(self):
        support.needs_kubectl()
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                command, container = self.pod_command(overlay, "StatefulSet")
                process = self.start("server", command)
                self.assertTrue(eventually(lambda: self.probe(container, "startupProbe") == SERVING),
                                self.log("server"))
                self.assertEqual(self.probe(container, "livenessProbe"), SERVING)
                self.assertTrue(eventually(lambda: self.probe(container, "readinessProbe") == SERVING))
                self.assertIsNone(health("127.0.0.1", 7071, "no.such.Service"))
                ports = {p["name"]: p["containerPort"] for p in container["ports"]}
                self.assertIn("coat_leader", get(f'http://127.0.0.1:{ports["metrics"]}/metrics'))
                get(f'http://127.0.0.1:{ports["metrics"]}/metrics/jobs')
                workers = support.run(support.PROGRAMS / "coat", "workers", "--server",
                                      f'127.0.0.1:{ports["grpc"]}')
                self.assertEqual(workers.returncode, 0, workers.stderr)
                process.terminate()
                self.assertEqual(process.wait(timeout=20), 0, self.log("server"))

    def test_workers_of_the_manifests(self):
        support.needs_kubectl()
        for overlay in OVERLAYS:
            with self.subTest(overlay):
                command, container = self.pod_command(overlay, "DaemonSet")
                process = self.start("worker", command)
                self.assertTrue(eventually(lambda: self.probe(container, "startupProbe") == SERVING),
                                self.log("worker"))
                # Without a coordinator it lives, and is not ready.
                self.assertEqual(self.probe(container, "livenessProbe"), SERVING)
                self.assertEqual(self.probe(container, "readinessProbe"), NOT_SERVING)
                get("http://127.0.0.1:7072/metrics")
                process.terminate()
                self.assertEqual(process.wait(timeout=20), 0, self.log("worker"))

    def coordinator(self, name, state):
        process = self.start(name, [
            support.PROGRAMS / "coat-server", "--listen", "127.0.0.1:7070", "--health-listen",
            "127.0.0.1:7071", "--metrics-listen", "127.0.0.1:7072", "--state-dir", state])
        self.assertTrue(eventually(lambda: health("127.0.0.1", 7071, "") == SERVING), self.log(name))
        return process

    def test_backup_while_it_runs_and_restore(self):
        # As operations.md says; `sqlite3 FILE .backup` and this module call the same function.
        state, copy = self.folder / "state", self.folder / "copy"
        copy.mkdir()
        server = self.coordinator("server", state)
        (self.folder / "job.yaml").write_text(JOB)
        coat = [support.PROGRAMS / "coat", "--server", "127.0.0.1:7070"]
        submit = [*coat, "submit", "-f", self.folder / "job.yaml", "-o", "name"]
        job = support.run(*submit).stdout.split()[-1]
        with sqlite3.connect(state / "coatrack.db") as live, sqlite3.connect(copy / "coatrack.db") as to:
            live.backup(to)
            self.assertEqual(to.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        shutil.copy(state / "cluster_id", copy)
        support.run(*submit)  # after the backup: lost by the restore
        server.terminate()
        server.wait(timeout=20)
        restored = self.coordinator("restored", copy)
        listed = support.run(*coat, "list", "-o", "name").stdout.split()
        self.assertEqual(listed, [job])
        restored.terminate()
        restored.wait(timeout=20)

        for file in copy.glob("coatrack.db*"):
            file.unlink()
        self.coordinator("emptied", copy)
        self.assertEqual(health("127.0.0.1", 7071, "coatrack.v1.JobService"), NOT_SERVING)
        self.assertIn("coat_leader 0", get("http://127.0.0.1:7072/metrics"))

    def compose_command(self, service):
        command = yaml.safe_load((support.DEPLOY / "compose/compose.yaml").read_text())[
            "services"][service]["command"]
        words = [w for w in command if w != "coat-init"]
        result = [support.PROGRAMS / words[0]]
        for word in words[1:]:
            word = word.replace("0.0.0.0", HOSTS[service]).replace("=coordinator:", "=127.0.0.1:")
            word = word.replace("--advertise-address=" + service, "--advertise-address=" + HOSTS[service])
            # Each container has its own state; data and checkpoints are shared.
            word = self.relocated(word, ["/usr/share/coatrack/data", "/checkpoints"])
            result.append(word.replace("/var/lib/coatrack", f"{self.folder}/{service}"))
        return result

    def start_prometheus(self):
        home = self.folder / "prometheus"
        shutil.copytree(support.DEPLOY / "prometheus", home)
        config = (home / "prometheus.yml").read_text().replace("interval: 15s", "interval: 1s")
        (home / "prometheus.yml").write_text(config)
        for file in (support.DEPLOY / "compose/targets").glob("*.yml"):
            text = file.read_text()
            for host, address in HOSTS.items():
                text = text.replace(f'"{host}:', f'"{address}:')
            (home / "targets" / file.name).write_text(text)
        self.start("prometheus", [
            support.tool("prometheus"), f"--config.file={home}/prometheus.yml",
            f"--storage.tsdb.path={home}/data", "--web.listen-address=127.0.0.1:9090"])

    def query(self, expression):
        url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            return json.loads(get(url))["data"]["result"]
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError) and error.code != 503:  # 503: it starts
                raise AssertionError(f"{expression}: {error.read().decode()}") from error
            return []

    def check_pages(self):
        """Each page has every metric of METRICS.md, and a series of it unless nothing happened yet."""
        no_series = {"coat_jobs_finished_total", "coat_train_mfu_ratio"}
        places = [("coordinator", "metrics"), ("coordinator", "metrics/jobs"), ("worker-1", "metrics")]
        for (host, page), exported in zip(places, support.metrics_by_page(), strict=True):
            lines = get(f"http://{HOSTS[host]}:7072/{page}").splitlines()
            types = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE coat_"))
            self.assertEqual(types, exported, page)
            for name in exported:
                self.assertTrue(any(line.startswith(f"# HELP {name} ") for line in lines), name)
                series = [line for line in lines if re.match(rf"{name}(_bucket)?[{{ ]", line)]
                self.assertTrue(series or name in no_series, f"{page} has no series of {name}")
            for line in lines:
                self.assertNotRegex(line, r'[{,](job|instance)="')

    def test_every_panel_has_data_while_a_job_runs(self):
        corpus = self.folder / "usr/share/coatrack/data/corpus"
        corpus.mkdir(parents=True)
        (corpus / "a.txt").write_text("".join(f"line {i} of {i * i % 97}\n" for i in range(8000)))
        (self.folder / "checkpoints").mkdir()
        for service in HOSTS:
            self.start(service, self.compose_command(service))
        self.start_prometheus()
        (self.folder / "job.yaml").write_text(JOB)
        coat = [support.PROGRAMS / "coat", "--server", "127.0.0.1:7070"]
        self.assertTrue(eventually(lambda: health("127.0.0.1", 7071, "coatrack.v1.JobService") == SERVING),
                        self.log("coordinator"))
        submitted = support.run(*coat, "submit", "-f", self.folder / "job.yaml", "-o", "name")
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job = submitted.stdout.split()[-1]

        wanted = [(place, text) for place, text, may_be_empty in expressions() if not may_be_empty]
        self.assertGreater(len(wanted), 50)
        missing = list(wanted)

        def complete():
            missing[:] = [(place, text) for place, text in missing if not self.query(text)]
            return not missing
        eventually(complete, timeout_s=90)
        describe = support.run(*coat, "describe", job).stdout
        self.assertEqual([place for place, _ in missing], [],
                         describe + self.log("coordinator") + self.log("worker-1"))
        for _, text, may_be_empty in expressions():
            if may_be_empty:
                self.query(text)  # must at least be accepted
        self.check_pages()
        above = self.query("rank:coat_memory_above_plan_bytes > 0")
        self.assertEqual(above, [], "measured above the plan")
        stopped = support.run(*coat, "cancel", "-y", job)
        self.assertEqual(stopped.returncode, 0, stopped.stderr)
        self.assertEqual(support.run(*coat, "wait", job, timeout=90).returncode, 103)
        report = self.folder / "report.html"
        written = support.run(*coat, "report", job, "--out", report)
        self.assertEqual(written.returncode, 0, written.stderr)
        report_page.check(self, report)
        # They leave 30 s after the end.
        self.assertTrue(eventually(lambda: not self.query("coat_train_loss"), 45),
                        "series of a job that ended stay")
        print(f"{len(wanted)} expressions have data")


if __name__ == "__main__":
    if "--inside" not in sys.argv:
        enter_namespaces()
    sys.argv.remove("--inside")
    raise_loopback()
    support.main()
