"""All that a run left behind and all that the program says of it, as data that a test can alter."""
import csv
import glob
import io
import json
import os
import re
import sqlite3
import struct

import numpy
from safetensors.torch import load_file


class Prediction:
    """What `predict` wrote for the rows of one file, and the line that it printed."""

    def __init__(self, file, options, values, head, line):
        self.file, self.options, self.values, self.head, self.line = file, options, values, head, line


class Evidence:
    """`report` is report.json; `said`: what `report`, `compare` and `train` print or write, by name."""

    def __init__(self, folder, printed):
        self.folder = folder
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            self.report = json.load(file)
        with open(os.path.join(folder, "models.csv"), newline="", encoding="utf-8") as file:
            self.models_csv = list(csv.DictReader(file))
        self.split = arrays(os.path.join(folder, "split.npz"))
        self.oof = arrays(os.path.join(folder, "oof.npz")) if os.path.exists(os.path.join(folder, "oof.npz")) else None
        self.checkpoints = {(kind, int(re.search(r"model-(\d+)", path)[1])): load_file(path) for kind in ("best", "last")
                            for path in glob.glob(os.path.join(folder, kind, "model-*.safetensors"))}
        self.files = set(self.checkpoints)
        for key, state in saved_states(os.path.join(folder, "run.safetensors"), self.report, self.checkpoints).items():
            self.checkpoints.setdefault(key, state)
        self.said = {"train": printed}
        self.log = self.store = self.other = None
        self.predictions = []


def saved_states(path, report, checkpoints):
    """The weights of all models, by (kind, model): --keep leaves some without a file of their own."""
    saved, like, states = load_file(path), next(iter(checkpoints.values()), {}), {}
    for m, said in enumerate(report["models"]):
        for kind in ("best", "last") if said["best"] else ("last",):
            own = {}
            for name, shape in like.items():
                prefixes = ("best.",) if kind == "best" else ("ema.", "weight.")
                tensor = next(saved[prefix + name] for prefix in prefixes if prefix + name in saved)
                own[name] = tensor if tensor.shape == shape.shape else tensor[m].clone()
            states[kind, m] = own
    return states


def arrays(path):
    with numpy.load(path) as file:
        return {name: file[name] for name in file.files}


def other_run(report):
    """A run to compare with, as a report: the same models, each better or worse by a number of its own, one of other seeds."""
    other = json.loads(json.dumps(report))
    random = numpy.random.default_rng(len(report["models"]))
    name = report["monitor"]["name"]
    for model in other["models"]:
        if model["best"]:
            model["best"][name] += float(random.normal(0.02, 0.05))
    compared = [model for model in other["models"] if model["best"] and model["status"] != "pruned"]
    if len(compared) > 1:
        compared[-1]["seeds"]["init"] += 1000
    return other


def gather(folder, printed, job, run, scratch, predicted=()):
    """`run(*arguments)`: calls the program and returns what it printed; `predicted`: (file, options) for `predict`."""
    evidence = Evidence(folder, printed)
    options, said = job.asked.options, evidence.said
    key = next(iter(sorted(job.asked.varied_settings())), "lr") if not options.grid else options.grid[0].split("=")[0]
    evidence.by = key if key in job.models[0].hyper else "lr"
    page = os.path.join(scratch, "page.html")
    table, full = os.path.join(scratch, "table.csv"), os.path.join(scratch, "full.json")
    said["text"] = run("report", folder)
    run("report", folder, "--csv", table, "--html", page, "--json", full)
    for name, path in (("csv", table), ("html", page), ("json", full)):
        with open(path, encoding="utf-8") as file:
            said[name] = file.read()
    said["by"] = run("report", folder, "--by", evidence.by)
    said["by_json"] = run("report", folder, "--by", evidence.by, "--json", "-")
    if options.db:
        said["stored_json"] = run("report", "run:" + evidence.report["run"]["id"], "--json", "-", "--db", options.db)
        evidence.store = stored(options.db, int(evidence.report["run"]["id"]))
    if job.validated and any(m["best"] for m in evidence.report["models"]):
        evidence.other = other_run(evidence.report)
        other = os.path.join(scratch, "other.json")
        with open(other, "w", encoding="utf-8") as file:
            json.dump(evidence.other, file)
        compared = os.path.join(scratch, "compared.json")
        said["compare"] = run("compare", folder, other, "--json", compared)
        with open(compared, encoding="utf-8") as file:
            said["compare_json"] = file.read()
    if options.log:
        evidence.log = logged(options.log)
    for i, (file, more) in enumerate(predicted):
        extension = (".csv", ".npz", ".safetensors")[i % 3]
        out = os.path.join(scratch, f"predicted-{i}{extension}")
        line = run("predict", folder, "--data", file, "--out", out, *more)
        evidence.predictions.append(Prediction(file, more, *predicted_values(out), line))
    return evidence


def predicted_values(path):
    """(values, the names of a CSV's columns or None)."""
    if path.endswith(".csv"):
        with open(path, newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        return numpy.array([[float(cell) for cell in row] for row in rows]), head
    if path.endswith(".npz"):
        return arrays(path)["prediction"], None
    return load_file(path)["prediction"].numpy(), None


def stored(path, run):
    """The rows of the store that belong to a run, by table."""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row

        def rows(query, number):
            return [dict(row) for row in db.execute(query, (number,))]
        head = rows("SELECT * FROM run WHERE id = ?", run)[0]
        return {"run": head,
                "environment": rows("SELECT * FROM environment WHERE id = ?", head["environment"])[0],
                "models": rows("SELECT * FROM run_model WHERE run = ? ORDER BY model", run),
                "metrics": rows("SELECT * FROM run_metric WHERE run = ? ORDER BY step, model, metric", run),
                "events": rows("SELECT * FROM run_event WHERE run = ? ORDER BY id", run)}


def logged(path):
    """Rows of a --log file as dictionaries, or of TensorBoard's folder by model."""
    if path.endswith(".csv"):
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    if path.endswith(".jsonl"):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    models = {}
    for folder in sorted(os.listdir(path)):
        with open(os.path.join(path, folder, os.listdir(os.path.join(path, folder))[0]), "rb") as file:
            models[int(folder.rpartition("-")[2])] = [event(body) for body in records(file.read())]
    return models


def records(data):
    """Bodies of a file of TFRecords; their checksums are another test's."""
    stream = io.BytesIO(data)
    while head := stream.read(12):
        length, = struct.unpack("<Q", head[:8])
        yield stream.read(length)
        stream.read(4)


def fields(data):
    """(number, value) of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            form = {1: "<d", 5: "<f"}[key & 7]
            yield key >> 3, struct.unpack_from(form, data, at)[0]
            at += struct.calcsize(form)


def event(body):
    """{time, step, version, values, hyperparameters} of one of TensorBoard's events."""
    made = {"time": None, "step": 0, "version": None, "values": {}, "hyperparameters": None}
    for number, value in fields(body):
        if number == 1:
            made["time"] = value
        elif number == 2:
            made["step"] = value
        elif number == 3:
            made["version"] = value.decode()
        elif number == 5:
            for _, one in fields(value):
                parts = dict(fields(one))
                if 2 in parts:
                    made["values"][parts[1].decode()] = parts[2]
                else:
                    content = dict(fields(dict(fields(parts[9]))[1]))[2]
                    session = list(fields(dict(fields(content))[3]))
                    entries = [dict(fields(entry)) for number, entry in session if number == 1]
                    made["hyperparameters"] = {e[1].decode(): dict(fields(e[2])).popitem()[1] for e in entries}
    return made
