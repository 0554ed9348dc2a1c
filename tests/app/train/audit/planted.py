"""Errors that an audit has to find: each makes a run's evidence wrong, as a bug would have made it, and says where it is found."""
import copy
import json
import re

import numpy
import torch

PLANTED = []  # (what is wrong, a part of the finding, the function that plants it)


def planted(what, where):
    def keep(function):
        PLANTED.append((what, where, function))
        return function
    return keep


def values(numbers):
    return {name: number.value for name, number in numbers.items()}


def with_best(evidence):
    """The numbers of models whose best step is not their last one."""
    return [m["model"] for m in evidence.report["models"] if m["best"] and m["best"]["step"] < m["at_step"]]


@planted("test metrics of the last weights", "report.json models.")
def last_for_best(evidence, job, truth):
    m = with_best(evidence)[0]
    evidence.report["models"][m]["test"] = values(truth.scores("last", job.models[m], "test"))


@planted("last metrics for the best ones", "report.json models.")
def last_metrics_for_best(evidence, job, truth):
    m = with_best(evidence)[0]
    evidence.report["models"][m]["best"].update(values(truth.scores("last", job.models[m], "validation")))


@planted("test metrics of another model", "report.json models.")
def another_model(evidence, job, truth):
    models = evidence.report["models"]
    models[0]["test"], models[1]["test"] = models[1]["test"], models[0]["test"]


@planted("a metric of the training rows", "report.json models.0.best.loss")
def training_rows(evidence, job, truth):
    evidence.report["models"][0]["best"]["loss"] = truth.scores("best", job.models[0], "train")["loss"].value


@planted("an unweighted mean instead of a weighted one", "report.json models.0.best.accuracy")
def unweighted(evidence, job, truth):
    part, rows = job.data.rows_of("validation", job.models[0])
    outputs = truth.outputs("best", job.models[0], part, rows)
    evidence.report["models"][0]["best"]["accuracy"] = job.scorer(job.models[0]).metric("accuracy", outputs, part.target[rows], None)


@planted("a best step off by one evaluation", ".best.step")
def best_step(evidence, job, truth):
    evidence.report["models"][with_best(evidence)[0]]["best"]["step"] += job.eval_every


@planted("a model said to stop an evaluation later", ".at_step")
def stopped_later(evidence, job, truth):
    next(m for m in evidence.report["models"] if m["status"] == "stopped")["at_step"] += job.eval_every


@planted("a stopped model called trained", ".status")
def stopped_is_trained(evidence, job, truth):
    next(m for m in evidence.report["models"] if m["status"] == "stopped")["status"] = "trained"


@planted("a mean answer of the last weights", "report.json ensemble.validation")
def ensemble_of_last(evidence, job, truth):
    evidence.report["ensemble"]["validation"] = values(truth.ensemble("validation", "last"))


@planted("a mean answer over logits instead of probabilities", "report.json ensemble.test")
def ensemble_of_logits(evidence, job, truth):
    evidence.report["ensemble"]["test"] = values(truth.ensemble("test", mean=lambda every: [torch.stack(x).mean(0) for x in zip(*every)]))


@planted("rows of all folds weighted as the first model weights classes", "report.json ensemble.validation.loss")
def weights_of_the_first(evidence, job, truth):
    own = job.mean_scorer
    job.mean_scorer = lambda models: own(job.models[:1])
    evidence.report["ensemble"]["validation"] = values(truth.ensemble("validation"))
    del job.mean_scorer


@planted("a mean answer's loss without its models' label smoothing", "report.json ensemble.test.loss")
def not_smoothed(evidence, job, truth):
    scorer = job.mean_scorer

    def plain(models):
        made = scorer(models)
        made.smoothing = 0.0
        return made
    job.mean_scorer = plain
    evidence.report["ensemble"]["test"] = values(truth.ensemble("test"))
    del job.mean_scorer


@planted("a deviation with n instead of n - 1", "report.json configs.0.sd")
def deviation(evidence, job, truth):
    config = evidence.report["configs"][0]
    config["sd"] *= (1 - 1 / config["n"]) ** 0.5


