"""`nw.train`: writes module, data and initial weights as files to the run's folder and runs `workbench train` on them."""

import contextlib
import dataclasses
import os
import shutil
import tempfile

import torch
from torch.utils.data import DataLoader

from ..errors import fail
from ..recording import untouched_randomness
from ..store import default_path
from . import program, ranks, tensor_files
from .epochs import Epochs, changed
from .folder import read_kept
from .forms import of_places, place_of, results_in
from .network import (Source, Starts, export, has_two_forms, on_cpu, refuse_what_the_loss_trains, switched_to_train,
                      takes_as_well, takes_batch, with_loss)
from .options import check_names, command_line, names_of, own_metrics, plan, runs_of, says_how_many
from .planned import Planned, save_planned
from .result import Run, part_of, read_run
from .rows import FOLD, GROUP, WEIGHT, Reader, share_or_rows
from .splits import classes_of, learned_rows
from .steering import Steering
from .values import Together, count_of, plain
from .weights import Weights

FILES = "python"  # name, or beginning of the name, of the folder with a run's input files


def train(models, *beside, data, **options) -> Run:
    """Trains N models of one architecture as one program.

    Returns a Run. `models`: a class or factory, called N times under torch.manual_seed(seed), a list of modules, or
    one module that all start from. `data`: (X, y) of tensors or arrays, a DataFrame, a dict of columns, a Dataset, a
    DataLoader that is read anew for each epoch, or [(X0, y0), ...] per model; `rows=[idx0, ...]` selects each model's
    rows of shared data. `beside`: nw.zip(lr=[...], weight_decay=[...]), lists zipped together; lists of other
    arguments and `seeds` form a cross product. `loss`: a name, or a function of (output, target) or of (output,
    batch), all columns by name. `callbacks`: functions called with a Look at each evaluation, which may stop, change
    and copy models. Everything else is an option of `workbench train`, underscores for hyphens. A list of batch,
    optimizer, loss, schedule, warmup or steps, or in net={'width': [64, 256]}, starts a wide run for each value, one
    after the other. Under mpirun or srun --mpi=pmix each process trains a slice of the models, and all get the whole
    result; rank 0's arguments count.
    """
    def lead():
        run = _train(models, beside, data, options)
        return [part.folder for part in run.parts], run

    return ranks.of_all(lead, lambda places: read_run(places, models), program.run)


def _train(models, beside, data, options):
    check_names(options)
    options = {name: plain(value) for name, value in options.items() if value is not None}
    if any(not isinstance(b, Together) for b in beside) or len(beside) > 1:
        fail("train", "argument", f"{len(beside)} without a name", "the models, and nw.zip once",
             "nw.train(Net, nw.zip(lr=[...]), data=...)")
    together = beside[0].values if beside else {}
    save = options.get("save", "")
    if save is False:
        options["no_save"] = True
    elif not isinstance(save, (str, os.PathLike)):
        fail("train", "save", repr(save), "a folder's path, or False", 'save="runs/a"')
    runs = runs_of(options)
    tell = program.Tell(options.get("quiet", False))
    return Trainings(models, data, options, together, tell).run(runs)


