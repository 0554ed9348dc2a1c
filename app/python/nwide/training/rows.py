"""Turns a user's data into the columns of a file: tensors by name, and the role of each."""

import dataclasses
import decimal
import inspect
import numbers
import sys

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from ..errors import fail
from .epochs import read_loader
from .network import takes_batch
from .values import plain

TARGET, WEIGHT, GROUP, FOLD = "target", "sample_weight", "group", "fold"
SIGNED = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}  # few operators have the others


@dataclasses.dataclass
class Meaning:
    """The role of each column, and how a DataFrame's columns became numbers. Saved with the run."""

    arguments: dict  # forward's, in order: names of columns
    features: dict = dataclasses.field(default_factory=dict)  # of a DataFrame: each argument's columns
    target: list = dataclasses.field(default_factory=list)
    codes: dict = dataclasses.field(default_factory=dict)  # by column: its categories; a category's code is its index
    dtype: str = "float32"  # in which the network sees real numbers: that of its first trained parameter
    own: list = dataclasses.field(default_factory=list)  # forward's arguments that it sees in the data's own dtype


class Table:
    """Columns by name, and the rows of each model, if models have rows of their own."""

    def __init__(self, columns, learned=None, apart=False):
        self.columns = columns
        self.learned = learned  # row numbers of each model
        self.apart = apart  # rows were given per model, as pairs, and none is shared
        self.held = {}  # "validation", "test": row numbers of each model
        self.counts = None  # how many rows of each model there are, of which shares are held back

    def models(self):
        """The number of models with rows of their own; 0: all models share all rows."""
        return len(self.learned) if self.learned else 0

    def rows(self):
        return len(next(iter(self.columns.values())))

    def some(self, names, rows=None):
        """These columns of the first rows; without a number, of all."""
        return [self.columns[name][:rows] for name in names]

    def hold_back(self, name, share, seed):
        """Holds back a share of each model's rows, drawn separately for each model."""
        if not 0 < share < 1:
            fail("train", name, share, "a fraction between 0 and 1, or rows as data has them", f"{name}=0.2")
        self.counts = self.counts or [len(rows) for rows in self.learned]
        learned, held = [], []
        for model, rows in enumerate(self.learned):
            count = max(1, round(share * self.counts[model]))
            if count >= len(rows):
                fail("train", f"{name} of model {model}", f"{len(rows)} rows", "some to learn from and some to hold back",
                     "a smaller fraction, or more rows")
            draw = torch.Generator().manual_seed(seed * 1_000_003 + model * 2 + (name == "test"))
            order = torch.randperm(len(rows), generator=draw)
            held.append(rows[order[:count].sort().values])
            learned.append(rows[order[count:].sort().values])
        self.learned, self.held[name] = learned, held

    def add(self, name, table):
        """Adds held-back rows that each model has of its own."""
        if not self.apart or table.models() != self.models():
            fail("train", name, f"rows of {table.models()} models' own",
                 f"those of {self.models()}" if self.apart else "rows as data has them", f"{name}=(X, y)")
        begin = self.rows()
        self.columns = {column: torch.cat([values, table.columns[column]]) for column, values in self.columns.items()}
        self.held[name] = [rows + begin for rows in table.learned]

    def whose(self):
        """The columns of the command's file of rows."""
        lists = [(use, model, rows) for use, of in enumerate((self.learned, *(self.held.get(n, []) for n in ("validation", "test"))))
                 for model, rows in enumerate(of)]
        each = {"model": [torch.full((len(rows),), model) for _, model, rows in lists], "row": [rows.long() for *_, rows in lists],
                "use": [torch.full((len(rows),), use) for use, _, rows in lists]}
        return {name: torch.cat(values) for name, values in each.items() if name != "use" or self.held}


def is_frame(value):
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series))


