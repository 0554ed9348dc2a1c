"""The keyword arguments of nw.train, and the options of `workbench train` that they become."""

import dataclasses
import difflib
import math
import numbers
import os
import re

from ..errors import fail
from .values import Range, Together, count_of, is_list, number_text, plain, text_of

# Options that each model may have its own value of: the names in Python and in the command.
KEYS = {name: name for name in ("lr", "weight_decay", "momentum", "nesterov", "dampening", "beta1", "beta2", "eps",
                                "alpha", "clip", "label_smoothing", "dropout", "ema", "seed", "epochs")}
KEYS.update(seed_init="seed.init", seed_order="seed.order", seed_dropout="seed.dropout")
OPTIONS_OF_THEIR_OWN = ("lr", "weight_decay", "momentum")  # others are given by --set
# One value for all models of a run; a list starts one run for each value.
EACH = {"batch": "--batch", "optimizer": "--optimizer", "loss": "--loss", "schedule": "--schedule", "warmup": "--warmup",
        "steps": "--steps"}
# One value for all runs.
VALUES = {"seeds": "--seeds", "n": "--n", "folds": "--folds", "output": "--output", "order": "--order",
          "monitor": "--monitor", "eval_every": "--eval-every", "patience": "--patience", "min_delta": "--min-delta",
          "prune": "--prune", "save_every": "--save-every", "keep": "--keep", "check": "--check", "threads": "--threads",
          "dtype": "--dtype", "log": "--log", "unstack": "--unstack", "name": "--name", "db": "--db", "init": "--init",
          "plan": "--plan", "device": "--device"}
LISTS = {"metrics": "--metric", "augment": "--augment", "freeze": "--freeze", "no_decay": "--no-decay", "export": "--export"}
FLAGS = {"same_order": "--same-order", "drop_last": "--drop-last", "exact": "--exact", "no_save": "--no-save",
         "no_store": "--no-store", "overwrite": "--overwrite"}
PAIRS = {"normalize": "--normalize"}  # by forward's arguments
# Handled elsewhere: options about rows, and those of this package alone.
ROWS = {"validation": "--validation", "test": "--test", "target": "--target", "column": "--column",
        "sample_weight": "--sample-weight", "group": "--group", "fold": "--fold", "rows": ""}
OWN = {"save": "--save", "net": "", "quiet": "", "callbacks": "", "weights": "", "init_missing": ""}
ALL = {**KEYS, **EACH, **VALUES, **LISTS, **FLAGS, **PAIRS, **ROWS, **OWN}
COLUMNS = ("model", "seed.init", "seed.order", "seed.dropout", "fold", "status", "step", "best_step", "loss", "train_loss", "n")  # of tables
OTHER_NAMES = {"metric": "metrics", "learning_rate": "lr", "wd": "weight_decay", "batch_size": "batch", "groups": "group",
               "weight": "sample_weight", "grid": "lr", "columns": "column"}
NOT_HERE = {  # what was expected, and what to try
    "resume": ("a new run", "nw.open_run('runs/a').resume()"),
    **{word: ("the arguments of a run from Python", f"workbench train --{word}") for word in ("require", "against", "bench")},
}


@dataclasses.dataclass
class Plan:
    """The number of models and their differences, counted as in `app/train/models/configurations`."""

    arguments: list  # of the command
    n: int
    seeds: list  # by model: the seed of its initial weights


def check_names(given):
    """Raises Error for an unknown option; suggests the nearest one."""
    for name in given:
        if name in NOT_HERE:
            expected, advice = NOT_HERE[name]
            fail("train", name, "it", expected, advice)
        if name not in ALL:
            near = OTHER_NAMES.get(name) or next(iter(difflib.get_close_matches(name, ALL, 1, 0.5)), "lr")
            fail("train", name, "an argument of this name", "an option of workbench train, with underscores", f"{near}=")


def runs_of(given):
    """One dict of arguments for each wide run: the cross product of the lists of options that change the program."""
    axes = [(name, [plain(one) for one in value]) for name, value in given.items() if name in EACH and is_list(value)]
    net = given.get("net") or {}
    if not isinstance(net, dict):
        fail("train", "net", type(net).__name__, "a dict of the factory's arguments", "net={'width': [64, 256]}")
    axes += [(f"net.{name}", list(value)) for name, value in net.items() if isinstance(value, list)]
    for name, values in axes:
        if not values:
            fail("train", name, "an empty list", "at least one value", "leaving it out")
    runs = [({**given, "net": {k: v for k, v in net.items() if not isinstance(v, list)}}, {})]
    for name, values in axes:
        runs = [(_with(options, name, value), {**chosen, name: value}) for options, chosen in runs for value in values]
    return runs


