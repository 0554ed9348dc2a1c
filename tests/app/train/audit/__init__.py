"""The auditor of training runs: every number that a run says, computed again by code that shares nothing with the program.

It is given a run's folder, the command line that began it, the network as a Python module, and the data. Every field of
report.json, models.csv, oof.npz, split.npz, the checkpoints, the run's rows in the store, the file of --log, and all that
`report`, `compare` and `predict` print or write is put into exactly one of three classes; a field in none of them, or in
two, is a finding, as is a wrong one:

  recomputed from checkpoints and data   metrics, test metrics, mean answers, out-of-fold predictions, predictions, tables by
                                         configuration, splits, hyperparameters and seeds
  recomputed by an independent loop      curves, best steps, who stopped, was pruned or diverged when, the checkpoints themselves
  held for consistency                   times, bytes, counts, versions

  asked      the command line, and the N models that it asks for       rows           data, splits, normalisation
  draws      what is drawn by counter: orders, splits, starts          scores         losses by PyTorch, metrics by scikit-learn
  loop       training of one model by torch.optim                      job            all of these for one run
  truth      what every number should be, with its tolerance           spreads        means, deviations, intervals
  ledger     the three classes                                         evidence       what the run left behind
  *_checks   the fields of a document, one after the other             texts, pages   what is printed, --html
  drawn      configurations drawn by a seed                            planted        errors that have to be found

Tolerances. PyTorch computes each number twice, in float64 and in the run's precision (a run in float64: from a start that is
off by 1e-14). A number may be off by 20 times the difference of the two, plus 1e-5 of itself in float32 and 1e-9 in float64.
An interval's ends may lie where 2000 resamples put them by chance.
"""
from . import file_checks, output_checks
from .evidence import gather
from .job import Job
from .report_checks import ReportCheck
from .truth import Truth, planned

__all__ = ["Job", "Truth", "audit", "gather", "planned"]


def audit(job, evidence, known=None):
    """What is wrong or in no class, a line each. `known`: the truth of the same checkpoints, which need not be computed again."""
    findings = []
    truth = Truth(job, evidence.checkpoints, evidence.report, known)
    report = ReportCheck(job, truth, evidence, findings)
    report.check()
    file_checks.checkpoints(job, truth, evidence, report.decisions, findings)
    file_checks.models_csv(job, evidence.report, evidence, findings)
    file_checks.split(job, evidence, findings)
    file_checks.out_of_fold(job, truth, evidence, findings)
    file_checks.store(job, evidence, findings)
    file_checks.log(job, evidence, findings)
    output_checks.outputs(job, truth, evidence, findings)
    output_checks.predictions(job, truth, evidence, findings)
    return findings
