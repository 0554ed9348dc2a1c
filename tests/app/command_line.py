"""What tests of the command line have in common."""
import os
import subprocess
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from folder import InFolder

BINARY = os.environ["WORKBENCH_BINARY"]


def randomised(make, seed):
    """A network in eval mode whose weights are all its own, saved statistics included."""
    torch.manual_seed(seed)
    model = make().eval()
    saved = model.state_dict()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
            elif name in saved and buffer.is_floating_point():
                buffer.normal_(0, 0.1)
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


class CommandLine(InFolder):
    """Runs the program in a folder that lives as long as a test."""

    def workbench(self, *arguments, expect=0):
        run = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=400)
        self.assertEqual(run.returncode, expect, run.stdout[-2000:] + run.stderr[-2000:])
        return run