def tensor_of(name, value):
    """A tensor of any device, a NumPy array or a list of numbers as a tensor of the CPU."""
    if is_frame(value):
        own = getattr(getattr(value, "dtype", None), "numpy_dtype", None)  # pandas' nullable numbers
        value = value.to_numpy(dtype=own, copy=True)
    if isinstance(value, torch.Tensor):
        found = value.detach()
    else:
        try:
            if str(getattr(value, "dtype", "")) == "object" and all(map(_is_number, value.flat)):
                whole = all(isinstance(plain(v), int) for v in value.flat)
                value = value.astype("int64" if whole else "float64")
            flags = getattr(value, "flags", None)  # torch wants writable arrays
            found = torch.as_tensor(value.copy() if flags is not None and not flags.writeable else value)
        except (AttributeError, OverflowError, TypeError, ValueError, RuntimeError):
            kind = getattr(value, "dtype", type(value).__name__)
            fail("data", name, f"{kind}", "numbers", "a tensor, a NumPy array or a frame")
    if found.is_complex() or found.layout is not torch.strided or found.is_meta:
        fail("data", name, f"{found.dtype} of layout {found.layout}", "real numbers with values", "a plain tensor")
    found = found.cpu()
    if found.dim() == 0:
        fail("data", name, "one number", "one a row", "a tensor [S, ...]")
    if found.dtype in SIGNED:
        found = found.to(SIGNED[found.dtype])
        if (found < 0).any():
            fail("data", name, "numbers of 2^63 or more", "those that int64 has", "float64")
    return found


def _is_number(value):
    """Whether a value of a column of objects is a real number, such as a Decimal, and no boolean."""
    return isinstance(value := plain(value), (numbers.Real, decimal.Decimal)) and not isinstance(value, bool)


def side_by_side(columns):
    """Numbers a row of several columns as one column, without rounding, as the command joins them."""
    return torch.stack([column if column.is_floating_point() else column.double() for column in columns], 1)


def forward_names(model):
    """Forward's arguments, and which of them must be given."""
    parameters = inspect.signature(model.forward).parameters.values()
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return [p.name for p in plain], [p.name for p in plain if p.default is p.empty]


