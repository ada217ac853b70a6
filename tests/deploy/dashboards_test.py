"""Grafana: the dashboards are what their sources give, well-formed, and ask for what exists."""
import json
import re
import tempfile
import unittest

import support
import yaml

FOLDER = support.DEPLOY / "grafana"
UNITS = {"bytes", "percentunit", "s", "none", "sci", "ops", "reqps", "watt"}
TYPES = {"row", "stat", "bargauge", "timeseries", "heatmap", "table"}
UIDS = {"memory": "coat-memory", "training": "coat-training", "fp8": "coat-fp8",
        "fleet": "coat-fleet"}


def dashboards():
    return {path.stem: json.loads(path.read_text()) for path in (FOLDER / "dashboards").glob("*.json")}


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def concrete(expression):
    """As Grafana sends it with "All" chosen everywhere."""
    text = expression.replace("$__rate_interval", "1m")
    return re.sub(r"\$(job|worker|device)\b", ".*", text)


def expressions(board):
    for panel in panels(board):
        for target in panel["targets"]:
            yield f'{board["title"]} / {panel["title"]}', target["expr"]
    for note in board["annotations"]["list"]:
        yield f'{board["title"]} / {note["name"]}', note["expr"]


class Dashboards(unittest.TestCase):
    def test_committed_equals_generated(self):
        result = support.run(support.TOOLS / "venv/bin/python", FOLDER / "build.py", "--check")
        self.assertEqual(result.returncode, 0, result.stderr)
        sources = {path.stem for path in (FOLDER / "sources").glob("*.yml")}
        self.assertEqual(sources, set(dashboards()))

    def test_uids_are_fixed(self):
        self.assertEqual({name: board["uid"] for name, board in dashboards().items()}, UIDS)

    def test_variables(self):
        for board in dashboards().values():
            names = [variable["name"] for variable in board["templating"]["list"]]
            self.assertEqual(names, ["datasource", "job", "worker", "device"])
            self.assertEqual(board["templating"]["list"][0]["type"], "datasource")
            used = set(re.findall(r"\$(\w+)", " ".join(text for _, text in expressions(board))))
            self.assertLessEqual(used, {"job", "worker", "device", "__rate_interval"})

    def test_panels_have_ids_units_and_places(self):
        for board in dashboards().values():
            ids = [panel["id"] for panel in board["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            taken = set()
            for panel in board["panels"]:
                self.assertIn(panel["type"], TYPES)
                grid = panel["gridPos"]
                self.assertLessEqual(grid["x"] + grid["w"], 24, panel["title"])
                cells = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"])
                         for y in range(grid["y"], grid["y"] + grid["h"])}
                self.assertFalse(cells & taken, f'{panel["title"]} overlaps another panel')
                taken |= cells
            for panel in panels(board):
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, panel["title"])
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                refs = [target["refId"] for target in panel["targets"]]
                self.assertTrue(refs and len(refs) == len(set(refs)), panel["title"])
                self.assertTrue(panel["title"] and "description" in panel)

    def test_units_follow_the_names(self):
        for board in dashboards().values():
            for panel in panels(board):
                unit = panel["fieldConfig"]["defaults"]["unit"]
                for target in panel["targets"]:
                    if re.match(r"^(max |sum |max|sum)?(by \(\w+\) )?\(?coat_\w*memory\w*bytes", target["expr"]):
                        self.assertEqual(unit, "bytes", panel["title"])

    def test_memory_turns_orange_at_90_and_red_at_95_percent(self):
        found = 0
        for board in dashboards().values():
            for panel in panels(board):
                if "rank:coat_device_memory_used:ratio" not in panel["targets"][0]["expr"]:
                    continue
                found += 1
                steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
                self.assertEqual([(s["color"], s["value"]) for s in steps],
                                 [("green", None), ("orange", 0.9), ("red", 0.95)])
        self.assertEqual(found, 2)

    def test_annotations(self):
        for board in dashboards().values():
            names = [note["name"] for note in board["annotations"]["list"]]
            self.assertEqual(names, ["Checkpoint", "Restart"])

    def test_expressions_read_exported_metrics_only(self):
        exported = support.exported_metrics()
        recorded = support.recorded_metrics(yaml)
        for board in dashboards().values():
            for place, text in expressions(board):
                self.assertEqual(support.unknown_names(text, exported, recorded), [], place)
                self.assertTrue(support.names_in(text), place)

    def test_expressions_parse(self):
        rules, places = [], []
        for board in dashboards().values():
            for place, text in expressions(board):
                places.append(place)
                rules.append({"record": "check", "expr": concrete(text),
                              "labels": {"number": str(len(rules))}})
        self.assertGreater(len(rules), 60)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
            file.flush()
            result = support.run(support.tool("promtool"), "check", "rules", file.name)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_provisioning_names_what_is_there(self):
        provider = yaml.safe_load((FOLDER / "provisioning/dashboards.yml").read_text())
        path = provider["providers"][0]["options"]["path"]
        compose = (support.DEPLOY / "compose/compose.yaml").read_text()
        self.assertIn(f"../grafana/dashboards:{path}:ro", compose)
        source = yaml.safe_load((FOLDER / "provisioning/datasource.yml").read_text())
        self.assertEqual(source["datasources"][0]["url"], "http://prometheus:9090")
        self.assertIn("prometheus", yaml.safe_load(compose)["services"])


if __name__ == "__main__":
    support.main()
