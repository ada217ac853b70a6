"""Kubernetes: overlays render, fit the schemas of two versions, and keep the house rules."""
import functools
import importlib
import re
import unittest

import support
import yaml

FOLDER = support.DEPLOY / "kubernetes"
OVERLAYS = ("cpu-demo", "gpu", "ha-ready")
OLD_VERSION = (1, 25)
MARGIN_S = 15  # for the daemon's own end, and to deliver what ranks reported
CUSTOM = {"PodMonitor", "PrometheusRule"}


@functools.lru_cache(maxsize=None)
def render(overlay):
    result = support.run(support.tool("kubectl"), "kustomize", FOLDER / "overlays" / overlay)
    if result.returncode != 0:
        raise AssertionError(f"{overlay}: {result.stderr}")
    return [document for document in yaml.safe_load_all(result.stdout) if document]


def of_kind(overlay, kind):
    return [document for document in render(overlay) if document["kind"] == kind]


def workloads(overlay):
    return [d for d in render(overlay) if "template" in d.get("spec", {})]


def pods(overlay):
    return [(f'{overlay}/{d["metadata"]["name"]}', d["spec"]["template"]["spec"])
            for d in workloads(overlay)]


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m|h)", text).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def config(overlay, name):
    for document in of_kind(overlay, "ConfigMap"):
        if document["metadata"]["name"].startswith(name):
            return yaml.safe_load(next(iter(document["data"].values())))
    raise AssertionError(f"{overlay}: no ConfigMap {name}")


def schemas():
    """Skips the calling case, visibly, where the schemas could not be installed."""
    try:
        return importlib.import_module("kubernetes_validate")
    except ModuleNotFoundError as error:
        raise unittest.SkipTest("NOT RUN: the pip package kubernetes-validate is missing") from error


def versions():
    """An older and the newest Kubernetes version that the schemas know."""
    known = [tuple(int(x) for x in v.split(".")[:2]) for v in schemas().utils.all_versions()]
    return sorted({min(v for v in known if v >= OLD_VERSION), max(known)})