@planted("a median for the interquartile mean", "report.json configs.0.iqm")
def median(evidence, job, truth):
    config = evidence.report["configs"][0]
    config["iqm"] = float(numpy.median([m["best"]["loss"] for m in evidence.report["models"] if m["config"] == 0]))


@planted("an interval of 90 % instead of 95 %", "report.json configs.0.ci95")
def interval(evidence, job, truth):
    config = evidence.report["configs"][0]
    own = numpy.array([m["best"]["loss"] for m in evidence.report["models"]
                       if m["hyperparameters"]["lr"] == config["hyperparameters"]["lr"]])
    means = own[numpy.random.default_rng(0).integers(0, len(own), (40000, len(own)))].mean(1)
    config["ci95"] = [float(v) for v in numpy.quantile(means, [0.05, 0.95])]


@planted("a curve off by one evaluation", "report.json history.")
def curve_shifted(evidence, job, truth):
    rows = evidence.report["history"]
    for later, row in zip(rows[1:], copy.deepcopy(rows)):
        later["train_loss"] = row["train_loss"]


@planted("seeds of a neighbour", "report.json models.0.seeds")
def seeds(evidence, job, truth):
    evidence.report["models"][0]["seeds"]["order"] = evidence.report["models"][1]["seeds"]["order"]


@planted("the learning rate of another configuration", "report.json models.")
def learning_rate(evidence, job, truth):
    models = evidence.report["models"]
    models[0]["hyperparameters"]["lr"] = models[-1]["hyperparameters"]["lr"]


@planted("a field that nobody knows", "report.json models.0.more: is in none of the three classes")
def unknown_field(evidence, job, truth):
    evidence.report["models"][0]["more"] = 1.0


@planted("a field that lacks", "report.json data.rows: is missing")
def lacking_field(evidence, job, truth):
    del evidence.report["data"]["rows"]


@planted("the last checkpoint under best/", "checkpoints best/")
def last_under_best(evidence, job, truth):
    m = with_best(evidence)[0]
    evidence.checkpoints["best", m] = evidence.checkpoints["last", m]


@planted("columns of models.csv swapped", "models.csv 0.best.")
def swapped_table(evidence, job, truth):
    row = evidence.models_csv[0]
    row["best.loss"], row["best.accuracy"] = row["best.accuracy"], row["best.loss"]


@planted("columns of predictions swapped", "predict 0")
def swapped_predictions(evidence, job, truth):
    evidence.predictions[0].values[:, [1, 2]] = evidence.predictions[0].values[:, [2, 1]]


@planted("predictions of the last weights", "predict 0")
def predictions_of_last(evidence, job, truth):
    part = job.rows_to_predict(evidence.predictions[0].file)
    each = [job.scorer(m).probabilities(truth.outputs("last", m, part, list(range(part.count)))[0]) for m in truth.answering()]
    evidence.predictions[0].values[:, 1:] = torch.stack(each).mean(0)


@planted("a deviation of predictions with n instead of n - 1", "predict 1 --reduce std")
def deviation_of_predictions(evidence, job, truth):
    evidence.predictions[1].values = evidence.predictions[1].values * (1 - 1 / len(job.models)) ** 0.5


@planted("a fold shifted", "oof.npz fold")
def fold_shifted(evidence, job, truth):
    fold = evidence.oof["fold"]
    evidence.oof["fold"] = numpy.where(fold < 0, fold, (fold + 1) % job.data.folds)


@planted("out-of-fold predictions by a model that saw the rows", "oof.npz prediction")
def seen_rows(evidence, job, truth):
    rows = job.data.validation[0]
    outputs = truth.outputs("best", job.models[1], job.data.main, rows)
    evidence.oof["prediction"][0, rows] = job.scorer(job.models[1]).probabilities(outputs[0])


@planted("an out-of-fold prediction of a test row", "oof.npz prediction")
def test_row(evidence, job, truth):
    evidence.oof["prediction"][0, job.data.test[0]] = 1 / evidence.oof["prediction"].shape[2]


