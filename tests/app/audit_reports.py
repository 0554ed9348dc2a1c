"""Audits what sweeps and fusions wrote: every field of a report is recomputed from its samples, computed
by PyTorch or the system, or held for consistency, and a field of which nobody knows is a failure.

    python audit_reports.py REPORT.json [--seed S] [--db STORE] [--classes]

says what is wrong, one line each, and ends with 1 if anything is. The folder `audit` has the parts.
"""
import argparse
import json
import sys

from audit import fusion, ledger, sweep
from audit.comparison import audit as audit_comparison  # noqa: F401
from audit.formats import audit_csv, audit_fusion_store, audit_html, audit_junit, audit_markdown  # noqa: F401
from audit.formats import audit_store
from audit.fusion import Models  # noqa: F401

audit_sweep, audit_fusion = sweep.audit, fusion.audit


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def classes(report):
    """The class of every field that the report has, as (field, class)."""
    fields = sweep.FIELDS if "cases" in report else fusion.FIELDS
    return sorted({(ledger.pattern(p), fields.get(ledger.pattern(p), "unknown")) for p, _ in ledger.leaves(report)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report")
    parser.add_argument("--seed", type=int, default=0, help="that the report was made with")
    parser.add_argument("--db", help="the store in which the sweep lies too")
    parser.add_argument("--classes", action="store_true", help="show the class of every field")
    options = parser.parse_args()
    report = read(options.report)
    if options.classes:
        for field, kind in classes(report):
            print(f"{kind:12} {field}")
    errors = (audit_sweep if "cases" in report else audit_fusion)(report, options.seed)
    if options.db:
        errors += audit_store(report, options.db)
    for error in errors:
        print(error)
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
