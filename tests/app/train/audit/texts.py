"""What is printed of a run, written anew from numbers that are held elsewhere, in the digits that are shown."""
from .report_checks import metric_names


def digits(value, significant=4):
    return f"{value:.{significant}g}"


def exact(value):
    """The shortest decimal number that is read as this one."""
    return repr(float(value)).removesuffix(".0")


def time_text(seconds):
    value, unit = seconds * 1e9, 0
    while value >= 999.5 and unit < 3:
        value, unit = value / 1000, unit + 1
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {('ns', 'us', 'ms', 's')[unit]}"


def spread_text(spread, half=True):
    if spread is None:
        return "-"
    if spread["sd"] is None:
        return digits(spread["mean"])
    low, high = (digits(end) for end in spread["ci95"])
    middle = f", middle half {digits(spread['iqm'])}" if half else ""
    return f"{digits(spread['mean'])} ± {digits(spread['sd'], 2)} [{low}, {high}]{middle}"


def statuses_text(report):
    statuses = [m["status"] for m in report["models"]]
    return ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))


def config_name(config):
    return " ".join(f"{key}={exact(value)}" for key, value in config["hyperparameters"].items()) or "all models"


def line(what, n, values):
    return f"  {what:<40} n {n:<4} {values}"


def config_lines(config, names):
    """One line, or one for each metric where there is more to say of them than a number."""
    metrics = config["metrics"]
    if config["pruned"] and not config["n"]:
        return [line(config_name(config), 0, f"pruned: {config['pruned']}")]
    single = all(spread is None or spread["n"] == 1 for name in names for spread in metrics[name].values())
    width = 0 if single else max(map(len, names))
    values = []
    for name in names:
        test = metrics[name]["test"]
        values.append(f"{name:<{width}} {spread_text(metrics[name]['validation'])}" + (f"  test {spread_text(test)}" if test else ""))
    if config["pruned"]:
        values[-1 if single else 0] += f"  pruned: {config['pruned']}"
    if single:
        return [line(config_name(config), config["n"], " · ".join(values))]
    return [line(config_name(config), config["n"], values[0]), *(" " * len(line("", 0, "")) + value for value in values[1:])]


def summary(report, configs, answering, job):
    """The lines of `report`, of configurations by whatever hyperparameters."""
    run, names = report["run"], metric_names(job, report)
    lines = [f"{report['network']} · {report['n']} models · step {run['step']} of {run['steps']} · {time_text(run['seconds'])} · "
             f"{statuses_text(report)}"]
    if len(names) > 1 and configs[0]["metrics"][names[0]]["validation"]:
        lines.append(f"  metrics of each model's evaluation with the best {names[0]}:")
    for config in configs:
        lines += config_lines(config, names)
    if any(config["pruned"] for config in configs):
        lines.append("  pruned models are left out of the means and of the mean answer")
    for rows, values in report["ensemble"].items() if report["n"] > 1 else ():
        said = [f"{name} {digits(values[name])}" for name in names if values.get(name) is not None]
        if said:
            lines.append(line("their mean answer", answering, f"{' · '.join(said)} of the {rows} rows"))
    return [*lines, *(f"  {note}" for note in report["notes"])]


def comparison(said):
    """The lines of `compare` of two runs that differ in nothing but their values."""
    lines = [f"{said['verdict']} {said['metric']} over {said['pairs']} pairs of models: {digits(said['before'])} -> "
             f"{digits(said['after'])}, change {spread_text(said['change'])}"]
    if said["alone"]:
        lines.append(f"{said['alone']} models have no partner")
    return lines + [f"{said['pruned']} pruned models are left out"] * (said["pruned"] > 0)
