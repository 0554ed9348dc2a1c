"""Modules off the CPU: what a call waits for, and what is refused, by name, before anything is computed.

No GPU is needed: devices and streams are stand-ins."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402
from nwide import tracing  # noqa: E402

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


class On:
    """A tensor, as far as devices go."""

    requires_grad = True

    def __init__(self, device):
        self.device = torch.device(device)


class Stream:
    """A stream that knows which others it waited for."""

    def __init__(self):
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other)


def compiled():
    torch.manual_seed(0)
    return nw.compile([nn.Linear(4, 2) for _ in range(3)], torch.randn(5, 4))


def on_stream(stream, capturing=False):
    return mock.patch.multiple("torch.cuda", current_stream=lambda device: stream, is_current_stream_capturing=lambda: capturing)


class Refused(unittest.TestCase):
    def refuses(self, text, call, *arguments, **named):
        with self.assertRaises(nw.Error) as caught:
            call(*arguments, **named)
        self.assertEqual(str(caught.exception), text)

    def test_tensors_of_two_devices(self):
        named = [("weight", On("cuda:0")), ("input x", On("cpu"))]
        text = "[run] input x: got a tensor on cpu, expected one on cuda:0 as the others; try .to(\"cuda:0\")"
        self.refuses(text, tracing.device_of, named)
        self.assertEqual(tracing.device_of([("weight", On("cpu")), ("input x", On("cpu"))]), CPU)
        self.assertEqual(tracing.device_of([]), CPU)
        wide = compiled()
        wide._recorder.device = GPU  # as if its tensors were there: a call of another size is recorded, and looks
        self.refuses(text.replace("x:", "input:"), wide, torch.randn(3, 6, 4))

    def test_devices_without_a_plugin(self):
        self.refuses("[device] xpu:0: got a module on it, expected one on the CPU or on a CUDA device; try module.cpu()",
                     tracing.device_of, [("weight", On("xpu:0"))])
        opened = mock.Mock(return_value="no driver: libcuda.so.1: not there")
        with mock.patch.object(nw._core, "open_cuda", opened, create=True):
            self.refuses("[device] cuda:0: got no CUDA in this package (no driver: libcuda.so.1: not there), expected its plugin "
                         "and a driver; try module.cpu()", tracing.device_of, [("weight", On("cuda:0"))])
            opened.return_value = ""
            self.assertEqual(tracing.device_of([("weight", On("cuda:0"))]), GPU)
        opened.assert_called_with(os.path.dirname(nw.__file__))

    def test_gradients(self):
        wide, x = compiled(), torch.randn(3, 5, 4)
        expected = wide(x).detach()
        wide._recorder.order = tracing.Order(GPU)
        with on_stream(Stream()):
            self.refuses("[backward] call on cuda:0: got tensors that require gradients, expected none off the CPU; try "
                         "torch.no_grad() around the call, or nw.train(..., device=\"cuda:0\") to train on a GPU", wide, x)
            with torch.no_grad():
                self.assertTrue(torch.equal(wide(x), expected))
            wide.requires_grad_(False)
            self.assertTrue(torch.equal(wide(x), expected))

    def test_captures_by_the_caller(self):
        wide = compiled()
        wide._recorder.order = tracing.Order(GPU)
        with on_stream(Stream(), capturing=True), torch.no_grad():
            self.refuses("[run] call on cuda:0: got one in the capture of a CUDA graph, expected one outside; try "
                         "nw.Options(mode=\"reduce-overhead\"), which captures the call itself", wide, torch.randn(3, 5, 4))

    def test_what_works_on_the_cpu_alone(self):
        wide = compiled()
        optimizer = nw.optim.Muon(wide, params=[wide.weight])
        with mock.patch.object(type(wide), "_weights", lambda self: [On("cuda:0")]):
            self.refuses("[at] wide module: got tensors on cuda:0, expected tensors on the CPU; try wide(x) with inputs of all "
                         "models, or wide.cpu()", wide.at, [0])
            self.refuses("[export] wide module: got tensors on cuda:0, expected tensors on the CPU; try wide.cpu().export(path)",
                         wide.export, "wide.pt2")
        there = compiled().to("meta")
        for make in (nw.optim.AdamW, nw.optim.Muon):
            with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] weight: got tensors on meta, expected tensors on the CPU; try nw.train"):
                make(there)
        with self.assertRaisesRegex(nw.Error, r"^\[nw.optim\] parameter: got tensors on cuda:0, expected tensors on the CPU; try nw.train"):
            optimizer._step_group({}, [On("cuda:0")], [], [], [], [False], [], torch.ones(1, 4))  # moved after it was made

    def test_clipping_takes_numbers_of_the_cpu(self):
        wide, seen = compiled(), []
        wide.weight.grad = torch.ones_like(wide.weight)
        plain = torch.as_tensor
        with mock.patch("torch.as_tensor", lambda value, **named: seen.append(named.get("device")) or plain(value, **named)):
            nw.clip_grad_norm_(wide, torch.tensor([1.0, 2.0, 3.0]))
        self.assertEqual(seen, [CPU], "they are moved to where the gradients are")


class Streams(unittest.TestCase):
    def test_a_call_waits_for_the_one_before(self):
        wide, x = compiled(), torch.randn(3, 5, 4)
        with torch.no_grad():
            wide(x)
            wide._recorder.order = tracing.Order(GPU)
            first, second = Stream(), Stream()
            for stream in (first, first, second, first, first):
                with on_stream(stream):
                    wide(x)
        self.assertEqual((first.waited, second.waited), ([second], [first]))


if __name__ == "__main__":
    unittest.main()
