"""Where models of `workbench train` start: every layer kind as PyTorch draws it."""
import os
import sys
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

HIDDEN, STEPS = 9, 5


class Sequence(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.head = torch.nn.Linear(HIDDEN, 3)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


class Cell(torch.nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell
        self.head = torch.nn.Linear(HIDDEN, 3)

    def forward(self, x):
        state = self.cell(x[:, 0])
        return self.head(state[0] if isinstance(state, tuple) else state)


class Begun(Train):
    def begun(self, *options, equal=("weight",)):
        """The notes on weights of three models that are equal in these, and what is in their files in the end."""
        self.linear_network_and_data()
        states = []
        for m in range(3):
            torch.manual_seed(m)
            state = torch.nn.Linear(4, 3).state_dict()
            states.append({name: states[0][name] if m and name in equal else value for name, value in state.items()})
            save_file(states[-1], self.path(f"start-{m}.safetensors"))
        given = [part for m in range(3) for part in ("--weights", self.path(f"start-{m}.safetensors"))]
        self.train(*given, "--epochs", "1", "--overwrite", *options)
        ends = [load_file(self.path(f"run/last/model-{m:04d}.safetensors")) for m in range(3)]
        same = {name for name in ends[0] if all(end[name].equal(ends[0][name]) for end in ends)}
        return [note for note in self.report()["notes"] if "equal" in note or "shared" in note], same

    def test_equal_weights_are_said_to_be_shared_only_if_they_are(self):
        self.assertEqual(self.begun(), (["1 of 2 weights begin equal in all models"], set()))
        self.assertEqual(self.begun("--freeze", "weight"),
                         (["1 of 2 weights begin equal in all models; frozen and therefore shared: 1"], {"weight"}))
        self.assertEqual(self.begun("--freeze", "bias"), (["1 of 2 weights begin equal in all models"], set()))
        self.assertEqual(self.begun(equal=()), ([], set()))


class Init(Train):
    def test_recurrent_layers_start_as_pytorch_draws_them(self):
        """Fresh unasked, as they look like it, each tensor over the whole of PyTorch's range and no further."""
        for features in (40, 4):  # linear layers of so many draw from a smaller range, and from a larger one
            random = numpy.random.default_rng(0)
            numpy.savez(self.path("data.npz"), x=random.normal(size=(24, STEPS, features)).astype("float32"),
                        y=random.integers(0, 3, 24))
            nn = torch.nn
            for name, net in {"lstm": Sequence(nn.LSTM(features, HIDDEN, 2, batch_first=True)),
                              "gru": Sequence(nn.GRU(features, HIDDEN, batch_first=True)),
                              "rnn": Sequence(nn.RNN(features, HIDDEN, batch_first=True)),
                              "lstm cell": Cell(nn.LSTMCell(features, HIDDEN)),
                              "gru cell": Cell(nn.GRUCell(features, HIDDEN)),
                              "rnn cell": Cell(nn.RNNCell(features, HIDDEN))}.items():
                with self.subTest(name, features=features):
                    digits.export(net, self.path("net.pt2"), torch.randn(4, STEPS, features))
                    self.train("-n", "8", "--lr", "0", "--epochs", "1", "--check", "0", "--overwrite", "--trust", "--quiet")
                    drawn = [load_file(self.path(f"run/last/model-{i:04d}.safetensors")) for i in range(8)]
                    for key in (k for k in drawn[0] if not k.startswith("head")):
                        most = max(float(model[key].abs().max()) for model in drawn)
                        self.assertLessEqual(most, HIDDEN ** -0.5 + 1e-6, key)
                        self.assertGreater(most, 0.9 * HIDDEN ** -0.5, key)
                        self.assertFalse(torch.equal(drawn[0][key], drawn[1][key]), key)


if __name__ == "__main__":
    unittest.main()
