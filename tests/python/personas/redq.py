"""REDQ (Chen et al. 2021, Randomized Ensembled Double Q-Learning): ten critics, each update with a random pair of targets."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import nwide as nw

N, STATE_ACTION, BATCH, GAMMA, RHO = 10, 14, 32, 0.99, 0.995


def critic():
    return nn.Sequential(nn.Linear(STATE_ACTION, 32), nn.ELU(), nn.Linear(32, 32), nn.ELU(), nn.Linear(32, 1))


def batches(updates):
    draw = torch.Generator().manual_seed(1)
    for _ in range(updates):
        here, after = torch.randn(2, BATCH, STATE_ACTION, generator=draw, dtype=torch.float64)
        yield here, after, here[:, :3].sum(1), torch.randperm(N, generator=draw)[:2]


def train(models, updates):
    critics = nw.compile(models, in_dims=None)
    targets = copy.deepcopy(critics).requires_grad_(False)
    optimizer = nw.optim.Adam(critics, lr=3e-4)
    for here, after, reward, pair in batches(updates):
        with torch.no_grad():
            goal = reward + GAMMA * targets.at(pair)(after)[..., 0].amin(0)
        optimizer.zero_grad()
        nw.per_model(F.mse_loss)(critics(here)[..., 0], goal.expand(N, -1)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for target, own in zip(targets.parameters(), critics.parameters()):
                target.lerp_(own, 1 - RHO)
    return critics, targets
