"""Callbacks after each evaluation of a run; their wishes reach the run as requests in the store."""

import json
import math
import re
import sqlite3
import time

from ..errors import Error, fail
from .options import KEYS, in_words
from .values import number_text

WAITS = re.compile(r"^run (\d+) of .* waits for requests at each evaluation$")
SKIPPED = re.compile(r"^step (\d+): skipped by running models ([\d ]+)$")
KEPT_BY_A_RUN = ("seed", "seed_init", "seed_order", "seed_dropout", "epochs")  # keys that no callback may change


class Look:
    """One evaluation. `values`: by metric, and for train_loss, a number per model; NaN for models that did not run.
    `_skipped`: models that ran, but have no train_loss, as they skipped every step since the last evaluation."""

    def __init__(self, step, steps, seconds, values, hyperparameters, chosen, skipped=()):
        self.step, self.steps, self.seconds, self.values = step, steps, seconds, values
        self.hyperparameters = hyperparameters  # the current ones of each model, by the command's names
        self.chosen = chosen  # the options in which this wide run differs from others of the call
        self._skipped, self.requests = skipped, []

    def __len__(self):
        return len(self.hyperparameters)

    @property
    def running(self):
        """Numbers of the models that were still running."""
        return [i for i, loss in enumerate(self.values["train_loss"]) if i in self._skipped or not math.isnan(loss)]

    def stop(self, model: int | None = None):
        """Stops a model, or all of them, with their current results. The run ends when no model is left."""
        for number in range(len(self)) if model is None else [self._number(model)]:
            self.requests.append((number, "stop", None, None, None))

    def set(self, model: int | None = None, **hyperparameters):
        """Changes hyperparameters (lr, weight_decay, clip, dropout, ...) of a model, or of all, from the next step on."""
        number = None if model is None else self._number(model)
        for name, value in hyperparameters.items():
            if name not in KEYS or name in KEPT_BY_A_RUN:
                fail("callback", name, "it", "a hyperparameter that a running model may change", "look.set(3, lr=1e-4)")
            value = float(number_text(name, value))
            if not math.isfinite(value):
                fail("callback", name, value, "a finite number", f"look.set(3, {name}=1e-4)")
            self.requests.append((number, "set", KEYS[name], value, None))
            for own in self.hyperparameters if number is None else [self.hyperparameters[number]]:
                own[KEYS[name]] = value

    def copy(self, source: int, model: int):
        """Gives `model` the weights, buffers and moments of `source`; its seed and its hyperparameters stay."""
        self.requests.append((self._number(model), "copy", None, None, self._number(source)))

    def _number(self, model):
        if isinstance(model, bool) or not hasattr(model, "__index__") or not 0 <= model.__index__() < len(self):
            fail("callback", "model", repr(model), f"0 to {len(self) - 1}", "one of look.running")
        return model.__index__()


class Steering:
    """Answers a run that waits at each evaluation."""

    def __init__(self, callbacks, db, chosen=None):
        callbacks = [callbacks] if callable(callbacks) else callbacks or []
        if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
            fail("train", "callbacks", type(callbacks).__name__, "a function or a list of them", "callbacks=[f]")
        self.callbacks, self.db, self.chosen = list(callbacks), db, chosen or {}
        self.store, self.run, self.models, self.first = None, None, [], 0
        self.skipped = (0, ())  # a step and models
        self.epochs, self.looks = None, 0  # set if each epoch has rows of its own, with an evaluation after each

    def takes(self, line):
        """Whether `line` is for this object alone: the run's number, or which running models skipped all steps."""
        skipped = SKIPPED.match(line)
        if skipped:
            self.skipped = int(skipped[1]), tuple(map(int, skipped[2].split()))
            return True
        found = WAITS.match(line)
        if found:
            self.run = int(found[1])
            self.store = sqlite3.connect(self.db, timeout=60, isolation_level=None)
            self.models = [json.loads(more)["hyperparameters"] for more, in self.store.execute(
                "SELECT more FROM run_model WHERE run = ? ORDER BY model", (self.run,))]
            self.first, = self.store.execute("SELECT ifnull(max(id), 0) FROM run_request").fetchone()
            if self.epochs:
                self.epochs.begin(1)
        return bool(found)

    def evaluated(self, step, steps):
        """Calls the callbacks, and writes their requests."""
        self.check()
        self.looks += 1
        if self.epochs:
            self.epochs.finish()
        skipped = self.skipped[1] if self.skipped[0] == step else ()
        look = Look(step, steps, *self._numbers(step), self._hyperparameters(), self.chosen, skipped)
        for callback in self.callbacks:
            callback(look)
        if self.epochs and self.looks + 1 < -(-steps * self.looks // step):
            self.epochs.begin(self.looks + 1)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        rows = [(self.run, *request, now) for request in look.requests] + [(self.run, None, "go", None, None, None, now)]
        self.store.execute("BEGIN IMMEDIATE")
        self.store.executemany("INSERT INTO run_request(run, model, what, key, value, source, asked) VALUES(?, ?, ?, ?, ?, ?, ?)",
                               rows)
        self.store.execute("COMMIT")

    def check(self):
        """Raises Error for requests that the run refused."""
        found = self.store and self.store.execute("SELECT refused FROM run_request WHERE run = ? AND id > ? AND refused IS NOT "
                                                  "NULL ORDER BY id", (self.run, self.first)).fetchone()
        if found:
            raise Error(in_words(found[0]))

    def close(self):
        if self.store:
            self.store.close()

    def _numbers(self, step):
        seconds = self.store.execute("SELECT seconds FROM run_time WHERE run = ? AND step = ?", (self.run, step)).fetchone()
        values = {}
        for metric, model, value in self.store.execute("SELECT metric, model, value FROM run_metric WHERE run = ? AND step = ?",
                                                       (self.run, step)):
            values.setdefault(metric, [math.nan] * len(self.models))[model] = value
        values.setdefault("train_loss", [math.nan] * len(self.models))
        return seconds[0], values

    def _hyperparameters(self):
        """The initial hyperparameters of the models, with the changes made since."""
        now = [dict(own) for own in self.models]
        for model, key, value in self.store.execute("SELECT model, key, value FROM run_request WHERE run = ? AND what = 'set' AND "
                                                    "taken IS NOT NULL AND refused IS NULL ORDER BY id", (self.run,)):
            for own in now if model is None else [now[model]]:
                own[key] = value
        return now
