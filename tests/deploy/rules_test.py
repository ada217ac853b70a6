"""Prometheus: configuration, recording and alert rules."""
import unittest

import support
import yaml

FOLDER = support.DEPLOY / "prometheus"


def alerts():
    text = yaml.safe_load((FOLDER / "alert_rules.yml").read_text())
    return [rule for group in text["groups"] for rule in group["rules"]]


class Rules(unittest.TestCase):
    def test_promtool_accepts_the_configuration(self):
        result = support.run(support.tool("promtool"), "check", "config", FOLDER / "prometheus.yml")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_rules_do_what_their_unit_tests_say(self):
        tests = support.ROOT / "tests/deploy/rules_test.yml"
        result = support.run(support.tool("promtool"), "test", "rules", tests)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_every_alert_fires_in_a_unit_test(self):
        text = (support.ROOT / "tests/deploy/rules_test.yml").read_text()
        for alert in alerts():
            self.assertIn(f'alertname="{alert["alert"]}"', text)

    def test_every_alert_is_explained(self):
        page = (support.DEPLOY / "operations.md").read_text()
        for alert in alerts():
            name = alert["alert"]
            self.assertIn(f"| `{name}` |", page, "operations.md says nothing about it")
            self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"), name)
            self.assertEqual(set(alert["annotations"]), {"summary", "description"}, name)

    def test_rules_read_exported_metrics_only(self):
        exported = support.exported_metrics()
        recorded = support.recorded_metrics(yaml)
        self.assertGreater(len(exported), 30)
        for file in ("recording_rules.yml", "alert_rules.yml"):
            for group in yaml.safe_load((FOLDER / file).read_text())["groups"]:
                for rule in group["rules"]:
                    self.assertEqual(
                        support.unknown_names(rule["expr"], exported, recorded), [], rule)

    def test_an_unknown_metric_is_noticed(self):
        exported = support.exported_metrics()
        self.assertEqual(support.unknown_names("rate(coat_no_such_total[5m])", exported, set()),
                         ["coat_no_such_total"])
        self.assertEqual(exported["coat_optimizer_expansion_k"], "histogram")
        self.assertEqual(exported["coat_store_commit_seconds"], "histogram")
        self.assertEqual(exported["coat_leader"], "gauge")

    def test_job_names_are_those_that_rules_and_dashboards_use(self):
        config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
        jobs = {job["job_name"]: job["metrics_path"] for job in config["scrape_configs"]}
        self.assertEqual(jobs, {"coat-server": "/metrics", "coat-server-jobs": "/metrics/jobs",
                                "coat-worker": "/metrics"})
        for target in yaml.safe_load((FOLDER / "targets/workers.yml").read_text()):
            self.assertEqual(list(target["labels"]), ["worker"])


if __name__ == "__main__":
    support.main()
