"""Mean, deviation, interquartile mean and bootstrapped interval of numbers over seeds and folds."""
import numpy
import scipy.stats

RESAMPLES = 2000  # of the product's intervals
OWN_RESAMPLES = 20000
# Of a share of that many resamples, so many standard errors: a bound that chance breaks once in hundred thousands.
ERRORS = 4.5


def spread(values):
    """{n, mean, sd, iqm} of those that are numbers, or None where there is none; `sd` with n - 1, None of one number."""
    values = numpy.sort([v for v in values if v is not None and not numpy.isnan(v)])
    n = len(values)
    if n == 0:
        return None
    # Four of each number make quarters whole: the middle half of them has the border's in part.
    middle = numpy.repeat(values, 4)[n:3 * n]
    return {"n": n, "mean": float(values.mean()), "sd": float(values.std(ddof=1)) if n > 1 else None, "iqm": float(middle.mean())}


def widening(n):
    """By how much Student's interval of a mean of n numbers is wider than a bootstrapped one."""
    return float(scipy.stats.t.ppf(0.975, n - 1) / scipy.stats.norm.ppf(0.975)) * (n / (n - 1)) ** 0.5


def interval_bounds(values, wider=1):
    """((least, most) of the lower end, the same of the upper end) of a 95 % interval of the mean, whose ends are `wider` times as far
    from it.

    An interval of R resamples has its ends at the shares 2.5 and 97.5 % of the means only up to the error of a share,
    sqrt(p (1 - p) / R): its ends lie between the quantiles of that much less and more."""
    values = numpy.asarray([v for v in values if v is not None and not numpy.isnan(v)])
    if len(values) == 1:
        return (values[0], values[0]), (values[0], values[0])
    random = numpy.random.default_rng(17)
    means = numpy.sort(values[random.integers(0, len(values), (OWN_RESAMPLES, len(values)))].mean(1))
    means = values.mean() + wider * (means - values.mean())
    error = ERRORS * (0.025 * 0.975 * (1 / RESAMPLES + 1 / OWN_RESAMPLES)) ** 0.5

    def at(share):
        return means[min(OWN_RESAMPLES - 1, max(0, int(share * OWN_RESAMPLES)))]
    return (at(0.025 - error), at(0.025 + error)), (at(0.975 - error), at(0.975 + error))


def interval_holds(got, values, tolerance, wider=1):
    low, high = interval_bounds(values, wider)
    return low[0] - tolerance <= got[0] <= low[1] + tolerance and high[0] - tolerance <= got[1] <= high[1] + tolerance
