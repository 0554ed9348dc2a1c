"""Population-based training (Jaderberg et al. 2017): at each evaluation the worst quarter takes over from the best quarter, and
goes on with a learning rate that is a little different."""

import random

import nwide as nw


def train(make, rates, seed=0, **options):
    draw = random.Random(seed)

    def exploit_and_explore(look):
        order = sorted(look.running, key=lambda i: look.values["loss"][i])
        quarter = len(order) // 4
        for good, bad in zip(order[:quarter], order[-quarter:]):
            look.copy(good, bad)
            look.set(bad, lr=look.hyperparameters[good]["lr"] * draw.choice([0.8, 1.25]))

    return nw.train(make, nw.zip(lr=rates), callbacks=exploit_and_explore, **options)