class Trainings:
    """All wide runs of one call, which share their data."""

    def __init__(self, models, data, options, together, tell):
        self.given, self.data, self.options, self.together, self.tell = models, data, options, together, tell
        self.source = lambda net: Source(models, net)
        self.name = options.get("name") or self.source({}).name
        saves = not options.get("no_save")
        self.folder = os.path.abspath(os.fspath(options.get("save") or os.path.join("runs", self.name))) if saves else ""
        self.rows = None  # read once, on first use

    def run(self, runs):
        many, names = len(runs) > 1, names_of(runs)
        places = [os.path.join(self.folder, str(i)) if many and self.folder else self.folder for i in range(len(runs))]
        for place in {self.folder, *places} if self.folder else ():
            there = any(os.path.exists(os.path.join(place, f)) for f in ("run.safetensors", "report.json"))
            if there and many and place == self.folder:
                fail(place, "save", "a folder with a run in it", f"one for {len(runs)} runs", "another save=")
            if there and not self.options.get("overwrite"):
                fail(place, "save", "a folder with a run in it", "a new one",
                     "another save=, nw.open_run on it, or overwrite=True")
        if many:
            values = {name: dict.fromkeys(str(said[name]) for said in names) for name in names[0]}
            self.tell(f"{len(runs)} wide runs, one after the other: "
                      + " × ".join(f"{name} {', '.join(of)}" for name, of in values.items()))
        files = self._folder_for_files()
        parts, trainings = [], [Training(self, options, said, place, files, i)
                            for i, ((options, _), said, place) in enumerate(zip(runs, names, places))]
        try:
            planned = [training.prepare() for training in trainings]
            if many and self.folder:
                save_planned(files, planned)
            for training in trainings:
                try:
                    report = training.train()
                except KeyboardInterrupt:  # before it began
                    if not parts:
                        raise
                    break
                parts.append(part_of(training.planned, report, self.source))
                if parts[-1].functions:
                    parts[-1].measure()
                if report["run"]["state"] == "interrupted":
                    break
        finally:
            self._tidy(files, places, any(training.planned and training.planned.begun for training in trainings))
        return Run(parts, planned[len(parts):])

    def _folder_for_files(self):
        """Makes a new folder: the files of an earlier run are needed until this one begins."""
        files = os.path.join(self.folder, FILES)
        if not self.folder or os.path.exists(files):
            if self.folder:
                os.makedirs(self.folder, exist_ok=True)
            return tempfile.mkdtemp(prefix=f"{FILES}-", dir=self.folder or None)
        os.makedirs(files)
        return files

    def _tidy(self, files, places, begun):
        """Removes the files of overwritten runs and of a run that never began."""
        if not begun:
            shutil.rmtree(files, ignore_errors=True)
            if self.folder and os.path.isdir(self.folder) and not os.listdir(self.folder):
                os.rmdir(self.folder)
            return
        used = {read_kept(place).get("files") for place in places}
        for name in os.listdir(self.folder):
            old = os.path.join(self.folder, name)
            if (name == FILES or name.startswith(f"{FILES}-")) and os.path.isdir(old) and old not in used and old != files:
                shutil.rmtree(old, ignore_errors=True)


