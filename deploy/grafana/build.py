#!/usr/bin/env python3
"""Turns sources/*.yml into the dashboards that Grafana loads, dashboards/*.json.

    build.py           writes them
    build.py --check   exits 1 when one differs from what its source gives

A source lists rows of panels. $jobs and $rank stand for the label filters of job-wide series and of
series of a rank. `may_be_empty` marks panels that a short healthy run leaves without data.
"""
import json
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
FILTERS = {
    "$jobs": 'job_id=~"$job"',
    "$rank": 'job_id=~"$job", worker=~"$worker", device=~"$device", rank!=""',
}
DEFAULT_HEIGHT = {"stat": 5, "bargauge": 7, "timeseries": 8, "heatmap": 9, "table": 5}
COLUMNS = 24


def expand(expression):
    for name, labels in FILTERS.items():
        expression = expression.replace(name, labels)
    return expression


def thresholds(panel):
    steps = [{"color": "green", "value": None}]
    if "thresholds_below" in panel:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel["thresholds_below"][0]}]
    elif "thresholds" in panel:
        warn, fail = panel["thresholds"]
        if warn < fail:
            steps.append({"color": "orange", "value": warn})
        steps.append({"color": "red", "value": fail})
    return {"mode": "absolute", "steps": steps}


def field_config(panel):
    defaults = {"unit": panel["unit"], "thresholds": thresholds(panel),
                "color": {"mode": "thresholds" if panel["type"] in ("stat", "bargauge") else "palette-classic"}}
    if panel["unit"] in ("bytes", "percentunit", "s"):
        defaults["min"] = 0
    if panel["title"] == "Measured above the plan":
        del defaults["min"]
    if "max" in panel:
        defaults["max"] = panel["max"]
    if panel["type"] == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line", "lineWidth": 1, "fillOpacity": 25 if panel.get("stack") else 5,
            "showPoints": "never", "spanNulls": False,
            "stacking": {"mode": "normal" if panel.get("stack") else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if "thresholds" in panel else "off"},
        }
    return {"defaults": defaults, "overrides": []}


def options(kind):
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    return {
        "stat": {"reduceOptions": reduce, "colorMode": "value", "graphMode": "area",
                 "textMode": "auto", "orientation": "auto", "justifyMode": "auto"},
        "bargauge": {"reduceOptions": reduce, "displayMode": "basic", "orientation": "horizontal",
                     "showUnfilled": True},
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                       "tooltip": {"mode": "multi", "sort": "desc"}},
        "heatmap": {"calculate": False, "cellGap": 1, "yAxis": {"axisPlacement": "left"},
                    "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                    "tooltip": {"show": True, "yHistogram": True}},
        "table": {"showHeader": True},
    }[kind]


def targets(panel):
    instant = panel["type"] in ("bargauge", "table")
    result = []
    for index, query in enumerate(panel["queries"]):
        result.append({
            "refId": chr(ord("A") + index), "datasource": DATASOURCE, "expr": expand(query["expr"]),
            "legendFormat": query["legend"], "instant": instant, "range": not instant, "editorMode": "code",
            "format": {"heatmap": "heatmap", "table": "table"}.get(panel["type"], "time_series"),
        })
    return result


def build_panel(panel, number, grid):
    return {
        "id": number, "title": panel["title"], "type": panel["type"],
        "description": panel.get("help", ""), "datasource": DATASOURCE, "gridPos": grid,
        "fieldConfig": field_config(panel), "options": options(panel["type"]),
        "targets": targets(panel),
    }


def build_panels(rows):
    panels, y = [], 0
    for row in rows:
        panels.append({"id": len(panels) + 1, "title": row["title"], "type": "row", "collapsed": False,
                       "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y}, "panels": []})
        y, x, line = y + 1, 0, 0
        for panel in row["panels"]:
            width = panel["width"]
            if x + width > COLUMNS:
                y, x, line = y + line, 0, 0
            height = panel.get("height", DEFAULT_HEIGHT[panel["type"]])
            panels.append(build_panel(panel, len(panels) + 1, {"h": height, "w": width, "x": x, "y": y}))
            x, line = x + width, max(line, height)
        y += line
    return panels


def query_variable(name, label, query, regex=""):
    return {
        "name": name, "label": label, "type": "query", "datasource": DATASOURCE,
        "query": {"query": query, "refId": name}, "definition": query, "regex": regex,
        "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"], "selected": True}, "options": [], "hide": 0,
    }


def variables():
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
         "current": {}, "options": [], "refresh": 1, "regex": "", "multi": False,
         "includeAll": False, "hide": 0},
        query_variable("job", "Job", "query_result(count by (job_id, job_name) (coat_train_step))",
                       '/job_id="(?<value>[^"]+)".*job_name="(?<text>[^"]+)"/'),
        query_variable("worker", "Worker", "label_values(coat_worker_heartbeat_age_seconds, worker)"),
        query_variable("device", "Device",
                       'label_values(coat_device_memory_total_bytes{job_id=~"$job", worker=~"$worker"}, device)'),
    ]


def annotation(name, color, expression, text):
    return {"name": name, "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": color,
            "expr": expression, "step": "60s", "titleFormat": name, "textFormat": text,
            "tagKeys": "job_name", "useValueForTime": False}


def annotations():
    return {"list": [
        annotation("Checkpoint", "green", 'changes(coat_checkpoint_last_step{job_id=~"$job"}[1m]) > 0',
                   "{{job_name}}: checkpoint committed"),
        annotation("Restart", "red", 'changes(coat_job_restarts_total{job_id=~"$job"}[1m]) > 0',
                   "{{job_name}}: started again"),
    ]}


def build(source):
    return {
        "uid": source["uid"], "title": source["title"], "tags": ["coatrack"], "id": None,
        "schemaVersion": 39, "version": 1, "editable": False, "graphTooltip": 1, "style": "dark",
        "timezone": "browser", "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()}, "annotations": annotations(),
        "links": [{"type": "dashboards", "title": "Coatrack", "tags": ["coatrack"], "asDropdown": True,
                   "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "external link",
                   "tooltip": "", "url": ""}],
        "panels": build_panels(source["rows"]),
    }


def rendered():
    """{path of the dashboard: its text}"""
    result = {}
    for path in sorted((HERE / "sources").glob("*.yml")):
        text = json.dumps(build(yaml.safe_load(path.read_text())), indent=2) + "\n"
        result[HERE / "dashboards" / (path.stem + ".json")] = text
    return result


def main():
    check = sys.argv[1:] == ["--check"]
    stale = [path for path, text in rendered().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"build.py: {path.name} is not what its source gives; run build.py", file=sys.stderr)
        else:
            path.write_text(rendered()[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
