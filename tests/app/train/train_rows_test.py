"""`workbench train --rows`: which rows are which model's, from a file, and what of it is refused; epochs of models' own."""
import os
import sys
import unittest

import numpy
import safetensors.numpy
import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digits
from train_command import Train

LISTS = [[5, 1, 1, 30, 17, 2, 2], [9], list(range(10, 40))]


class Rows(Train):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(0)
        self.x = random.normal(0, 1, (40, 4))
        self.y = (self.x @ random.normal(0, 1, (4, 3))).argmax(1)
        numpy.savez(self.path("data.npz"), input=self.x, y=self.y)
        self.net = torch.nn.Linear(4, 3).double()
        digits.export(self.net, self.path("net.pt2"), torch.randn(3, 4, dtype=torch.float64))
        self.write([(m, row) for m, rows in enumerate(LISTS) for row in rows])

    def write(self, lines, head="model,row"):
        with open(self.path("rows.csv"), "w", encoding="utf-8") as file:
            file.write("\n".join([head, *(",".join(map(str, line)) for line in lines)]) + "\n")

    def options(self, *more):
        return ("--rows", self.path("rows.csv"), "--target", "y", "--init", "file", "--batch", "4", "--order", "sequential", "--lr",
                "0.1", "--check", "0", *more)

    def trained(self, rows, epochs):
        net = torch.nn.Linear(4, 3).double()
        net.load_state_dict(self.net.state_dict())
        step = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.01)
        x, y = torch.tensor(self.x), torch.tensor(self.y)
        for _ in range(epochs):
            for begin in range(0, len(rows), 4):
                step.zero_grad()
                F.cross_entropy(net(x[rows[begin:begin + 4]]), y[rows[begin:begin + 4]]).backward()
                step.step()
        return net

    def loss(self, net, rows):
        with torch.no_grad():
            return F.cross_entropy(net(torch.tensor(self.x)[rows]), torch.tensor(self.y)[rows]).item()

    def test_each_model_learns_from_its_own(self):
        held = [[0, 3], [4], [6, 7, 8]]
        self.write([(m, row, use) for use, of in enumerate((LISTS, held)) for m, rows in enumerate(of) for row in rows],
                   "model,row,use")
        for epochs, option in ((2, ("--epochs", "2")), ((1, 3, 2), ("--set", "epochs=1,3,2"))):
            said = self.train(*self.options(*option, "--overwrite")).stdout
            self.assertIn("38 rows of models' own and 6 to validate", said)
            report = self.report()
            self.fits_the_schema(report)
            for m, rows in enumerate(LISTS):
                own = epochs if isinstance(epochs, int) else epochs[m]
                model = report["models"][m]
                self.assertEqual((model["status"], model["at_step"]), ("trained", own * -(-len(rows) // 4)))
                last = [row["loss"][m] for row in report["history"] if row["loss"][m] is not None][-1]
                self.assertAlmostEqual(last, self.loss(self.trained(rows, own), held[m]), delta=1e-9)
            self.assertEqual(report["ensemble"], {"validation": {}, "test": {}})

    def test_a_range_of_epochs_is_of_whole_numbers(self):
        self.train(*self.options("--set", "epochs=log:1..10"))
        self.assertEqual([model["hyperparameters"]["epochs"] for model in self.report()["models"]], [1, 3, 10])

    def test_rows_that_changed_since_the_run_began_are_refused(self):
        self.train(*self.options("--epochs", "1"))
        self.write([(m, row) for m, rows in enumerate([LISTS[0], [8], LISTS[2]]) for row in rows])
        said = self.workbench("train", "--resume", self.path("run"), "--epochs", "2", "--no-store", expect=2).stderr
        self.assertEqual(said.replace(self.folder + "/", "").replace(os.path.realpath(self.folder) + "/", ""),
                         "[rows.csv] rows of models: got others, expected those that the run began with; try the file that it began with\n")

    def epoch(self, number, x, y):
        os.makedirs(self.path("epochs"), exist_ok=True)
        safetensors.numpy.save_file({"input": x, "y": y}, self.path(f"epochs/{number}.safetensors"))

    def test_rows_of_each_epoch(self):
        each = [(self.x * (k + 1), numpy.roll(self.y, k)) for k in range(3)]
        for k, (x, y) in enumerate(each):
            self.epoch(k, x, y)
        options = [option for option in self.options("-n", "2", "--epochs", "3", "--validation", self.path("data.npz"), "--epoch-data",
                                                     self.path("epochs")) if option not in ("--rows", self.path("rows.csv"))]
        self.train(*options)
        net, (x, y) = self.net, (torch.tensor(self.x), torch.tensor(self.y))
        step, losses = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.01), []
        for own, target in each:
            for begin in range(0, 40, 4):
                step.zero_grad()
                F.cross_entropy(net(torch.tensor(own[begin:begin + 4])), torch.tensor(target[begin:begin + 4])).backward()
                step.step()
            losses.append(F.cross_entropy(net(x), y).item())
        for row, loss in zip(self.report()["history"], losses):
            self.assertAlmostEqual(row["loss"][0], loss, delta=1e-9)
        self.epoch(1, self.x[1:], self.y[1:])
        self.refused("[epochs/1.safetensors] column input: got [39, 4], expected [40, 4] as the first epoch has; try the same rows in each",
                     *options, "--overwrite")
        self.epoch(1, self.x, self.y + 2)
        self.refused("[epochs/1.safetensors] target y: got a class that is none of 0 to 2, expected those of the first epoch; try other "
                     "labels", *options, "--overwrite")
        self.refused("[--epoch-data] rows: got models with different numbers of rows, whose epochs are of different lengths, expected one "
                     "length; try as many rows for each", *self.options("--epoch-data", self.path("epochs"), "--overwrite"))

    def test_what_is_refused(self):
        for lines, head, words in (
                ([(0, 1)], "model,line", "[rows.csv] column line: got it, expected model, row and use alone; try to leave it out"),
                ([(0, 40)], "model,row", "[rows.csv] column row: got 40 in line 2, expected a whole number from 0 to 39; try another"),
                ([(0, 1.5)], "model,row", "[rows.csv] column row: got 1.5 in line 2, expected a whole number from 0 to 39; try another"),
                ([(0, 1), (2, 1)], "model,row", "[rows.csv] model 1: got no row to learn from, expected some; try models counted from 0"),
                ([(0, 1, 0), (1, 1, 0), (0, 2, 1)], "model,row,use",
                 "[rows.csv] model 1: got no row to validate, expected some as the others have; try to add one"),
                ([(0, 1, 0), (0, 4, 1), (1, 5, 0), (1, 7, 0), (1, 7, 1)], "model,row,use",
                 "[rows.csv] model 1: got row 7 to learn from and to validate, expected one use of it; try to leave one out"),
                ([(0, 1, 0), (0, 4, 1), (0, 1, 2)], "model,row,use",
                 "[rows.csv] model 0: got row 1 to learn from and to test, expected one use of it; try to leave one out"),
                ([(0, 1, 0), (0, 4, 1), (0, 4, 2)], "model,row,use",
                 "[rows.csv] model 0: got row 4 to validate and to test, expected one use of it; try to leave one out")):
            self.write(lines, head)
            self.refused(words, *self.options())
        self.write([(0, 1), (1, 2), (1, 3)])
        self.refused("[models] count: got 2 from --rows and 3 from -n, expected them to agree; try to leave one out",
                     *self.options("-n", "3"))
        self.refused("[--rows] rows: got folds too, expected one of them; try to leave one out", *self.options("--folds", "2"))
        self.write([(0, 1, 0), (0, 2, 1)], "model,row,use")
        self.refused("[--validation] rows: got it and a column use that says them, expected one of them; try to leave one out",
                     *self.options("--validation", "0.2"))
        self.write([(0, row) for row in range(40)])
        for own in ((), ("--set", "epochs=2")):
            options = self.options("--part", "1/2", *own)
            self.refused("[--part] models: got rows or epochs of their own, expected the same for all models, "
                         "so that all parts end at one step; try it without --part", *(options[2:] + ("-n", "4") if own else options))
        self.refused("[epochs] value: got 1.5, expected a whole number from 1 on; try 10", *self.options("--set", "epochs=1.5"))
        self.refused("[epochs] length: got --steps too, expected one of them; try to leave one out",
                     *self.options("--set", "epochs=2", "--steps", "5"))
        self.refused("[--epochs] length: got the key epochs too, expected one of them; try to leave one out",
                     *self.options("--set", "epochs=2", "--epochs", "5"))
        self.write([(m, row) for m, rows in enumerate(LISTS) for row in rows])
        self.refused("got models with different numbers of steps, expected one number, as it runs to the last step; try constant\n",
                     *self.options("--set", "epochs=1,2,3", "--schedule", "cosine"))
        self.refused("got models with different numbers of steps, expected one number, as it runs to the last step; try constant, or --steps 16\n",
                     *self.options("--epochs", "2", "--schedule", "cosine"))
        self.refused("[--wait] store: got --no-store, expected one that requests stand in; try --db FILE", *self.options("--wait"))


if __name__ == "__main__":
    unittest.main()
