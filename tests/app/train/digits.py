"""scikit-learn's digits and a small network, as files for `workbench train`."""
import os

import numpy
import torch
from sklearn.datasets import load_digits


class Cnn(torch.nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.c1 = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.drop = torch.nn.Dropout(dropout)
        self.f = torch.nn.Linear(64, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.c1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.c2(x)), 2)
        return self.f(self.drop(x.flatten(1)))


def rows():
    digits = load_digits()
    return digits.images[:, None].astype("float32") / 16, digits.target.astype("int64")


def write(folder, count=None):
    """data.npz and net.pt2 (eval mode, any batch); returns images and labels."""
    x, y = rows()
    x, y = x[:count], y[:count]
    numpy.savez(os.path.join(folder, "data.npz"), x=x, y=y)
    export(Cnn(), os.path.join(folder, "net.pt2"), torch.tensor(x[:4]))
    return x, y


def export(model, path, example, train=False):
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(model.train() if train else model.eval(), (example,),
                                  dynamic_shapes=({0: batch},))
    torch.export.save(program, path)
