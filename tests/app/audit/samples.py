"""What follows from samples: medians, quartiles, outliers, intervals of ratios, verdicts.

Everything is computed with NumPy from the definitions in the documentation of the measurements. The
draws of the bootstrap are documented (a 64-bit Mersenne Twister with the seed of the report), so that
intervals are compared digit by digit; `rough_interval` uses other draws and is compared roughly.
"""
import functools
import math

import numpy as np

RESAMPLES = 2000
CALIBRATION = 0.95         # of the width of a 95 % interval
SAME = 0.03                # a ratio within +-3 % is the same
SURELY = 1.432             # from a 95 % interval to a 99.5 % one, in logarithms


def mersenne_twister(seed, count):
    """The first `count` numbers of the 64-bit Mersenne Twister (Matsumoto and Nishimura, 2004)."""
    state = [seed & (2**64 - 1)]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & (2**64 - 1))
    x = np.array(state, dtype=np.uint64)
    upper, lower = np.uint64(0xFFFFFFFF80000000), np.uint64(0x7FFFFFFF)
    matrix, one = np.uint64(0xB5026F5AA96619E9), np.uint64(1)

    def twist(high, low, far):
        y = (high & upper) | (low & lower)
        return far ^ (y >> one) ^ np.where(y & one, matrix, np.uint64(0))

    blocks = []
    for _ in range(-(-count // 312)):
        x[:156] = twist(x[:156], x[1:157], x[156:])
        x[156:311] = twist(x[156:311], x[157:312], x[:155])
        x[311:] = twist(x[311:], x[:1], x[155:156])
        y = x.copy()
        y ^= (y >> np.uint64(29)) & np.uint64(0x5555555555555555)
        y ^= (y << np.uint64(17)) & np.uint64(0x71D67FFFEDA60000)
        y ^= (y << np.uint64(37)) & np.uint64(0xFFF7EEE000000000)
        blocks.append(y ^ (y >> np.uint64(43)))
    return np.concatenate(blocks)[:count] if blocks else np.empty(0, np.uint64)


def summary(samples):
    """Median, quartiles (by linear interpolation) and how many lie beyond 1.5 quartile ranges."""
    if not samples:
        return {"median_ns": 0.0, "q1_ns": 0.0, "q3_ns": 0.0, "outliers": 0}
    x = np.asarray(samples, dtype=float)
    q1, middle, q3 = np.quantile(x, [0.25, 0.5, 0.75])
    fence = 1.5 * (q3 - q1)
    return {"median_ns": float(middle), "q1_ns": float(q1), "q3_ns": float(q3),
            "outliers": int(np.sum((x < q1 - fence) | (x > q3 + fence)))}


def neighbours(a, b):
    """Correlation of the logarithm of one round's ratio with that of the next, as it is allowed for."""
    if not (np.all(a > 0) and np.all(b > 0)):
        return 0.0
    logs, count = np.log(a / b), len(a)
    q1, q3 = np.quantile(logs, [0.25, 0.75])
    logs = np.clip(logs, q1 - (q3 - q1), q3 + (q3 - q1))
    logs = logs - logs.mean()
    own = float(logs @ logs)
    if not own > 0:
        return 0.0
    seen = float(logs[1:] @ logs[:-1]) / own
    unbiased = min(max(seen + (1 + 3 * seen) / count, 0.0), 0.95)
    return min(0.95, unbiased * (1 + 2 / count) + 0.5 / math.sqrt(count))


def widening(a, b):
    """By how much the independent bootstrap is widened: the variance of the median of a first-order
    autoregression over that of independent values."""
    rho, count = neighbours(a, b), len(a)
    variance, k, power = 1.0, 1, rho
    while k < count and power > 1e-4:
        variance += 2 * (1 - k / count) * (2 / math.pi) * math.asin(power)
        k, power = k + 1, power * rho
    return CALIBRATION * math.sqrt(variance)


def _interval(a, b, picks):
    ratios = np.median(a[picks], axis=1) / np.median(b[picks], axis=1)
    low, high = np.quantile(ratios, [0.025, 0.975])
    value, factor = float(np.median(a) / np.median(b)), widening(a, b)
    return value, value * (low / value)**factor, value * (high / value)**factor


def _common(a, b):
    count = min(len(a), len(b))
    return np.asarray(a[:count], dtype=float), np.asarray(b[:count], dtype=float), count


@functools.lru_cache(maxsize=16)
def _documented_picks(seed, count):
    limit = (2**64 - 1) // count * count  # beyond it a remainder would be more likely than others
    draws = mersenne_twister(seed, RESAMPLES * count + 8)
    draws = draws[draws < np.uint64(limit)][:RESAMPLES * count]
    return (draws % np.uint64(count)).astype(np.int64).reshape(RESAMPLES, count)


def interval(a, b, seed):
    """median(a) / median(b) and its 95 % interval, with the documented draws. Rounds stay in pairs;
    what one has more of than the other is left out."""
    a, b, count = _common(a, b)
    if count == 0:
        return 0.0, 0.0, 0.0
    return _interval(a, b, _documented_picks(seed, count))


def rough_interval(a, b, seed=0):
    """The same with NumPy's own draws: what it differs by is the randomness of the bootstrap."""
    a, b, count = _common(a, b)
    picks = np.random.default_rng(seed).integers(0, count, (RESAMPLES, count))
    return _interval(a, b, picks)


def verdict(value, low, high):
    if low >= 1 - SAME and high <= 1 + SAME:
        return "SAME"
    surely = lambda end: value * (end / value)**SURELY
    if low > 1 and surely(low) > 1:
        return "FASTER"
    if high < 1 and surely(high) < 1:
        return "SLOWER"
    return "UNCLEAR"


def best(baselines, candidate):
    """The baseline with the smallest median over the rounds it has in common with the candidate, recomputed;
    the first of equals."""
    def median(t):
        common = t["samples_ns"][:len(candidate["samples_ns"])]
        return float(np.median(common)) if common else t["median_ns"]
    return min(baselines, key=median)
