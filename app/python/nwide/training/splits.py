"""Which rows a run learns from where fractions are held back, drawn as the program draws them (`data/datasets/split`)."""

import torch

WORD = (1 << 64) - 1
OF_TEST = 0x7e57  # changes the seed for test rows


def learned_rows(rows, validation, test, classes, groups, seed):
    """The numbers of the rows that are learned, ascending. `validation`, `test`: fractions or None. `classes`, `groups`: a number a
    row, or None. Groups of another shape are not split: the program refuses them."""
    if groups is not None and groups.dim() != 1:
        return torch.arange(rows)
    kinds, left = (classes if groups is None else groups), list(range(rows))
    kinds = [0] * rows if kinds is None else kinds.tolist()
    if test is not None:
        left = _rest(left, test, kinds, groups is not None, seed ^ OF_TEST)
    if validation is not None and left:
        left = _rest(left, validation * rows / len(left), kinds, groups is not None, seed)
    return torch.tensor(left, dtype=torch.long)


def classes_of(loss, target):
    """What fractions hold back in equal shares: the classes that the loss of this name learns; None if it has none. `target`:
    values a row, or None."""
    if target is None:
        return None
    name = loss.partition(":")[0] if loss else "mse" if target.is_floating_point() else "cross_entropy"
    if name in ("cross_entropy", "nll"):
        return target if target.dim() == 1 else None
    two = name == "bce_with_logits" and target.numel() == len(target) and bool(((target == 0) | (target == 1)).all())
    return target.flatten().long() if two else None


def _rest(rows, fraction, kinds, grouped, seed):
    owed, rest = 0.0, []
    for stratum in _strata(rows, kinds, grouped, seed):
        owed += sum(map(len, stratum)) * fraction
        for together in stratum:
            if owed >= len(together) / 2 + 1e-9:
                owed -= len(together)
            else:
                rest += together
    return sorted(rest)


def _strata(rows, kinds, grouped, seed):
    """Lists of rows that stay together, to be distributed one after the other: all groups, or each row of a class."""
    by = {}
    for row in rows:
        by.setdefault(kinds[row], []).append(row)
    found = [by[kind] for kind in sorted(by)]
    if grouped:
        return [_shuffled(found, seed, "groups", 0)]
    return [[[row] for row in _shuffled(members, seed, "split", (place + 1) * len(rows))] for place, members in enumerate(found)]


def _shuffled(values, seed, what, first):
    values, key = list(values), _mixed(seed & WORD)
    for letter in what.encode():
        key = _mixed(key ^ letter)
    for i in range(len(values), 1, -1):
        other = _mixed((key + _mixed(first + i)) & WORD) % i
        values[i - 1], values[other] = values[other], values[i - 1]
    return values


def _mixed(x):
    """SplitMix64."""
    x = (x + 0x9e3779b97f4a7c15) & WORD
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & WORD
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & WORD
    return x ^ (x >> 31)