class Kubernetes(unittest.TestCase):
    def setUp(self):
        support.needs_kubectl()

    def each_pod(self):
        for overlay in OVERLAYS:
            yield from pods(overlay)

    def test_schemas(self):
        self.assertEqual(len(versions()), 2)
        checked = 0
        for overlay in OVERLAYS:
            for document in render(overlay):
                if document["kind"] in CUSTOM:
                    continue
                for major, minor in versions():
                    schemas().validate(document, f"{major}.{minor}", strict=True)
                    checked += 1
        print(f"{checked} validations, versions {versions()}")
        self.assertGreater(checked, 60)

    def test_schemas_refuse_a_wrong_field(self):
        document = dict(of_kind("gpu", "DaemonSet")[0], spec={"templates": {}})
        with self.assertRaises(schemas().ValidationError):
            schemas().validate(document, "%d.%d" % versions()[-1], strict=True)

    def test_pods_run_without_rights(self):
        for name, pod in self.each_pod():
            context = pod["securityContext"]
            self.assertTrue(context["runAsNonRoot"], name)
            self.assertGreater(context["runAsUser"], 0, name)
            self.assertEqual(context["seccompProfile"]["type"], "RuntimeDefault", name)
            self.assertFalse(pod["automountServiceAccountToken"], name)
            self.assertFalse(pod.get("hostNetwork") or pod.get("hostPID") or pod.get("hostIPC"))
            self.assertNotIn("initContainers", pod)
            for container in pod["containers"]:
                context = container["securityContext"]
                self.assertTrue(context["readOnlyRootFilesystem"], name)
                self.assertFalse(context["allowPrivilegeEscalation"], name)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, name)
                self.assertNotIn("privileged", context)

    def test_probes_ask_the_health_port(self):
        services = {"coat-server": "coatrack.v1.JobService", "coat-worker": "coatrack.v1.WorkerService"}
        for name, pod in self.each_pod():
            container = pod["containers"][0]
            port = next(p["containerPort"] for p in container["ports"] if p["name"] == "health")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertEqual(container[probe]["grpc"]["port"], port, f"{name} {probe}")
            self.assertEqual(container["readinessProbe"]["grpc"]["service"], services[container["name"]])

    def test_requests_and_limits(self):
        for name, pod in self.each_pod():
            resources = pod["containers"][0]["resources"]
            self.assertLessEqual({"cpu", "memory"}, set(resources["limits"]), name)
            self.assertLessEqual({"cpu", "memory"}, set(resources["requests"]), name)

    def test_gpus_stand_in_the_limits_of_gpu_overlays_alone(self):
        for overlay in OVERLAYS:
            limits = of_kind(overlay, "DaemonSet")[0]["spec"]["template"]["spec"]["containers"][0][
                "resources"]["limits"]
            self.assertEqual("nvidia.com/gpu" in limits, overlay != "cpu-demo", overlay)

    def test_grace_period_covers_a_checkpoint(self):
        for overlay in OVERLAYS:
            pod = of_kind(overlay, "DaemonSet")[0]["spec"]["template"]["spec"]
            drain = seconds(config(overlay, "coatrack-worker")["drain_grace"])
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], drain + MARGIN_S)
            self.assertEqual(seconds(config(overlay, "coatrack-server")["grace"]), drain)

    def test_there_is_one_coordinator_and_nothing_rolls(self):
        for overlay in OVERLAYS:
            (server,) = of_kind(overlay, "StatefulSet")
            self.assertEqual(server["spec"]["replicas"], 1)
            self.assertEqual(server["spec"]["updateStrategy"], {"type": "OnDelete"})
            self.assertEqual(len(server["spec"]["volumeClaimTemplates"]), 1)
            (worker,) = of_kind(overlay, "DaemonSet")
            self.assertEqual(worker["spec"]["updateStrategy"], {"type": "OnDelete"})
            self.assertEqual(of_kind(overlay, "Deployment"), [])

    def test_ha_volume_is_mounted_by_one_pod_only(self):
        (server,) = of_kind("ha-ready", "StatefulSet")
        claim = server["spec"]["volumeClaimTemplates"][0]["spec"]
        self.assertEqual(claim["accessModes"], ["ReadWriteOncePod"])

    def test_disruption_budgets_cannot_block_a_drain(self):
        for overlay in OVERLAYS:
            budgets = of_kind(overlay, "PodDisruptionBudget")
            self.assertEqual(len(budgets), 1)
            for budget in budgets:
                self.assertGreaterEqual(budget["spec"]["maxUnavailable"], 1)
                self.assertNotIn("minAvailable", budget["spec"])

    def test_shared_memory_is_memory(self):
        for overlay in OVERLAYS:
            pod = of_kind(overlay, "DaemonSet")[0]["spec"]["template"]["spec"]
            mounts = {m["mountPath"]: m["name"] for m in pod["containers"][0]["volumeMounts"]}
            volumes = {v["name"]: v for v in pod["volumes"]}
            self.assertEqual(volumes[mounts["/dev/shm"]]["emptyDir"]["medium"], "Memory")

    def test_mounts_have_volumes_and_paths_are_writable(self):
        for overlay in OVERLAYS:
            for document in workloads(overlay):
                pod = document["spec"]["template"]["spec"]
                volumes = {v["name"] for v in pod["volumes"]}
                volumes |= {c["metadata"]["name"] for c in document["spec"].get("volumeClaimTemplates", [])}
                mounts = {m["mountPath"]: m for m in pod["containers"][0]["volumeMounts"]}
                self.assertEqual({m["name"] for m in mounts.values()}, volumes, overlay)
                name = "server" if document["kind"] == "StatefulSet" else "worker"
                settings = config(overlay, f"coatrack-{name}")
                for path in [settings["state_dir"]] + [r["path"] for r in settings.get("roots", [])]:
                    self.assertFalse(mounts[path].get("readOnly"), f"{overlay}: {path}")

    def test_claims_exist(self):
        for overlay in OVERLAYS:
            claims = {d["metadata"]["name"] for d in of_kind(overlay, "PersistentVolumeClaim")}
            used = {v["persistentVolumeClaim"]["claimName"] for _, pod in pods(overlay)
                    for v in pod["volumes"] if "persistentVolumeClaim" in v}
            self.assertEqual(used, claims, overlay)

    def test_host_paths_only_where_the_namespace_allows_them(self):
        for overlay in OVERLAYS:
            host = [v for _, pod in pods(overlay) for v in pod["volumes"] if "hostPath" in v]
            (namespace,) = of_kind(overlay, "Namespace")
            level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
            self.assertEqual(level, "privileged" if host else "restricted", overlay)
            allowed = {"/var/lib/coatrack/worker", "/var/lib/dcgm-exporter/job-mapping"}
            self.assertEqual({v["hostPath"]["path"] for v in host}, allowed if host else set())

    def test_the_job_mapping_folder_is_shared_with_the_host(self):
        for overlay in OVERLAYS:
            pod = of_kind(overlay, "DaemonSet")[0]["spec"]["template"]["spec"]
            args = pod["containers"][0]["args"]
            self.assertEqual("--dcgm-job-dir" in args, overlay != "cpu-demo", overlay)
            if overlay == "cpu-demo":
                continue
            path = args[args.index("--dcgm-job-dir") + 1]
            mounts = {m["mountPath"]: m for m in pod["containers"][0]["volumeMounts"]}
            self.assertFalse(mounts[path].get("readOnly"), overlay)
            volume = next(v for v in pod["volumes"] if v["name"] == mounts[path]["name"])
            self.assertEqual(volume["hostPath"]["path"], path, "the exporter mounts it from the host")

    def test_ports_are_those_of_the_configuration(self):
        for overlay in OVERLAYS:
            for document in workloads(overlay):
                name = "server" if document["kind"] == "StatefulSet" else "worker"
                settings = config(overlay, f"coatrack-{name}")
                container = document["spec"]["template"]["spec"]["containers"][0]
                listened = {int(value.rsplit(":", 1)[1]) for key, value in settings.items()
                            if key in ("listen", "health_listen", "metrics_listen")}
                self.assertEqual({p["containerPort"] for p in container["ports"]}, listened, overlay)
            server = config(overlay, "coatrack-worker")["server"]
            services = {d["metadata"]["name"]: d["spec"] for d in of_kind(overlay, "Service")}
            host, port = server.split(":")
            self.assertEqual(services[host]["ports"][0]["port"], int(port))

    def test_selectors_find_the_pods(self):
        for overlay in OVERLAYS:
            labels = {d["kind"]: d["spec"]["template"]["metadata"]["labels"] for d in workloads(overlay)}
            for service in of_kind(overlay, "Service"):
                self.assertLessEqual(service["spec"]["selector"].items(), labels["StatefulSet"].items())
            for monitor in of_kind(overlay, "PodMonitor"):
                kind = "StatefulSet" if monitor["metadata"]["name"] == "coat-server" else "DaemonSet"
                self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(),
                                     labels[kind].items())

    def test_network_is_closed_by_default(self):
        for overlay in OVERLAYS:
            policies = {d["metadata"]["name"]: d["spec"] for d in of_kind(overlay, "NetworkPolicy")}
            deny = policies["coatrack-default-deny"]
            self.assertEqual(deny, {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
            for name in ("coatrack-coordinator", "coatrack-worker"):
                for rule in policies[name]["ingress"]:
                    if "from" not in rule:  # from anywhere: the health port alone
                        self.assertEqual(rule["ports"], [{"protocol": "TCP", "port": 7071}])

    def test_monitoring(self):
        for overlay in ("gpu", "ha-ready"):
            jobs = {r["replacement"] for d in of_kind(overlay, "PodMonitor")
                    for endpoint in d["spec"]["podMetricsEndpoints"]
                    for r in endpoint["relabelings"] if r["targetLabel"] == "job"}
            self.assertEqual(jobs, {"coat-server", "coat-server-jobs", "coat-worker"})
        python = support.TOOLS / "venv/bin/python"
        result = support.run(python, FOLDER / "monitoring/build.py", "--check")
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    support.main()
