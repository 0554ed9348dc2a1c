"""Losses of each model by nw.per_model, their derivatives, and what traces or transforms them, against PyTorch's of one model at a
time."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import package  # noqa: E402

package.enter()

import dataclasses  # noqa: E402
import math  # noqa: E402
import unittest  # noqa: E402
import warnings  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import nwide as nw  # noqa: E402

N = 5


class Losses(unittest.TestCase):
    def test_losses_of_each_model(self):
        out, y = torch.randn(N, 7, 4, requires_grad=True), torch.randint(0, 4, (N, 7))
        y[1, 2] = y[3, 0] = 1
        real = torch.randn(N, 7, 4)
        weight = torch.rand(4)
        cases = [(F.cross_entropy, (out, y), {}), (F.cross_entropy, (out, y), {"ignore_index": 1}),
                 (F.cross_entropy, (out, y), {"label_smoothing": 0.1, "weight": weight}),
                 (F.cross_entropy, (torch.randn(N, 2, 4, 3), torch.randint(0, 4, (N, 2, 3))), {}),
                 (F.cross_entropy, (out, real.softmax(-1)), {}), (F.mse_loss, (out, real), {}),
                 (F.huber_loss, (out, real), {"delta": 0.5}), (F.binary_cross_entropy_with_logits, (out, real.sigmoid()), {}),
                 (lambda a, b: (a - b).abs().max(), (out, real), {})]
        for loss, args, kwargs in cases:
            got = nw.per_model(loss)(*args, **kwargs)
            expected = torch.stack([loss(*own, **kwargs) for own in zip(*args)])
            torch.testing.assert_close(got, expected)
        with self.assertRaisesRegex(nw.Error, r"^\[per_model\] arguments: got .*, expected .*; try "):
            nw.per_model(F.cross_entropy)(out, y[0])
        with self.assertRaisesRegex(nw.Error, r"^\[per_model\] loss: got .*, expected one number; try "):
            nw.per_model(lambda a, b: a - b)(out, real)

    def test_losses_without_a_hash(self):
        @dataclasses.dataclass
        class Scaled:
            scale: float

            def __call__(self, out, y):
                return self.scale * (out - y).square().mean()

        out, y = torch.randn(N, 7, 4), torch.randn(N, 7, 4)
        torch.testing.assert_close(nw.per_model(Scaled(2.0))(out, y), 2 * (out - y).square().mean((1, 2)))

    def test_classes_without_a_dimension_for_models(self):
        """Where there are as many rows as models the sizes alone do not tell."""
        y = torch.randint(0, 4, (N,))
        for shape, said in (((N, N, 4), rf"\({N}, {N}\)"), ((N, N, 4, 2), rf"\({N}, {N}, 2\)")):
            with self.assertRaisesRegex(nw.Error, rf"^\[per_model\] target: got \({N},\), expected {said}, .*; try y.expand"):
                nw.per_model(F.cross_entropy)(torch.randn(shape), y)
        out = torch.randn(N, N, 4)
        torch.testing.assert_close(nw.per_model(F.cross_entropy)(out, y.expand(N, N)), torch.stack([F.cross_entropy(own, y) for own in out]))

    def test_gradients_of_the_losses_of_one_node(self):
        """First and second derivatives, of rows ignored, of other strides, and beneath what looks at tensors otherwise."""
        target = torch.randint(0, 4, (N, 7))
        target[:, 3] = 2
        target[1] = 2  # all rows of a model
        for dtype, scale in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            out = torch.randn(N, 4, 7, dtype=dtype).transpose(1, 2).requires_grad_()
            real = torch.randn(N, 7, 4, dtype=dtype, requires_grad=True)
            weights = torch.rand(N, dtype=dtype)
            for loss, other, kwargs in ((F.cross_entropy, target, {}), (F.cross_entropy, target, {"ignore_index": 2}), (F.mse_loss, real, {})):
                with self.subTest(loss=loss.__name__, dtype=dtype, **kwargs):
                    wanted = [t for t in (out, other) if t.requires_grad]
                    got = nw.per_model(loss)(out, other, **kwargs)
                    expected = torch.stack([loss(*own, **kwargs) for own in zip(out, other)])
                    self.assertRegex(got.grad_fn.name(), "CrossEntropy|MeanSquare")
                    torch.testing.assert_close(got, expected, equal_nan=True, rtol=scale, atol=scale)
                    keep = expected.isfinite()
                    first, second = (torch.autograd.grad((of[keep] * weights[keep]).sum(), wanted, create_graph=True)
                                     for of in (got, expected))
                    for a, b in zip(first, second):
                        torch.testing.assert_close(a, b, rtol=scale, atol=scale)
                    plain = torch.autograd.grad((got[keep] * weights[keep]).sum(), wanted)
                    for a, b in zip(plain, second):
                        torch.testing.assert_close(a, b.detach(), rtol=scale, atol=scale)
                    twice = [torch.autograd.grad((g[0] ** 3).sum(), wanted) for g in (first, second)]
                    for a, b in zip(*twice):
                        torch.testing.assert_close(a, b, rtol=10 * scale, atol=10 * scale)
        for wrong in (4, -1):
            with self.assertRaisesRegex(IndexError, f"Target {wrong} is out of bounds"):
                nw.per_model(F.cross_entropy)(out, torch.full((N, 7), wrong))
        torch.testing.assert_close(torch.func.grad(lambda t: nw.per_model(F.mse_loss)(t, real).sum())(out), 2 * (out - real) / 28)
        got = torch.func.jvp(lambda t: nw.per_model(F.mse_loss)(t, real), (out,), (torch.ones_like(out),))[1]
        torch.testing.assert_close(got, (2 * (out - real) / 28).sum((1, 2)))

    def test_cross_entropy_of_scores_far_apart(self):
        for classes in (1, 2, 17, 1000):
            out, target = 3 * torch.randn(N, 7, classes), torch.randint(0, classes, (N, 7))
            out[0, 0] *= 1e4
            out[1] += 1e6
            if classes > 2:
                out[2, :, 1] = -math.inf  # a class that a mask excludes
                target[2][target[2] == 1] = 0
                target[3, 2], out[3, 2, 5] = 5, -math.inf  # ... though it is the target: an infinite loss
            out = torch.cat([out, torch.full((1, 7, classes), math.nan)])
            target = torch.cat([target, target[:1]])
            own = [t.requires_grad_() for t in (out.clone(), out.double())]
            losses = nw.per_model(F.cross_entropy)(own[0], target), torch.stack([F.cross_entropy(*each) for each in zip(own[1], target)])
            torch.testing.assert_close(losses[0].double(), losses[1], rtol=2e-6, atol=2e-6, equal_nan=True)
            for loss in losses:
                loss[loss.isfinite()].sum().backward()
            finite = losses[1].isfinite()
            torch.testing.assert_close(own[0].grad[finite].double(), own[1].grad[finite], rtol=1e-5, atol=1e-7)

    def test_losses_that_are_traced_or_of_a_batch_of_cotangents(self):
        out, y, real = torch.randn(N, 7, 4), torch.randint(0, 4, (N, 7)), torch.randn(N, 7, 4)
        for loss, target in ((F.cross_entropy, y), (F.mse_loss, real)):
            expected = torch.stack([loss(*own) for own in zip(out, target)])
            torch.testing.assert_close(nw.per_model(loss)(out, target=target), expected)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                traced = torch.jit.trace(lambda a, b, f=nw.per_model(loss): f(a, b), (out, target))
            other = torch.randn(N, 7, 4)
            torch.testing.assert_close(traced(other, target), torch.stack([loss(*own) for own in zip(other, target)]))
            jacobians = [torch.autograd.functional.jacobian(lambda a, f=nw.per_model(loss), b=target: f(a, b), out, vectorize=v)
                         for v in (True, False)]
            torch.testing.assert_close(*jacobians)


if __name__ == "__main__":
    unittest.main()
