"""A search by Optuna's ask and tell: eight trials at a time as one wide run, in which those that it gives up stop."""

from optuna.trial import TrialState

import nwide as nw


def search(study, make, rounds, **options):
    runs = []
    for number in range(rounds):
        trials = [study.ask() for _ in range(8)]
        rates = [trial.suggest_float("lr", 1e-4, 1e-1, log=True) for trial in trials]

        def report(look):
            for i in look.running:
                trials[i].report(look.values["loss"][i], look.step)
                if trials[i].should_prune():
                    look.stop(i)

        run = nw.train(make, nw.zip(lr=rates), callbacks=report, save=f"round-{number}", **options)
        for trial, loss, status in zip(trials, run.table["loss"], run.table["status"]):
            study.tell(trial, loss, TrialState.COMPLETE) if status == "trained" else study.tell(trial, state=TrialState.PRUNED)
        runs.append(run)
    return runs