class Training:
    """One wide run."""

    def __init__(self, all_runs, options, chosen, place, files, number):
        """`chosen`: words for the options of this run that other runs have other values of."""
        self.all, self.options, self.chosen = all_runs, dict(options), chosen
        self.place, self.files, self.number = place, files, number
        self.net = options.get("net") or {}
        self.steering, self.make_rows, self.planned = None, None, None
        self.kept = {"chosen": chosen,
                     "files": files, "class": self.all.name, "net": {k: plain(v) for k, v in self.net.items()},
                     "db": os.path.abspath(options["db"]) if options.get("db") else None}

    def prepare(self):
        """Writes the run's files; returns it as Planned."""
        source = self._source()
        self.steering = self._steering()
        metrics, loss = self._own_metrics(), self.options.get("loss")
        first = on_cpu(source.module(0, self._first_seed()))
        self._check_epochs()
        reader, table, arguments = self._rows(first)
        arguments += self._epochs(reader, table)
        with switched_to_train(first):
            arguments = self._network(source, first, reader, table) + arguments
        if metrics and not reader.meaning.target and self.options.get("loss", "").startswith("output."):
            fail("train", "metrics", "functions and no target", "the column that they compare with", "data=(X, y), or target='y'")
        if metrics and "whole" in self.kept and self.options.get("keep") is not None:
            fail("train", "keep", "it with functions as metrics= of several results", "a checkpoint of each model", "leaving keep= out")
        if metrics and self.kept["validation"] is None and not self._has_folds():
            fail("train", "metrics", "functions and validation rows of each model's own", "rows that all models share",
                 "a metric by its name")
        models = self._plan(source, table)
        arguments += models.arguments + self._starts(source, models) + command_line(self._plain())
        self.kept["meaning"] = dataclasses.asdict(reader.meaning)
        if metrics:
            self.kept["metrics"] = {"step": 0, "values": {name: [None] * models.n for name in metrics}}  # until they are measured
        self.planned = Planned(self.place, arguments, self.kept)
        self.planned.loss, self.planned.functions = loss if callable(loss) else None, metrics
        return self.planned

    def train(self):
        """Runs the program on what is prepared, with this process's callbacks and rows of epochs."""
        if self.make_rows:
            self.steering.epochs = Epochs(self.make_rows, self._file(f"epochs-{self.number}"), self._first_seed())
        try:
            return self.planned.train(self.all.tell, self.steering)
        finally:
            if self.make_rows:
                with contextlib.suppress(Exception):  # already raised where the rows were needed
                    self.steering.epochs.finish()
                shutil.rmtree(self.steering.epochs.folder, ignore_errors=True)

    def _source(self):
        source, weights = self.all.source(self.net), self.options.get("weights")
        if weights is not None:
            source.start_from(Weights(weights, self.options.get("init_missing")))
        elif self.options.get("init_missing") is not None:
            fail("train", "init_missing", "it without weights=", "weights that lack something", "weights='backbone.pt'")
        return source

    def _has_epochs(self):
        return isinstance(self.all.data, DataLoader), callable(self.options.get("augment"))

    def _check_epochs(self):
        """Checks options with a DataLoader: all models see its batches in order; evaluations hand over an epoch's rows."""
        loads, changes = self._has_epochs()
        options, what = self.options, "a DataLoader" if loads else "a function as augment"
        expected = {"eval_every": "evaluations after each epoch", "rows": "rows that are the same in each epoch"}
        if loads:
            expected.update(dict.fromkeys(("folds", "fold", "group", "same_order"), expected["rows"]))
        else:
            expected.update(dict.fromkeys(("folds", "fold"), "one set of rows that all models learn from"))
        for option, wanted in expected.items() if loads or changes else ():
            if options.get(option) is not None:
                fail("train", option, f"it with {what}", wanted, f"leaving {option}= out")
        if not loads:
            return
        size = self.all.data.batch_size
        for option, own in (("batch", size), ("order", "sequential")):
            if options.get(option, own) != own:
                fail("train", option, f"{options[option]} with a DataLoader", f"{own}, as its batches come", f"leaving {option}= out")
            if own is not None:
                options[option] = own
        if not isinstance(options.get(WEIGHT, ""), str):
            fail("train", WEIGHT, "numbers beside a DataLoader, whose rows come in another order each epoch", "a column of its batches",
                 "items that are dicts, and sample_weight='w'")
        for option in ("validation", "test"):
            if share_or_rows(option, options.get(option)) is not None:
                fail("train", option, "a fraction of a DataLoader, whose rows come in another order each epoch", "rows of their own",
                     f"{option}=(X, y), or another DataLoader")

    def _epochs(self, reader, table):
        """The command-line options for rows that change in each epoch."""
        loads, changes = self._has_epochs()
        if not loads and not changes:
            return []
        augment, batch = self.options.pop("augment") if changes else None, self.options.get("batch", 32)
        if table.apart:
            fail("train", "augment", "a function and rows of each model's own", "rows that models share", "augment=['flip']")

        learned = self._learned(reader, table) if changes else None

        def make(epoch):
            columns = table.columns
            if loads and epoch:
                columns = Reader(None, self.options, reader.meaning, tell=lambda text: None).read(self.all.data).columns
                if len(next(iter(columns.values()))) != table.rows():
                    fail("data", f"rows of epoch {epoch}", len(next(iter(columns.values()))), f"{table.rows()} as in the first",
                         "a DataLoader of one length")
            return changed(columns, augment, batch, learned) if changes else columns

        self.kept["epochs"], self.make_rows = True, make
        return [f"--epoch-data={self._file(f'epochs-{self.number}')}"]

    def _learned(self, reader, table):
        """The numbers of the rows that the run learns from: `augment` sees no others."""
        shares = {name: share_or_rows(name, self.options.get(name)) for name in ("validation", "test")}
        validation, test = (None if share is None else float(share) for share in shares.values())
        if validation is None and test is None:
            return torch.arange(table.rows())
        loss, group, classes = self.options.get("loss"), self.options.get(GROUP), None
        if loss is None or isinstance(loss, str):
            inputs = {column for columns in reader.meaning.arguments.values() for column in columns} | reader.beside()
            target = reader.meaning.target or [name for name in table.columns if name not in inputs]
            classes = classes_of(loss, table.columns[target[0]] if len(target) == 1 else None)
        groups = None if group is None else table.columns[group if isinstance(group, str) else GROUP]
        seed = self.options.get("seed", 0)
        return learned_rows(table.rows(), validation, test, classes, groups, int(seed) if count_of(seed) is None else 0)

    def _file(self, name):
        return os.path.join(self.files, name)

    def _own_metrics(self):
        """metrics={"mcc": f}, or functions among the names of metrics: those that Python computes from predictions after the run."""
        words, metrics = own_metrics(self.options.get("metrics"), {**self.options, **self.all.together})
        if not metrics:
            return {}
        if self.options.get("monitor") in metrics:
            fail("train", "monitor", f"{self.options['monitor']}, a function of Python",
                 "one of the command's metrics, as those of "
                 "Python are computed after the run", "monitor='loss'")
        if (self.options.get("validation") is None and not self._has_folds()) or not self.place:
            fail("train", "metrics", "functions in a run without validation rows or without a folder",
                 "rows to compute them of", "validation=0.2" if self.place else "a run without save=False")
        self.options["metrics"] = words or None
        return metrics

    def _rows(self, first):
        """Writes data.safetensors, and files of validation and test rows if given as rows, once for all runs.
        Returns the Reader, the Table and the command-line options."""
        if self.all.rows is None:
            reader = Reader(first, self.options, tell=self.all.tell)
            with untouched_randomness(self._first_seed()):
                table = reader.read(self.all.data)
            texts, paths = {}, {"data": self._file("data.safetensors")}
            for name in ("validation", "test"):
                value = self.options.get(name)
                texts[name] = share_or_rows(name, value)
                if value is None:
                    continue
                if texts[name] is not None and table.apart:
                    table.hold_back(name, float(texts[name]), self._first_seed())
                    texts[name] = None
                elif texts[name] is None:
                    held = Reader(None, self.options, reader.meaning, tell=self.all.tell).read(value)
                    if not isinstance(self.options.get(WEIGHT, ""), str):  # a number for each row of the data
                        held.columns.setdefault(WEIGHT, torch.ones(held.rows(), dtype=table.columns[WEIGHT].dtype))
                    if held.apart:
                        table.add(name, held)
                    else:
                        texts[name] = paths[name] = self._file(f"{name}.safetensors")
                        tensor_files.save(paths[name], held.columns)
            tensor_files.save(paths["data"], table.columns)
            if table.learned:
                paths["rows"] = self._file("rows.safetensors")
                tensor_files.save(paths["rows"], table.whose())
            self.all.rows = reader, table, texts, paths
        reader, table, texts, paths = self.all.rows
        shared = self.options.get("validation") is not None and "validation" not in table.held
        self.kept.update(data=paths["data"], validation=paths.get("validation", paths["data"]) if shared else None)
        said = [f"--{name}={paths[name]}" for name in ("data", "rows") if name in paths]
        return reader, table, said + reader.arguments(texts["validation"], texts["test"])

    def _first_seed(self):
        seed = self.options.get("seed", 0)
        return int(seed if count_of(seed) is None else seed[0])

    def _network(self, source, first, reader, table):
        """Writes the network's file, in training form if the module is in train mode, and one for evaluation if needed."""
        batch = self.options.get("batch", 32)
        batch = min(batch if type(batch) is int and batch > 0 else 32, table.rows())
        reader.meaning.own = []
        inputs, model, arguments = reader.inputs(table, batch), first, []
        sample = {name: reader.seen(values, name) for name, values in inputs.items()}
        loss = self.options.get("loss")
        if loss is not None and not isinstance(loss, str):
            model, arguments = self._loss(loss, first, reader, table, sample, batch)
        if reader.meaning.dtype != "float64":
            doubles = {name: values for name, values in inputs.items() if values.dtype == torch.float64}
            reader.meaning.own = takes_as_well(model, sample, doubles)
            sample.update({name: doubles[name] for name in reader.meaning.own})
        stem = self.all.name if self.all.name.isidentifier() else "network"
        stem += f"-{self.number}" if self.chosen else ""
        path, other = self._file(f"{stem}.pt2"), self._file(f"{stem}-eval.pt2")
        results = evaluated = export(model, sample, path, train=True)
        if has_two_forms(model, sample):
            evaluated = export(model, sample, other, train=False)
            arguments.append(f"--eval-model={other}")
        if "loss_columns" in self.kept:
            if not (results.tensors[-1] and evaluated.tensors[-1]):
                fail("train", "loss", f"no tensor from {self.kept['loss']}", "one number, or one a row, as a tensor",
                     "to compute it of the output")
            if not evaluated.spec.child(0).is_leaf():
                self.kept["whole"] = batch  # the rows in a call with which Python computes forward's whole result
        if results != evaluated:
            for form, train, places in zip((path, other), (True, False), self._places(results, evaluated)):
                export(of_places(model, places), sample, form, train)
        elif "loss_columns" in self.kept:
            self.options["loss"] = f"output.{sum(results.tensors) - 1}"
            self.options.setdefault("output", 0)
        frozen = [name for name, parameter in first.named_parameters() if not parameter.requires_grad]
        return [path, *arguments, *(f"--freeze={name}" for name in frozen)]

    def _places(self, training, evaluation):
        """Where forward's results differ between its forms: the places, in each, of the tensor that is told and, unless the loss is
        computed of it, of the loss. Sets the options that then hold for both."""
        asked = [word for option in ("metrics", "monitor") for word in _listed(self.options.get(option)) if "output." in str(word)]
        if asked:
            fail("train", "metrics", f"{asked[0]} of a forward whose results in training and in evaluation form differ",
                 "the same results in both", "output= and metrics of it")
        loss, wanted = self.options.get("loss"), self.options.pop("output", None)
        if "loss_columns" in self.kept:
            of_loss = sum(training.tensors) - 1, sum(evaluation.tensors) - 1
            told = place_of(wanted, "output", *(results_in(form.spec.child(0), form.tensors) for form in (training, evaluation)),
                            learned=False)
        else:
            forms = [results_in(form.spec, form.tensors) for form in (training, evaluation)]
            own = str(loss).partition("output.")[2]
            of_loss = place_of(own, "loss", *forms, learned=True) if own else None
            told = place_of(own if own and wanted is None else wanted, "output", *forms, learned=not own)
        if of_loss:
            self.options.update(loss="output.1", output=0)
        return list(zip(told, of_loss)) if of_loss else [(place,) for place in told]

    def _loss(self, loss, first, reader, table, sample, batch):
        """The model that also computes the loss, and the command-line options. Adds the loss's columns to `sample`."""
        if not callable(loss):
            fail("train", "loss", repr(loss), "a name, or a function of (output, target) or (output, batch)", "loss='cross_entropy'")
        inputs = {name: columns[0] if len(columns) == 1 else name for name, columns in reader.meaning.arguments.items()}
        more, said = reader.meaning.target, []
        if takes_batch(loss):
            more = reader.left(table)
        elif not more and len(left := reader.left(table)) == 1:
            more = reader.meaning.target = left
            said = [f"--target={left[0]}"]
        elif len(more) != 1:
            fail("train", "loss", "a function and no target", "the column that it compares with",
                 "data=(X, y), target='y', or a function of (output, batch)")
        model, added = with_loss(first, loss, inputs, more)
        self.kept.update(loss=_name(loss), loss_columns=[])
        for name, column in zip(added, more):
            values = table.some([column], batch)[0]
            sample[name] = reader.seen(values) if values.is_floating_point() else values
            self.kept["loss_columns"].append([column, list(values.shape[1:]), str(values.dtype).partition(".")[2]])
        refuse_what_the_loss_trains(model, loss, sample)
        return model, said + [f"--column={name}={column}" for name, column in zip(added, more) if name != column]

    def _has_folds(self):
        return self.options.get("folds") is not None or self.options.get(FOLD) is not None

    def _folds(self, table):
        fold = self.options.get(FOLD)
        if fold is not None:
            return len(table.columns[fold if isinstance(fold, str) else FOLD].unique())
        folds = self.options.get("folds", 1)
        return folds if type(folds) is int and folds > 1 else 1

    def _plan(self, source, table):
        """The Plan; lists of models or of rows give the number of models if no option does."""
        folds, options = self._folds(table), self.options
        given = {"modules": len(source.given) if source.listed else 0, "models' own rows": table.models(),
                 "checkpoints": source.weights.count() if source.weights else 0}
        counts = [count for count in given.values() if count]
        counted = not counts or says_how_many(options, self.all.together) or folds > 1
        found = plan(options if counted else {**options, "n": counts[0]}, self.all.together, folds)
        for what, count in given.items():
            if count and found.n != count:
                fail("train", "models", f"{count} {what}", f"{found.n}, as many as the other arguments make", "as many of each")
        if not counted:
            found.arguments.append(f"--n={found.n}")
        return found

    def _starts(self, source, models):
        """Writes a checkpoint for each model; a single module for all needs none, as its values are in the network's file."""
        if source.weights and (note := source.weights.note()):
            self.kept["fresh"] = note
            self.all.tell(note)
        if source.single and not (source.weights and source.weights.listed):
            return [] if "init" in self.options else ["--init=file"]
        if "init" in self.options:
            fail("train", "init", "it with models that have values of their own", "one module for all", "leaving it out")
        starts = Starts(self._file(f"start-{self.number}"))
        made = source.module(0, models.seeds[0])
        with switched_to_train(made):  # while the others are compared with it
            starts.add(made)
            for number, seed in enumerate(models.seeds[1:], 1):
                made = source.module(number, seed)
                with switched_to_train(made):
                    starts.add(made)
        return [f"--weights={starts.folder}"]

    def _plain(self):
        options = {"name": self.all.name, **self.options, "db": self.kept["db"]}
        if self.chosen:
            options["name"] += " " + " ".join(f"{k}={v}" for k, v in self.kept["chosen"].items())
        return options

    def _steering(self):
        """The object that runs callbacks and hands over an epoch's rows at evaluations; None if there are neither."""
        callbacks = self.options.get("callbacks")
        if not callbacks and not any(self._has_epochs()):
            return None
        what = "callbacks" if callbacks else "data" if self._has_epochs()[0] else "augment"
        ranks.alone(what, "the run waits for Python at each evaluation")
        for option, odd in (("no_store", self.options.get("no_store")), ("log", self.options.get("log") == "-")):
            if odd:
                fail("train", what, f"{option} too", "a store, through which the run is told, and its own words",
                     f"a run without {option}=")
        return Steering(callbacks, self.options.get("db") or default_path(), self.kept["chosen"])


def _listed(value):
    return value if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _name(value):
    return getattr(value, "__name__", str(value))