class Reader:
    """Reads the user's data. `options`: target, column, sample_weight, group and fold as the user gave them; none for rows to
    predict, of which only forward's arguments are read."""

    def __init__(self, model, options, meaning=None, tell=print):
        self.names, self.needed = forward_names(model) if model is not None else (list(meaning.arguments), [])
        self.options, self.known, self.tell = options, meaning, tell
        real = [p for p in model.parameters() if p.is_floating_point()] if model is not None else []
        dtype = next((p.dtype for p in [*(p for p in real if p.requires_grad), *real]), torch.float32)
        self.meaning = meaning or Meaning({}, dtype=str(dtype).partition(".")[2])

    def read(self, data):
        """Returns the columns of `data` as a Table; sets their Meaning."""
        if isinstance(data, DataLoader):
            data = read_loader(data)
        if isinstance(data, Dataset):
            data = self._dataset(data)
        if isinstance(data, list) and data and all(isinstance(pair, tuple) for pair in data):
            return self._own(data)
        table = Table(self._columns(data))
        self._beside(table)
        self._check(table)
        return self._chosen(table) if self.known is None and self.options.get("rows") is not None else table

    def _chosen(self, table):
        """rows=[idx0, ...]: the rows of shared data that each model learns from."""
        chosen, count = self.options["rows"], table.rows()
        for option in (GROUP, FOLD):
            if self.options.get(option) is not None:
                fail("train", "rows", f"{option} too", "one or the other", "leaving one out")
        if not isinstance(chosen, (list, tuple)) or not chosen:
            fail("train", "rows", type(chosen).__name__, "a list of row numbers for each model", "rows=[idx0, idx1]")
        chosen = [tensor_of(f"rows of model {i}", rows) for i, rows in enumerate(chosen)]
        for i, rows in enumerate(chosen):
            whole = rows.dim() == 1 and not rows.is_floating_point() and rows.dtype != torch.bool
            if not whole or (len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count):
                fail("train", f"rows of model {i}", f"{rows.dtype} {tuple(rows.shape)}" if not whole else f"{int(rows.min())} to "
                     f"{int(rows.max())}", f"row numbers from 0 to {count - 1}", "torch.randint(len(x), (len(x),))")
            if not len(rows):
                fail("train", f"rows of model {i}", "none", "some to learn from", "torch.randint(len(x), (len(x),))")
        table.learned = [rows.long() for rows in chosen]
        return table

    def _dataset(self, data):
        if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
            fail("data", "rows", f"{type(data).__name__} without a length", "a Dataset that can be read once",
                 "a list of its items")
        items = [data[i] for i in range(len(data))]
        if not items:
            fail("data", "rows", "an empty Dataset", "some rows", "another one")
        self.tell(f"{len(items)} items of {type(data).__name__} are read once: each epoch has the same values")
        if isinstance(items[0], dict):
            return {name: self._stack(name, [item[name] for item in items]) for name in items[0]}
        if not isinstance(items[0], (tuple, list)):
            return (self._stack("item", items),)
        return tuple(self._stack(f"part {i}", [item[i] for item in items]) for i in range(len(items[0])))

    @staticmethod
    def _stack(name, values):
        try:
            return torch.stack([torch.as_tensor(v) for v in values])
        except (TypeError, ValueError, RuntimeError) as error:
            fail("data", f"{name} of the Dataset's items", str(error).split("\n")[0], "tensors of one shape",
                 "a transform that makes them")

    def _own(self, pairs):
        """[(X0, y0), ...]: rows of each model's own, one after the other."""
        for option in (GROUP, FOLD) if self.known is None else ():
            if self.options.get(option) is not None:
                fail("train", option, "it and rows of each model's own", "one or the other", f"leaving {option}= out")
        tables = [self._columns(pair) for pair in pairs] if self.known else self._own_columns(pairs)
        begin, learned = 0, []
        for i, table in enumerate(tables):
            self._check(Table(table), f" of model {i}")
            for name, values in table.items():
                if values.shape[1:] != tables[0][name].shape[1:]:
                    fail("data", f"{name} of model {i}", f"rows of shape {tuple(values.shape[1:])}",
                         f"{tuple(tables[0][name].shape[1:])} as model 0 has", "rows of one shape")
            count = Table(table).rows()
            learned.append(torch.arange(begin, begin + count))
            begin += count
        made = Table({name: torch.cat([t[name] for t in tables]) for name in tables[0]}, learned, apart=True)
        self._beside(made)
        self._check(made)
        return made

    def _own_columns(self, pairs):
        """The columns of each pair, with codes for the categories of all pairs together."""
        tables, each = [], []
        for pair in pairs:
            self.meaning.codes = {}
            tables.append(self._columns(pair))
            each.append(self.meaning.codes)
        for i, codes in enumerate(each):
            if odd := sorted(codes.keys() ^ each[0].keys()):
                has, lacks = (0, i) if odd[0] in each[0] else (i, 0)
                fail("data", f"column {odd[0]}", f"words of model {has} and none of model {lacks}", "numbers of all models, or words of all",
                     "astype(str)")
        self.meaning.codes = {name: _joined_categories([codes[name] for codes in each]) for name in each[0]}
        return [self._columns(pair) for pair in pairs] if each[0] else tables

    def _columns(self, data):
        if is_frame(data):
            return self._frame(data, None)
        if isinstance(data, dict):
            return self._named(data)
        if not isinstance(data, tuple):
            data = (data,)
        return self._plain(data)

    def _named(self, data, target=None):
        """Data given as a dict of columns; `target`: the target beside it."""
        data, chosen = {str(name): value for name, value in data.items()}, self._said_columns()
        lists = self.known.arguments.values() if self.known is not None else (_listed(chosen.get(name, name)) for name in self.names)
        arguments = {column for columns in lists for column in columns}
        if self.known is not None and not self.options:
            data = {name: value for name, value in data.items() if name in arguments} or data
        used = arguments | self._compared(list(data), arguments, target)
        columns = {name: self._read(name, value, name in used) for name, value in data.items()}
        if self.known is None:
            for name in self.names:
                for column in (named := _listed(chosen.get(name, name))):
                    if column not in columns:
                        if name in self.needed:
                            fail("data", f"forward's {name}", f"columns {', '.join(columns)}", f"one named {column}",
                                 f"column={{'{name}': '{next(iter(columns), 'x')}'}}")
                        break
                else:
                    self.meaning.arguments[name] = named
            self.meaning.target = self._said_target()
        return columns

    def _compared(self, names, arguments, target):
        """Those of a dict's columns that are targets or weights. `target`: one beside the dict."""
        left, weight = [name for name in names if name not in arguments | self.beside()], self.options.get(WEIGHT)
        said = self.known.target if self.known is not None else self._said_target()
        alone = target is None and len(left) == 1 and not takes_batch(self.options.get("loss"))  # the target if none is said
        return {*(said or left * alone), *([weight] if isinstance(weight, str) else [])}

    def _plain(self, data):
        """(X, y): forward's arguments in order, then the target."""
        *inputs, target = data if len(data) > 1 or self.known else (*data, None)
        if self.known and len(data) <= len(self.known.arguments):
            inputs, target = data, None  # rows to predict
        if len(inputs) == 1 and is_frame(inputs[0]):
            columns = self._frame(inputs[0], target)
        elif len(inputs) == 1 and isinstance(inputs[0], dict):
            columns = self._named(inputs[0], target)
        else:
            if len(inputs) > len(self.names):
                fail("data", "parts", f"{len(inputs)} before the target", f"at most forward's {len(self.names)}: "
                     f"{', '.join(self.names)}", "a dict of columns")
            names = self.names
            if self.known:
                names = [columns[0] for columns in self.known.arguments.values()]
            columns = {name: tensor_of(name, value) for name, value in zip(names, inputs)}
            if not self.known:
                self.meaning.arguments = {name: [name] for name in columns}
                missing = [name for name in self.needed if name not in columns]
                if missing:
                    fail("data", f"forward's {missing[0]}", f"{len(columns)} parts before the target",
                         f"{len(self.needed)}: {', '.join(self.needed)}", "data=(x, mask, y)")
        if target is not None:
            name = (self.known.target or [TARGET])[0] if self.known else "y" if "y" not in columns else TARGET
            columns[name] = self._read(name, target)
            self.meaning.target = [name]
        return columns

    def _said_columns(self):
        chosen = self.options.get("column") or {}
        if not isinstance(chosen, dict):
            fail("train", "column", repr(chosen), "a dict by forward's arguments", "column={'x': ['age', 'income']}")
        for name in chosen:
            if name not in self.names:
                fail("train", "column", name, f"one of forward's arguments: {', '.join(self.names)}",
                     f"column={{'{self.names[0]}': ...}}")
        return {name: columns if isinstance(columns, str) else list(columns) for name, columns in chosen.items()}

    def _said_target(self):
        target = self.options.get("target")
        return [] if target is None else _listed(target)

    # Frames

    def _frame(self, frame, target):
        """Reads a DataFrame: numbers as they are, words as codes; each of forward's arguments takes some columns."""
        frame = frame.to_frame() if getattr(frame, "ndim", 2) == 1 else frame
        labels = [str(c) for c in frame.columns]
        for label in labels:
            if labels.count(label) > 1:
                fail("data", f"column {label}", "it twice", "names of their own", "frame.rename(columns=...)")
        if self.known is None:
            self.meaning.features = self._choose(labels, target)
            self.meaning.arguments = {name: [name] for name in self.meaning.features}
            self.meaning.target = self._said_target()
        columns = {}
        for argument, names in self.meaning.features.items():
            joined = self._joined(frame, labels, _listed(names))
            columns[argument] = joined[:, 0] if isinstance(names, str) else joined
        beside = [v for k in (WEIGHT, GROUP, FOLD) if isinstance(v := self.options.get(k), str)]
        for name in [*self.meaning.target, *beside]:
            if self.known is None or (name in labels and self.options):  # rows to predict need no target
                columns[name] = self._one(frame, labels, name)
        return columns

    def _choose(self, labels, target):
        chosen = self._said_columns()
        used = {c for columns in chosen.values() for c in _listed(columns)}
        used |= set(self._said_target()) | {v for k in (WEIGHT, GROUP, FOLD) if isinstance(v := self.options.get(k), str)}
        if target is None and not self._said_target():
            fail("data", "target", "a frame alone", "what is to be learned", f"target='{labels[-1]}'")
        open_names = [name for name in self.needed if name not in chosen]
        if len(open_names) > 1:
            fail("data", "columns", f"a frame for forward's {', '.join(open_names)}", "which columns each takes",
                 f"column={{'{open_names[0]}': ['{labels[0]}'], ...}}")
        if open_names:
            chosen[open_names[0]] = [label for label in labels if label not in used]
        return {name: chosen[name] for name in self.names if name in chosen}

    def _joined(self, frame, labels, names):
        parts = [self._one(frame, labels, name) for name in names]
        words = all(name in self.meaning.codes for name in names)
        return torch.stack(parts, 1) if words else side_by_side(parts)

    def _one(self, frame, labels, name):
        if name not in labels:
            fail("data", f"column {name}", f"a frame of {', '.join(labels)}", "it among them",
                 "the frame that was trained on, or column=")
        series = frame.iloc[:, labels.index(name)]
        gaps = series.isna()
        if gaps.any():
            row = int(gaps.to_numpy().argmax())
            fail("data", f"column {name}", f"{int(gaps.sum())} gaps, the first in row {row}", "a value in each row",
                 "frame.dropna() or fillna")
        return self._read(name, series)

    def _read(self, name, value, used=True):
        """A column's numbers, or the codes of its categories, by the training data's if it has any. `used`: a model or the loss
        sees it."""
        if used and name in self.meaning.codes:
            return self._coded(name, value)
        if not self._has_words(name, value, used):
            return tensor_of(name, value)
        if used and self.known is not None and name not in self._groupings():
            return self._numbers(name, value)
        return self._coded(name, value)

    def _groupings(self):
        """Names of the columns that are groups or folds, which may be any objects."""
        return {GROUP, FOLD, *(v for k in (GROUP, FOLD) if isinstance(v := self.options.get(k), str))}

    @staticmethod
    def _numbers(name, value):
        """Values that pandas has as categories or objects, of a column that had numbers in the training data."""
        values = [plain(v) for v in (value.tolist() if hasattr(value, "tolist") else value)]
        for row, v in enumerate(values):
            if not isinstance(v, bool) and not _is_number(v):
                fail("data", f"column {name}", f"{v!r} in row {row}", "numbers, as the training data has there",
                     "the column that was trained on")
        whole = all(isinstance(v, int) for v in values)
        return torch.tensor([int(v) if whole else float(v) for v in values], dtype=torch.int64 if whole else torch.float64)

    def _has_words(self, name, value, used):
        """Whether these are categories: of pandas, text or booleans as objects; groups, folds and columns that are not used may be
        any objects."""
        if isinstance(value, (list, tuple)):
            return bool(value) and isinstance(value[0], str)
        kind = str(getattr(value, "dtype", ""))
        if kind != "object" or getattr(value, "ndim", 1) > 1:
            return kind == "category" or kind.startswith(("str", "<U", ">U"))
        if name in self._groupings():
            return True
        values = [plain(v) for v in value.tolist()]
        kinds = ["number" if _is_number(v) else "word" if isinstance(v, (str, bool)) else "" for v in values]
        if len(set(kinds)) > 1 or "" in kinds:
            if not used:
                return True
            row = next(row for row, kind in enumerate(kinds) if not kind or kind != kinds[0])
            first = f", {type(values[0]).__name__} in row 0" if row else ""
            fail("data", f"column {name}", f"{type(values[row]).__name__} in row {row}{first}", "numbers alone, or words alone",
                 "astype(float), or astype(str)")
        return "word" in kinds

    def _coded(self, name, values):
        known = self.meaning.codes.get(name)
        listed = [v.item() if hasattr(v, "item") else v for v in (values.tolist() if hasattr(values, "tolist") else values)]
        if known is None:
            if str(getattr(values, "dtype", "")) == "category":
                known = list(values.cat.categories.tolist() if hasattr(values, "cat") else values.categories.tolist())
            else:
                known = sorted(set(listed), key=_by_name)
            self.meaning.codes[name] = known
        place = {value: code for code, value in enumerate(known)}
        for row, value in enumerate(listed):
            if value not in place:
                fail("data", f"column {name}", f"{value!r} in row {row}",
                     f"one of the {len(known)} categories of the training data",
                     f"{known[0]!r}" if known else "others")
        return torch.tensor([place[v] for v in listed])

    # Further facts about rows

    def _beside(self, table):
        for option in (WEIGHT, GROUP, FOLD):
            value = self.options.get(option)
            if value is None or self.known is not None:
                continue
            if isinstance(value, str):
                if value not in table.columns:
                    fail("train", option, value, f"one of the columns {', '.join(table.columns)}", f"{option}=tensor")
                continue
            table.columns[option] = self._read(option, value)
            self.options = {**self.options, option: option}

    def beside(self):
        """Names of the columns that are weights, groups or folds."""
        return {value for option in (WEIGHT, GROUP, FOLD) if isinstance(value := self.options.get(option), str)}

    def left(self, table):
        """Names of the columns that are neither forward's arguments nor weights, groups or folds."""
        used = {column for columns in self.meaning.arguments.values() for column in columns} | self.beside()
        return [name for name in table.columns if name not in used]

    @staticmethod
    def _check(table, whose=""):
        rows = table.rows()
        for name, values in table.columns.items():
            if len(values) != rows:
                fail("data", f"column {name}{whose}", f"{len(values)} rows", f"{rows} as the others", "columns of one length")
        if rows == 0:
            fail("data", f"rows{whose}", "none", "some", "more data")

    def arguments(self, validation, test):
        """The command-line options about columns. `validation`, `test`: texts."""
        said = [f"--column={name}={','.join(names)}" for name, names in self.meaning.arguments.items() if names != [name]]
        if self.meaning.target:
            said.append(f"--target={','.join(self.meaning.target)}")
        for option in (WEIGHT, GROUP, FOLD):
            value = self.options.get(option)
            if value is not None:
                said.append(f"--{option.replace('_', '-')}={value}")
        said += [f"--validation={validation}"] if validation is not None else []
        return said + ([f"--test={test}"] if test is not None else [])

    def inputs(self, table, rows=None):
        """Forward's arguments of the first rows, as the columns have them; without a number, of all."""
        found = {}
        for name, columns in self.meaning.arguments.items():
            parts = table.some(columns, rows)
            found[name] = parts[0] if len(parts) == 1 else side_by_side(parts)
        return found

    def seen(self, value, name=None):
        """Converts real numbers, and images of bytes, to the dtype in which the network sees them. `name`: forward's argument."""
        real = (value.is_floating_point() and name not in self.meaning.own) or value.dtype == torch.uint8
        return value.to(getattr(torch, self.meaning.dtype)) if real else value


def _by_name(category):
    return str(type(category)), category


def _joined_categories(lists):
    """The categories of all lists: by name, or one after the other where pandas gives them an order of its own."""
    joined = list(dict.fromkeys(category for categories in lists for category in categories))
    return sorted(joined, key=_by_name) if all(categories == sorted(categories, key=_by_name) for categories in lists) else joined


def _listed(names):
    return [names] if isinstance(names, str) else list(names)


def share_or_rows(name, value):
    """A fraction as text, or None for rows."""
    if value is None or isinstance(value, (tuple, dict, list, Dataset, DataLoader)) or is_frame(value):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        fail("train", name, type(value).__name__, "a fraction, or rows as data has them", f"{name}=0.2")
    return repr(value)
