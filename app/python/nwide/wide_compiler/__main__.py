"""WideCompiler's command line on top of the program: `python -m nwide.wide_compiler benchmark conv2d -p quick`.

Every command becomes one of `workbench`, whose exit codes and messages hold.
"""

import argparse
import sys
import time

from nwide_program import main as run

from . import __doc__ as about

NAMES = {"sequential": "per_model"}  # of strategies


def parser():
    top = argparse.ArgumentParser("python -m nwide.wide_compiler", description=about.partition("\n")[0])
    commands = top.add_subparsers(dest="command", required=True)
    benchmark = commands.add_parser("benchmark", help="every strategy of a primitive or block, checked and timed")
    benchmark.add_argument("target", nargs="?", help="a name or 'all'; none: lists what there is")
    benchmark.add_argument("-p", "--preset", default="full", help="quick, full (default) or ci")
    benchmark.add_argument("-c", "--compile", action="store_true", help="eager and compiled side by side")
    benchmark.add_argument("-t", "--top", type=int, help="rows of the summary, the largest speedups first")
    benchmark.add_argument("-S", "--strategy", help="only this one; 'sequential' is per_model")
    benchmark.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    benchmark.add_argument("-s", "--save", action="store_true", help="write the report to a file named by the time")
    benchmark.add_argument("-o", "--output", help="write the report to this file")
    commands.add_parser("test", help="the smallest sweep of everything, for its checks")
    trace = commands.add_parser("trace", help="the recorded program of a model")
    trace.add_argument("-m", "--model", default="mlp", help="mlp, resblock, or a name that `benchmark` lists")
    commands.add_parser("info", help="versions, machine, and what runs on it")
    return top


def arguments(typed):
    """The equivalent arguments of `workbench`."""
    said = parser().parse_args(typed)
    if said.command == "test":
        return ["sweep", "ci"]
    if said.command == "trace":
        return ["trace", said.model]
    if said.command == "info":
        return ["info"]
    if said.target is None:
        return ["list"]
    named = ["--targets", "primitives,blocks" if said.target == "all" else said.target]
    if said.strategy:
        named += ["--strategy", f"{'*' if said.target == 'all' else said.target}={NAMES.get(said.strategy, said.strategy)}"]
    more = ["-c"] * said.compile + ["--quiet"] * said.quiet
    if said.top is not None:
        more += ["--top", str(said.top)]
    file = said.output or (said.save and time.strftime(f"benchmark_{said.target}_%Y%m%d_%H%M%S.json"))
    return ["sweep", said.preset, *named, *more, *(["--json", file] if file else [])]


if __name__ == "__main__":
    run(arguments(sys.argv[1:]))