def names_of(runs):
    """A name for each run's value of every option that varies: the value itself, or a function's name. Different values of
    the same name are numbered, as "loss 0" and "loss 1"."""
    words = [{} for _ in runs]
    for name in runs[0][1]:
        values = []
        for _, chosen in runs:
            if not any(_same(chosen[name], known) for known in values):
                values.append(chosen[name])
        said = [_word(value) for value in values]
        said = [word if said.count(word) == 1 else f"{word} {said[:i].count(word)}" for i, word in enumerate(said)]
        for of, (_, chosen) in zip(words, runs):
            of[name] = next(word for word, known in zip(said, values) if _same(chosen[name], known))
    return words


def _same(a, b):
    return a is b or (isinstance(a, (int, float, str)) and type(a) is type(b) and a == b)


def _word(value):
    """A number or a word; a function's name."""
    return plain(value) if isinstance(plain(value), (int, float, str)) else getattr(value, "__name__", str(value))


def _with(options, name, value):
    if not name.startswith("net."):
        return {**options, name: value}
    return {**options, "net": {**options["net"], name[4:]: value}}


def plan(options, together, folds):
    """The Plan of one run. `together`: the lists of nw.zip, or none. `folds`: models per configuration and seed."""
    keys = {name: value for name, value in options.items() if name in KEYS}
    _check_keys(keys, together)
    arguments = [f"--seed={number_text('seed', keys.pop('seed'))}"] if count_of(keys.get("seed", [])) is None else []
    base = int(options["seed"]) if arguments else 0
    grid = {name: value for name, value in keys.items() if count_of(value) is not None}
    beside = {**together, **{name: value for name, value in keys.items() if name not in grid}}
    arguments += [_said(name, value) for name, value in beside.items()]
    arguments += [f"--grid={KEYS[name]}={text_of(name, value)}" for name, value in grid.items()]
    product = math.prod(map(count_of, grid.values()))
    each = product * _whole("seeds", options.get("seeds", 1)) * folds
    n = _models(options, beside, each, bool(grid) or "seeds" in options or folds > 1)
    return Plan(arguments, n, [_seed(grid, beside, i, i // (each // product), base) for i in range(n)])


def says_how_many(options, together):
    """Whether the options determine the number of models, apart from lists of models or of rows."""
    values = [*together.values(), *(value for name, value in options.items() if name in KEYS)]
    return bool({"n", "seeds"} & set(options)) or any(count_of(value) is not None for value in values)


def _said(name, value):
    key = KEYS[name]
    if name in OPTIONS_OF_THEIR_OWN or (name == "epochs" and count_of(value) is None):
        return f"--{key.replace('_', '-')}={text_of(name, value)}"
    return f"--set={key}={text_of(name, value)}"


def _check_keys(keys, together):
    for name in together:
        if name not in KEYS:
            fail("nw.zip", name, "it", "what models of a run may differ in", f"{name}= as an argument of its own")
        if name in keys:
            fail("train", name, "it in nw.zip too", "it once", "leaving one out")
    for name, value in {**keys, **together}.items():
        if isinstance(value, Together):
            fail("train", name, "nw.zip", "it in front of the named arguments", "nw.train(Net, nw.zip(lr=[...]), data=...)")
        if name in ("seed", "seed_init") and isinstance(value, Range):
            fail("train", name, f"nw.{value.kind}", "whole numbers", f"{name}=range(8)")


def _models(options, beside, each, said):
    """The number of models: that of the configurations, times `each`."""
    rows = next((count_of(value) for value in beside.values() if count_of(value) is not None), None)
    ranged = [name for name, value in beside.items() if isinstance(value, Range) and value.count is None]
    if options.get("n") is None:
        if ranged and rows is None:
            fail("train", ranged[0], "a range that does not say how many", "how many models there are",
                 "n=8, or nw.log(1e-4, 1e-1, 8)")
        if rows is None and not said:
            fail("train", "models", "nothing that says how many", "N of them", "seeds=8, or lr=[1e-4, 1e-3]")
        return each * (rows or 1)
    n = _whole("n", options["n"])
    if n % each:
        fail("train", "n", n, f"a multiple of {each}, as it counts all models", f"n={n * each}")
    if rows is not None and rows * each != n:
        fail("train", "n", n, f"{rows * each}, as many as the other arguments make", "leaving it out")
    return n


def _seed(grid, beside, model, config, base):
    """That model's start is drawn from, as the command numbers configurations."""
    row, place = divmod(config, math.prod(map(count_of, grid.values())))
    said = {name: value[row] if is_list(value) else value for name, value in beside.items()}
    for name, value in reversed(grid.items()):
        place, at = divmod(place, count_of(value))
        said[name] = value[at] if is_list(value) else None
    return int(said.get("seed_init", said.get("seed", base + model)))


def _whole(name, value):
    if type(value) is not int or value < 1:
        fail("train", name, repr(value), "a whole number of at least 1", f"{name}=8")
    return value


def own_metrics(given, options):
    """The names in metrics=, for the command, and the functions by name. `options`: those of the run, with lists where models differ."""
    words, functions, listed = [], {}, isinstance(given, (list, tuple))
    varied = ["seed", *(name for name, value in options.items() if name in KEYS and (count_of(value) or isinstance(value, Range)))]
    for one in given if listed else [given]:
        if callable(one):
            name = getattr(one, "__name__", "<lambda>")
            if name == "<lambda>" or name in functions:
                fail("train", "metrics", f"{'a function without a name' if name == '<lambda>' else f'two functions {name}'}{' in a list' * listed}",
                     "functions with names of their own", "metrics=['accuracy', {'mcc': f}]")
            one = {name: one}
        if not isinstance(one, dict):
            words.append(one)
            continue
        for name, function in one.items():
            if not callable(function):
                fail("train", f"metrics {name}", type(function).__name__, "a function of (output, target)", f"metrics={{'{name}': f}}")
            functions[name] = function
    for name in functions:
        if name in (*COLUMNS, *varied, *words) or str(name).startswith(("test.", "chosen.")):
            fail("train", f"metrics {name}", "the name of a column of run.table", "another one", f"metrics={{'my_{name}': f}}")
    return words, functions


def command_line(options):
    """The command line's options that are neither per model nor about rows."""
    arguments = []
    for name, value in options.items():
        if value is None:
            continue
        if name in EACH or name in VALUES:
            flag = {**EACH, **VALUES}[name]
            path = isinstance(value, os.PathLike)
            arguments.append(f"{flag}={os.fspath(value) if path else value}")
        elif name in LISTS:
            values = [value] if isinstance(value, (str, os.PathLike)) else value
            if callable(value) or not is_list(values) or not all(isinstance(v, (str, os.PathLike)) for v in values):
                fail("train", name, type(value).__name__, "a word or a list of words", f"{name}={EXAMPLES[name]}")
            arguments += [f"{LISTS[name]}={os.fspath(v)}" for v in values]
        elif name in FLAGS:
            if not isinstance(value, bool):
                fail("train", name, repr(value), "True or False", f"{name}=True")
            arguments += [FLAGS[name]] if value else []
        elif name in PAIRS:
            if not isinstance(value, dict):
                fail("train", name, repr(value), "a dict by forward's arguments", f"{name}={{'x': 'standard'}}")
            for argument, text in value.items():
                if is_list(text) and all(isinstance(plain(number), numbers.Real) for number in text):
                    text = ",".join(repr(float(number)) for number in text)
                elif not isinstance(text, str):
                    fail("train", f"{name} {argument}", type(text).__name__ + " with other things than numbers" * is_list(text),
                         "'standard', or a mean and a deviation for all numbers", f"{name}={{'{argument}': (0.5, 2)}}")
                arguments.append(f"{PAIRS[name]}={argument}={text}")
    return arguments


EXAMPLES = {"metrics": "['accuracy']", "augment": "['flip', 'crop:4']", "freeze": "['backbone.*']", "no_decay": "['*.bias']",
            "export": "'wide.pt2'"}


def in_words(text):
    """Replaces option names in an error of the command by those of Python. An alternative in its advice ("or --option") is
    dropped if nw.train has no such option."""
    names = {flag: name for name, flag in ALL.items() if flag.startswith("--")}
    names.update({f"--{KEYS[name].replace('_', '-')}": name for name in (*OPTIONS_OF_THEIR_OWN, "epochs")})
    names.update({"--apply": "apply"})  # of predict
    if "fuse with" not in text:  # that command's option
        names["--weights"] = "weights"

    def name_of(flag):
        return "train" if flag in ("--set", "--grid", "-n") else names.get(flag, flag)

    def advice(match):
        flag, value = match.groups()
        if flag in ("--set", "--grid"):
            return value
        if flag not in names:
            return match.group(0)
        if names[flag] in FLAGS:
            return f"{names[flag]}=True {value}"
        return f"{names[flag]}={value if re.fullmatch(r'[-+.0-9e]+', value) else repr(value)}"

    def option(name):
        return name if name == "--weights" else f"{name}=True" if name in FLAGS else f"{name}="

    said, _, tried = text.rpartition("; try ")
    tried = re.sub(r",? or (--[a-z][a-z-]*)( [^\s,;]+)?$", lambda m: m[0] if m[1] in (*names, "--set", "--grid") else "", tried)
    tried = re.sub(r"(--[a-z][a-z-]*) (?!or\b|and\b)([^\s,;]+)", advice, tried)
    tried = re.sub(r"--(?!help|resume)[a-z][a-z-]*", lambda m: option(name_of(m[0])), tried)
    said = re.sub(r"(?<![\w-])--?[a-z][a-z-]*", lambda m: name_of(m[0]), said)
    return f"{said}; try {tried}" if said else tried
