"""What a run draws by counter: orders of rows, splits, folds, starts, images and dropout, written anew from their description.

A draw is SplitMix64 of a key that mixes a seed, a word and an index, so each stands for itself:

    key = mix(seed); for each byte of the word: key = mix(key ^ byte); draw = mix(key + mix(index))

An order of rows is a Fisher-Yates shuffle from the last row down, of draws with the word "row" and a seed that is the
draw of (seed.order, "order", epoch). A start is drawn by PyTorch's generator, float64, seeded with the draw of
(seed.init, "init", position of the tensor among parameters and then buffers).

What changes an image is drawn by the image's place in its batch, with a seed that is the draw of (seed.dropout, "augment",
step). Dropout's masks are Philox4x32-10 under seed.dropout: counters (block, block / 2^32, step, place of the call), of which
word w of block 16 c + b is for element 64 c + 16 w + b; kept is what is below (1 - p) 2^32. Steps count from 0.
"""
import contextlib
import math

import numpy
import torch

MASK = (1 << 64) - 1
TEST_SEED = 0x7e57  # a fraction of --test is split off with this mixed into the seed


def mix(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ x >> 30) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ x >> 27) * 0x94d049bb133111eb) & MASK
    return x ^ x >> 31


def key_of(seed, word):
    key = mix(seed & MASK)
    for byte in word.encode():
        key = mix(key ^ byte)
    return key


def bits(seed, word, index):
    return mix((key_of(seed, word) + mix(index & MASK)) & MASK)


def uniform(seed, word, index):
    """In [0, 1)."""
    return (bits(seed, word, index) >> 11) * 2.0 ** -53


def shuffle(rows, seed, word, first=0):
    rows, key = list(rows), key_of(seed, word)
    for i in range(len(rows), 1, -1):
        k = mix((key + mix(first + i)) & MASK) % i
        rows[i - 1], rows[k] = rows[k], rows[i - 1]
    return rows


def order(count, seed, epoch):
    return shuffle(range(count), bits(seed, "order", epoch), "row")


def strata(rows, classes, groups, seed):
    """Lists of units that are dealt together: of each class its rows one by one, or all groups in an order of theirs."""
    kinds = groups if groups is not None else classes
    members = {}
    for row in rows:
        members.setdefault(0 if kinds is None else kinds[row], []).append(row)
    by_kind = [members[kind] for kind in sorted(members)]
    if groups is not None:
        return [[by_kind[g] for g in shuffle(range(len(by_kind)), seed, "groups")]]
    return [[[row] for row in shuffle(own, seed, "split", len(rows) * (place + 1))] for place, own in enumerate(by_kind)]


def hold_back(rows, fraction, classes, groups, seed):
    """(kept, held back), ascending. What a class owes is carried to the next one."""
    kept, held, owed = [], [], 0.0
    for stratum in strata(rows, classes, groups, seed):
        owed += sum(map(len, stratum)) * fraction
        for unit in stratum:
            if owed >= len(unit) / 2 + 1e-9:
                owed -= len(unit)
                held += unit
            else:
                kept += unit
    return sorted(kept), sorted(held)


def folds_of(count, rows, folds, classes, groups, seed):
    """The fold of each of `count` rows, -1 for those that are not among `rows`."""
    fold_of, sizes, turn = numpy.full(count, -1), [0] * folds, 0
    for stratum in strata(rows, classes, groups, seed):
        for unit in sorted(stratum, key=len, reverse=True):
            fold = sizes.index(min(sizes)) if groups is not None else turn % folds
            turn += 1
            sizes[fold] += len(unit)
            fold_of[unit] = fold
    return fold_of


def fresh_start(network, seed, dtype):
    """PyTorch's default of each layer kind, as {name: tensor}."""
    modules = dict(network.named_modules())
    names = [name for name, _ in network.named_parameters()] + [name for name, _ in network.named_buffers()]
    state, start = network.state_dict(), {}
    for position, name in enumerate(names):
        like, module = state[name], modules[name.rpartition(".")[0]]
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            bound = 1 / math.sqrt(math.prod(module.weight.shape[1:]))
            generator = torch.Generator().manual_seed(bits(seed, "init", position))
            drawn = torch.rand(like.shape, generator=generator, dtype=torch.float64)
            start[name] = ((drawn * 2 - 1) * bound).to(dtype)
        elif name.endswith(("running_var", "weight")):
            start[name] = torch.ones_like(like, dtype=dtype)
        else:
            start[name] = torch.zeros_like(like, dtype=dtype if like.is_floating_point() else None)
    return start


def augmented(images, how, seed, step):
    """Images [B, C, H, W], each flipped, moved and cut out by draws of its own. `how`: as --augment has it."""
    said = {name: int(number or 0) for name, _, number in (part.partition(":") for part in how)}
    key, height, width = bits(seed, "augment", step), *images.shape[2:]
    made = torch.zeros_like(images)
    for b, image in enumerate(images):
        def below(word, count, b=b):
            return bits(key, word, b) % count
        if "flip" in said and below("flip", 2):
            image = image.flip(2)
        pad = said.get("crop", 0)
        down, right = (below("down", 2 * pad + 1), below("right", 2 * pad + 1)) if pad else (0, 0)
        made[b] = torch.nn.functional.pad(image, [pad] * 4)[:, down:down + height, right:right + width]
        if size := said.get("cutout", 0):
            top, left = below("row", height) - size // 2, below("column", width) - size // 2
            made[b, :, max(top, 0):max(top + size, 0), max(left, 0):max(left + size, 0)] = 0
    return made


def philox(seed, step, site, count):
    """Words of 32 bits for so many elements."""
    low = numpy.uint64(0xffffffff)
    block = numpy.arange(-(-count // 64) * 16, dtype="uint64")
    counter = [block & low, block >> numpy.uint64(32), numpy.full_like(block, step), numpy.full_like(block, site)]
    key = [seed & 0xffffffff, seed >> 32 & 0xffffffff]
    for _ in range(10):
        first, second = counter[0] * numpy.uint64(0xd2511f53), counter[2] * numpy.uint64(0xcd9e8d57)
        counter = [second >> numpy.uint64(32) ^ counter[1] ^ numpy.uint64(key[0]), second & low,
                   first >> numpy.uint64(32) ^ counter[3] ^ numpy.uint64(key[1]), first & low]
        key = [(key[0] + 0x9e3779b9) & 0xffffffff, (key[1] + 0xbb67ae85) & 0xffffffff]
    return numpy.stack(counter).reshape(4, -1, 16).transpose(1, 0, 2).reshape(-1)[:count]


@contextlib.contextmanager
def dropping(seed, step, p, dtype):
    """torch.nn.functional.dropout draws as a run does. `p`: in place of the network's own, as a number of `dtype`, or None."""
    sites = iter(range(1 << 20))

    def dropout(x, own=0.5, training=True, inplace=False):
        if not training:
            return x
        kept = 1 - (own if p is None else float(torch.tensor(p, dtype=dtype)))
        words = philox(seed, step, next(sites), x.numel())
        mask = torch.tensor((words < round(kept * 2.0 ** 32)).reshape(x.shape))
        return x * (mask.to(x.dtype) / kept if kept > 0 else torch.zeros_like(x))
    before = torch.nn.functional.dropout
    torch.nn.functional.dropout = dropout
    try:
        yield
    finally:
        torch.nn.functional.dropout = before
