"""Networks by registered name and with tied weights, against PyTorch."""
import unittest

import numpy
import torch
from safetensors.torch import load_file, save_file

import digits
from train_command import Train


class Registered(Train):
    def test_as_torch_with_a_batch_of_another_size(self):
        x, y = torch.randn(21, 64), torch.randint(0, 64, (21,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        models = [torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64)) for _ in range(2)]
        names = {"fc1.weight": "0.weight", "fc1.bias": "0.bias", "fc2.weight": "2.weight", "fc2.bias": "2.bias"}
        for i, model in enumerate(models):
            state = model.state_dict()
            save_file({ours: state[theirs] for ours, theirs in names.items()}, self.path(f"w{i}.safetensors"))
        self.workbench("train", "mlp", "--data", self.path("d.npz"), "--weights", self.path("w0.safetensors"),
                       self.path("w1.safetensors"), "--order", "sequential", "--batch", "7", "--epochs", "2", "--lr", "0.1",
                       "--optimizer", "sgd", "--no-store", "--save", self.path("run"))
        for i, model in enumerate(models):
            model.double()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for begin in [0, 7, 14] * 2:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[begin:begin + 7].double()), y[begin:begin + 7]).backward()
                optimizer.step()
            got = load_file(self.path(f"run/last/model-{i:04d}.safetensors"))
            for ours, theirs in names.items():
                self.assertLess((got[ours] - model.state_dict()[theirs]).abs().max(), 2e-5, (i, ours))
        self.workbench("predict", self.path("run"), "--data", self.path("d.npz"), "--out", self.path("p.npz"), "--reduce", "none",
                       "--apply", "none")
        answers = torch.stack([model(x.double()) for model in models]).detach()
        self.assertLess((torch.tensor(numpy.load(self.path("p.npz"))["prediction"]) - answers).abs().max(), 2e-5)


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = (torch.nn.Conv2d(64, 64, 3, padding=1) for _ in range(2))
        self.b1, self.b2 = (torch.nn.BatchNorm2d(64) for _ in range(2))

    def forward(self, x):
        return torch.relu(x + self.b2(self.c2(torch.relu(self.b1(self.c1(x))))))


class RegisteredForms(Train):
    def trained(self, models, *more):
        x, y = torch.randn(8, 64, 16, 16), torch.randn(8, 64, 16, 16)
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        names = {name for name in models[0].state_dict() if "num_batches" not in name}
        for i, model in enumerate(models):
            save_file({name: model.state_dict()[name] for name in names}, self.path(f"w{i}.safetensors"))
        run = self.workbench("train", "resblock", "--data", self.path("d.npz"), "--weights", self.path("w0.safetensors"),
                             self.path("w1.safetensors"), "--order", "sequential", "--batch", "4", "--epochs", "2", "--lr",
                             "0.1", "--optimizer", "sgd", "--no-store", "--save", self.path("run"), "--overwrite",
                             "--validation", self.path("d.npz"), "--dtype", "f64", *more)
        for i, model in enumerate(models):
            model.double()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for begin in [0, 4] * 2:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x[begin:begin + 4].double()), y[begin:begin + 4].double()).backward()
                optimizer.step()
            got = load_file(self.path(f"run/last/model-{i:04d}.safetensors"))
            for name in names:
                self.assertLess((got[name] - model.state_dict()[name]).abs().max(), 2e-5, (i, name))
            loss = torch.nn.functional.mse_loss(model.eval()(x.double()), y.double()).item()
            self.assertAlmostEqual(self.report()["history"][-1]["loss"][i], loss, delta=1e-5)
        return run.stdout.splitlines()[0]

    def test_batch_norms_are_switched_on_for_training(self):
        line = self.trained([Residual().train() for _ in range(2)])
        self.assertIn("2 batch norms switched on for training", line)
        self.assertEqual(self.report()["switched"], {"dropout": 0, "batch_norm": 2})
        self.assertNotIn("switched", self.trained([Residual().eval() for _ in range(2)], "--as-exported"))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(5, 5, bias=False), torch.nn.Linear(5, 5)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class TiedWeights(Train):
    def test_are_one_that_both_places_move(self):
        x, y = torch.randn(30, 5), torch.randint(0, 5, (30,))
        numpy.savez(self.path("d.npz"), x=x.numpy(), y=y.numpy())
        for net in ("n.pt2", "n.ts"):
            model = Tied()
            if net == "n.pt2":
                digits.export(model, self.path(net), x[:3])
            else:
                torch.jit.script(model.eval()).save(self.path(net))
            self.train("-n", "2", "--init", "file", "--order", "sequential", "--batch", "10", "--epochs", "2", "--lr", "0.1",
                       "--optimizer", "sgd", "--momentum", "0.9", "--overwrite", net=net, data="d.npz")
            model.double()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            for begin in [0, 10, 20] * 2:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[begin:begin + 10].double()), y[begin:begin + 10]).backward()
                optimizer.step()
            got = load_file(self.path("run/last/model-0001.safetensors"))
            self.assertTrue(torch.equal(got["a.weight"], got["b.weight"]))
            Tied().load_state_dict(got, strict=True)
            for name, tensor in model.state_dict().items():
                self.assertLess((got[name] - tensor).abs().max(), 2e-5, (net, name))


if __name__ == "__main__":
    unittest.main()
