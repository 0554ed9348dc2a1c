"""What tests of `workbench train` have in common."""
import glob
import json
import os
import sys

import jsonschema
import numpy
import referencing
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from command_line import CommandLine


class Train(CommandLine):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def linear_network_and_data(self):
        """A linear layer as `net.pt2`, and 80 rows of three classes that one can tell apart as `data.npz`."""
        import digits  # loads scikit-learn

        random = numpy.random.default_rng(0)
        x = random.normal(0, 1, (80, 4)).astype("float32")
        numpy.savez(self.path("data.npz"), input=x, y=(x @ random.normal(0, 1, (4, 3))).argmax(1))
        digits.export(torch.nn.Linear(4, 3), self.path("net.pt2"), torch.randn(3, 4))

    def train(self, *arguments, expect=0, net="net.pt2", data="data.npz"):
        return self.workbench("train", self.path(net), "--data", self.path(data), "--no-store", "--save",
                              self.path("run"), *arguments, expect=expect)

    def fits_the_schema(self, report):
        folder = os.path.join(os.environ["WORKBENCH_SOURCE"], "data", "reports", "schema")
        resources = []
        for file in glob.glob(os.path.join(folder, "*.json")):
            with open(file, encoding="utf-8") as text:
                resource = json.load(text)
            resources.append((resource["$id"], referencing.Resource.from_contents(resource)))
        registry = referencing.Registry().with_resources(resources)
        schema = jsonschema.Draft202012Validator(registry.contents("run.json"), registry=registry)
        self.assertEqual([e.message for e in schema.iter_errors(report)], [])
        self.assertTrue(list(schema.iter_errors({**report, "more": 1})))

    def report(self):
        with open(self.path("run/report.json"), encoding="utf-8") as file:
            return json.load(file)

    def refused(self, message, *arguments, **files):
        run = self.train(*arguments, expect=2, **files)
        self.assertEqual(run.stderr.count("\n"), 1, run.stderr)
        self.assertIn(message, run.stderr.replace(self.folder + "/", ""))
