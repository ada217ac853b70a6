"""Containers: Dockerfiles and compose file are read and held against the tree and the binaries; the
commands of build steps that need no container run here; PID 1 runs in a process namespace. No
container engine runs, so no image is built."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import support
import yaml

DOCKER = support.DEPLOY / "docker"
COMPOSE = support.DEPLOY / "compose"
FILES = ("cpu.Dockerfile", "cuda.Dockerfile")
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "CMD"}


def instructions(name):
    """[(instruction, rest)], continuation lines joined, comments dropped."""
    lines = [line for line in (DOCKER / name).read_text().splitlines()
             if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def step(name, text):
    found = [rest for word, rest in instructions(name) if word == "RUN" and text in rest]
    assert len(found) == 1, (name, text)
    return found[0]


def compose():
    return yaml.safe_load((COMPOSE / "compose.yaml").read_text())


def flags(program):
    result = support.run(support.PROGRAMS / program, "--help")
    return set(re.findall(r"--[a-z][a-z-]+", result.stdout))


class Dockerfiles(unittest.TestCase):
    def test_two_stages_and_known_instructions(self):
        for name in FILES:
            words = instructions(name)
            self.assertLessEqual({word for word, _ in words}, KNOWN, name)
            stages = [rest.split(" AS ")[1] for word, rest in words if word == "FROM"]
            self.assertEqual(stages, ["build", "runtime"], name)
            for word, rest in words:
                if word == "FROM":
                    image = rest.split()[0]
                    self.assertRegex(image, r":[\w.-]+$", "an image without a version")
                    self.assertNotIn(":latest", image)

    def test_sources_exist(self):
        for name in FILES:
            copied = 0
            for word, rest in instructions(name):
                if word != "COPY" or "--from=" in rest:
                    continue
                *sources, _ = [part for part in rest.split() if not part.startswith("--")]
                for source in sources:
                    copied += 1
                    self.assertTrue((support.ROOT / source).exists(), f"{name}: {source}")
            self.assertGreater(copied, 8)

    def test_what_the_last_stage_takes_was_made_before(self):
        for name in FILES:
            words = instructions(name)
            made = " ".join(rest for word, rest in words if word == "RUN")
            for word, rest in words:
                if word == "COPY" and "--from=build" in rest:
                    *sources, _ = [part for part in rest.split() if not part.startswith("--")]
                    for source in sources:
                        self.assertIn(source.removeprefix("/src/"), made, name)

    def test_the_whole_source_of_the_programs_is_copied(self):
        top = set(re.findall(r"add_subdirectory\((\w+)\)", (support.ROOT / "CMakeLists.txt").read_text()))
        for name in FILES:
            copied = {rest.split()[0] for word, rest in instructions(name) if word == "COPY"}
            self.assertLessEqual(top - {"tests"} | {"cmake"}, copied, name)

    def test_programs_do_not_run_as_root(self):
        for name in FILES:
            words = instructions(name)
            users = [index for index, (word, _) in enumerate(words) if word == "USER"]
            self.assertEqual(words[users[-1]][1], "10001:10001", name)
            self.assertEqual(words[users[-1] + 1:], [("CMD", '["coat", "--help"]')])
            self.assertIn("useradd --uid 10001", step(name, "useradd"))

    def test_presets_and_targets_exist(self):
        presets = (support.ROOT / "CMakePresets.json").read_text()
        for name in FILES:
            build = step(name, "cmake --preset")
            self.assertIn(f'"name": "{re.search("--preset ([a-z-]+)", build).group(1)}"', presets)
            cmake = (support.ROOT / "CMakeLists.txt").read_text()
            for option in re.findall(r"-D([A-Z_]+)=", build):
                self.assertIn(option, cmake)

    def test_the_corpus_step_gives_text_enough_for_a_first_job(self):
        with tempfile.TemporaryDirectory() as folder:
            command = step("cpu.Dockerfile", "/corpus").replace("/corpus", f"{folder}/corpus")
            result = support.run("bash", "-c", command, cwd=support.ROOT)
            self.assertEqual(result.returncode, 0, result.stderr)
            text = pathlib.Path(folder, "corpus/coatrack.txt").read_bytes()
            self.assertGreater(len(text), 100_000)
            text.decode("utf-8")

    def test_the_libraries_step_names_packages(self):
        if not shutil.which("dpkg"):
            self.fail("dpkg is missing: this test needs Debian or Ubuntu")
        with tempfile.TemporaryDirectory() as folder:
            link = pathlib.Path(folder, "build/release")
            link.mkdir(parents=True)
            (link / "bin").symlink_to(support.PROGRAMS)
            command = step("cpu.Dockerfile", "ldd build").replace(
                "/runtime-packages", f"{folder}/packages")
            result = support.run("bash", "-c", command, cwd=folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            packages = pathlib.Path(folder, "packages").read_text().split()
        joined = " ".join(packages)
        for part in ("libc6", "libgrpc++", "libprotobuf", "libsqlite3-0", "libyaml-cpp"):
            self.assertIn(part, joined)
        known = support.run("dpkg-query", "-W", *packages)
        self.assertEqual(known.returncode, 0, known.stderr)


class Compose(unittest.TestCase):
    def test_services(self):
        services = compose()["services"]
        self.assertEqual(set(services), {"coordinator", "worker-1", "worker-2", "prometheus", "grafana"})
        volumes = set(compose()["volumes"])
        for name, service in services.items():
            for mount in service["volumes"]:
                source = mount.split(":")[0]
                if source.startswith("."):
                    self.assertTrue((COMPOSE / source).exists(), f"{name}: {source}")
                else:
                    self.assertIn(source, volumes, name)
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name} publishes {port}")

    def test_daemons_have_no_rights(self):
        for name in ("coordinator", "worker-1", "worker-2"):
            service = compose()["services"][name]
            self.assertTrue(service["read_only"], name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertEqual(service["security_opt"], ["no-new-privileges:true"], name)

    def test_flags_exist(self):
        for name in ("coordinator", "worker-1", "worker-2"):
            command = compose()["services"][name]["command"]
            words = command[1:] if command[0] == "coat-init" else command
            known = flags(words[0])
            for word in words[1:]:
                self.assertIn(word.split("=")[0], known, name)

    def test_prometheus_scrapes_what_the_daemons_serve(self):
        services = compose()["services"]
        for file in ("server.yml", "workers.yml"):
            for entry in yaml.safe_load((COMPOSE / "targets" / file).read_text()):
                host, port = entry["targets"][0].split(":")
                self.assertIn(f"--metrics-listen=0.0.0.0:{port}", services[host]["command"])
                self.assertEqual(entry.get("labels", {}).get("worker", host), host)

    def test_workers_have_time_to_drain(self):
        for name in ("worker-1", "worker-2"):
            self.assertGreaterEqual(int(compose()["services"][name]["stop_grace_period"][:-1]), 75)


class Init(unittest.TestCase):
    """init.sh with a daemon of three lines."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="coat-init-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = self.folder / "log"
        self.log.touch()

    def start(self, daemon):
        program = self.folder / "daemon"
        program.write_text(f"#!/bin/bash\nlog={self.log}\n{daemon}\n")
        program.chmod(0o755)
        process = subprocess.Popen([DOCKER / "init.sh", program], stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stderr.close()

    def wait_for(self, text, count=1):
        for _ in range(500):
            if self.log.read_text().count(text) >= count:
                return
            time.sleep(0.02)
        self.fail(f"{text!r} did not come {count} times: {self.log.read_text()!r}")

    def test_a_dead_daemon_starts_again_and_sigterm_ends_it(self):
        process = self.start('trap "echo drained >>$log; exit 7" TERM; echo "up $$" >>$log\n'
                             "while :; do sleep 0.05; done")
        self.wait_for("up")
        os.kill(int(self.log.read_text().split()[1]), signal.SIGKILL)
        self.wait_for("up", 2)
        process.terminate()
        self.assertEqual(process.wait(timeout=10), 7)
        self.assertIn("drained", self.log.read_text())
        self.assertIn("ended with status 137", process.stderr.read())

    def test_bad_configuration_is_final(self):
        process = self.start("echo up >>$log; exit 2")
        self.assertEqual(process.wait(timeout=10), 2)
        self.assertEqual(self.log.read_text().count("up"), 1)

    def test_sigterm_between_two_starts(self):
        process = self.start("echo up >>$log; exit 1")
        self.wait_for("up")
        time.sleep(0.3)  # inside the second's pause, most likely; right either way
        process.terminate()
        self.assertIn(process.wait(timeout=10), (0, 1))

    def test_a_second_sigterm_does_not_cut_the_drain_short(self):
        process = self.start('trap "term=1" TERM; echo up >>$log\n'
                             "for i in {1..200}; do sleep 0.02; [ -n \"$term\" ] && break; done\n"
                             "trap : TERM; sleep 0.5; echo drained >>$log; exit 0")
        self.wait_for("up")
        process.terminate()
        time.sleep(0.2)
        process.terminate()
        self.assertEqual(process.wait(timeout=10), 0)
        self.assertIn("drained", self.log.read_text())

    def test_as_pid_1_it_leaves_no_zombies(self):
        # The daemon's child outlives it, ends, and has nobody but PID 1 to wait for it.
        program = self.folder / "daemon"
        program.write_text(f"""#!/bin/bash
echo "up $PPID" >>{self.log}
if [ ! -e {self.folder}/second ]; then
  touch {self.folder}/second
  sleep 0.2 &
  exit 1
fi
for i in {{1..100}}; do  # until the child has ended
  grep -q "^Name:.sleep" /proc/[0-9]*/status 2>/dev/null || break
  sleep 0.02
done
echo "zombies $(cat /proc/[0-9]*/status | grep -c '^State:.Z')" >>{self.log}
exit 2
""")
        program.chmod(0o755)
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        result = support.run("unshare", *rights, "--pid", "--fork", "--mount-proc", "--kill-child",
                             DOCKER / "init.sh", program)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertEqual(self.log.read_text().splitlines(), ["up 1", "up 1", "zombies 0"])


if __name__ == "__main__":
    support.main()