@planted("a test row in a fold", "split.npz fold")
def torn_split(evidence, job, truth):
    evidence.split["fold"][job.data.test[0]] = 0


@planted("a row of the log that lacks", "log")
def log_lacks(evidence, job, truth):
    del evidence.log[3]


@planted("a row of the log that is there twice", "log")
def log_twice(evidence, job, truth):
    evidence.log.insert(3, evidence.log[3])


@planted("a number of the store from another step", "store metrics.")
def store_step(evidence, job, truth):
    rows = [row for row in evidence.store["metrics"] if row["metric"] == "loss" and row["model"] == 0]
    rows[0]["value"] = rows[1]["value"]


@planted("a run that the store has as it began", "store run.more")
def store_began(evidence, job, truth):
    more = json.loads(evidence.store["run"]["more"])
    more["configs"] = []
    evidence.store["run"]["more"] = json.dumps(more)


@planted("runs compared by place instead of pairs", "compare --json change.sd")
def compared_by_place(evidence, job, truth):
    said = json.loads(evidence.said["compare_json"])
    was = sorted(m["best"]["loss"] for m in evidence.report["models"])
    said["change"]["sd"] = float(numpy.std(numpy.array(was) - was[::-1], ddof=1))
    evidence.said["compare_json"] = json.dumps(said)


@planted("a verdict against its interval", "compare --json verdict")
def verdict(evidence, job, truth):
    said = json.loads(evidence.said["compare_json"])
    said["verdict"] = {"BETTER": "SAME", "WORSE": "BETTER", "SAME": "WORSE"}[said["verdict"]]
    evidence.said["compare_json"] = json.dumps(said)


@planted("a mean of other digits in the text", "report 2")
def text_digits(evidence, job, truth):
    mean = f"{evidence.report['configs'][0]['mean']:.4g}"
    evidence.said["text"] = evidence.said["text"].replace(mean, f"{1.01 * float(mean):.4g}")


@planted("means of two configurations exchanged", "report --by")
def exchanged(evidence, job, truth):
    said = json.loads(evidence.said["by_json"])
    first, second = said["configs"][:2]
    first["mean"], second["mean"] = second["mean"], first["mean"]
    evidence.said["by_json"] = json.dumps(said)


@planted("two rows of the page's table swapped", "report --html table")
def page_rows(evidence, job, truth):
    before, models = evidence.said["html"].split('<table data-kind="models">')
    head, first, second, rest = re.fullmatch(r"(.*<tbody>\s*)(<tr>.*?</tr>\s*)(<tr>.*?</tr>\s*)(.*)", models, re.S).groups()
    evidence.said["html"] = before + '<table data-kind="models">' + head + second + first + rest


@planted("a mean of the page's table of the last weights", "report --html configurations")
def page_mean(evidence, job, truth):
    mean = f"{evidence.report['configs'][0]['mean']:.4g} ±"
    evidence.said["html"] = evidence.said["html"].replace(mean, f"{1.01 * evidence.report['configs'][0]['mean']:.4g} ±")


@planted("a configuration's median drawn an evaluation too late", "report --html curves.")
def page_median(evidence, job, truth):
    before, _, group = evidence.said["html"].partition('data-kind="group"')
    points = re.search(r'<polyline points="([^"]*)"', group)[1].split()
    moved = [f"{a.split(',')[0]},{b.split(',')[1]}" for a, b in zip(points, points[:1] + points)]
    evidence.said["html"] = before + 'data-kind="group"' + group.replace(" ".join(points), " ".join(moved), 1)


@planted("a curve of the page drawn an evaluation too late", "report --html curves.")
def page_curve(evidence, job, truth):
    points = re.search(r'points="([^"]*)"', evidence.said["html"])[1].split()
    moved = [f"{a.split(',')[0]},{b.split(',')[1]}" for a, b in zip(points, points[:1] + points)]
    evidence.said["html"] = evidence.said["html"].replace(" ".join(points), " ".join(moved), 1)
