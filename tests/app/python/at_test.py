"""Some of the models, and rows of different models, by numbers that are known at run time."""

import package

package.enter()

import copy  # noqa: E402
import threading  # noqa: E402
import unittest  # noqa: E402
from unittest import mock  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from gradients_test import cnn, data, mlp, off, twins  # noqa: E402

import nwide as nw  # noqa: E402
from nwide.rows import Routed  # noqa: E402

JOINED = r"^\[at\] rows: got answers that depend on the other rows of a batch, expected each row by itself, as rows fill up batches; try "

class Total(torch.nn.Module):
    """One number for a batch."""

    def __init__(self, seed):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(float(seed + 1), dtype=torch.float64))

    def forward(self, x):
        return (x * self.scale).sum()


class Centred(nn.Module):
    """Less the mean of a batch."""

    def forward(self, x):
        return x - x.mean(0)


class Floor(nn.Module):
    """Whole numbers."""

    def forward(self, x):
        return x.floor()


class Gated(nn.Module):
    """A line, and where a parameter is not 0 also the mean of a batch."""

    def __init__(self):
        super().__init__()
        self.line, self.gate = nn.Linear(5, 6), nn.Parameter(torch.zeros(1))

    def forward(self, x, joined=True):
        y = self.line(x)
        return y + self.gate * y.mean(0, keepdim=True) if joined else y


class At(unittest.TestCase):
    def test_some_of_the_models(self):
        models, wide = twins(mlp, 7)
        for ids in ([4, 1], [1, 6], torch.tensor([2, 0]), [5, 5]):
            x = data(2, 4, 5).requires_grad_()
            wide.zero_grad()
            y = wide.at(ids)(x)
            y.square().sum().backward()
            for model in models:
                model.zero_grad()
            own = x.detach().clone().requires_grad_()
            out = torch.stack([models[int(i)](o) for i, o in zip(ids, own)])
            out.square().sum().backward()
            self.assertLess(off(y, out), 1e-12)
            self.assertLess(off(x.grad, own.grad), 1e-9)
            for name, p in wide.named_parameters():
                for i, model in enumerate(models):
                    g = model.get_parameter(name).grad
                    self.assertLess(off(p.grad[i], torch.zeros_like(p[i]) if g is None else g), 1e-9)
        self.assertEqual(list(wide._some), [2])
        self.assertEqual(wide._some[2]._last().signatures(), 1)
        for wrong_ids in ([7], [-1], [], [[0, 1]]):
            with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got .*, expected .*; try "):
                wide.at(wrong_ids)

    def test_rows_of_different_models(self):
        """A batch of requests, each for its user's model: answers and gradients as if each row were computed alone."""
        generator = torch.Generator().manual_seed(3)
        for kind, n, shape, ids in ((mlp, 7, (5,), torch.randint(7, (19,), generator=generator)), (mlp, 7, (5,), [3, 3, 3]),
                                    (mlp, 9, (5,), [8, 0, 8, 1, 0, 8]), (mlp, 1, (5,), [0] * 6), (cnn, 5, (2, 8, 8), [4, 1, 1, 4, 1, 0])):
            models, wide = twins(kind, n)
            wide.eval()
            x = data(len(ids), *shape).requires_grad_()
            for of in (wide, copy.deepcopy(wide).freeze()) if n == 9 else (wide,):
                y = of.at(ids, rows=True)(x)
                out = torch.cat([models[int(i)].eval()(row[None]) for i, row in zip(ids, x)])
                self.assertLess(off(y, out), 1e-12)
            y = wide.at(ids, rows=True)(x)
            weight = torch.rand(out.shape, dtype=out.dtype, generator=generator)
            got = torch.autograd.grad((y.square() * weight).sum(), [x, *wide.parameters()], allow_unused=True)
            parameters = [model.get_parameter(name) for name, _ in wide.named_parameters() for model in models]
            own = torch.autograd.grad((out.square() * weight).sum(), [x, *parameters], allow_unused=True)
            self.assertLess(off(got[0], own[0]), 1e-9)
            for k, wide_gradient in enumerate(got[1:]):
                for i, g in enumerate(own[1 + k * n:1 + (k + 1) * n]):
                    self.assertLess(off(wide_gradient[i], torch.zeros_like(wide_gradient[i]) if g is None else g), 1e-9)

    def test_rows_of_different_models_compile_few_sizes(self):
        models, wide = twins(mlp, 6)
        generator = torch.Generator().manual_seed(4)
        for rows in range(1, 40):
            ids = torch.randint(6, (rows,), generator=generator)
            x = data(rows, 5)
            with torch.no_grad():
                y = wide.at(ids, rows=True)(x)
            self.assertLess(off(y, torch.stack([models[int(i)](row) for i, row in zip(ids, x)])), 1e-12)
        self.assertLessEqual(wide._last().signatures() + sum(some._last().signatures() for some in wide._some.values()), 10)
        for wrong, words in ((lambda: wide.at([0, 1], rows=True)(data(3, 5)), r"rows: got \(3, 5\), expected \[2, ...\], a row for each id"),
                             (lambda: twins(cnn, 4)[1].at([3, 1], rows=True)(data(2, 2, 8, 8)), "rows: got a forward that changes its buffers"),
                             (lambda: nw.compile([Total(i) for i in range(3)]).at([2, 1], rows=True)(data(2, 5)),
                              r"answer: got \(\), expected a row for each row of the batch")):
            with self.assertRaisesRegex(nw.Error, rf"^\[at\] {words}.*; try "):
                wrong()

    def test_rows_that_reach_each_other_are_refused(self):
        for layer in (nn.BatchNorm1d(6, track_running_stats=False), Centred()):
            models = [nn.Sequential(nn.Linear(5, 6), copy.deepcopy(layer)).double() for _ in range(3)]
            wide = nw.compile(models).eval()
            own = wide.at([0, 0, 1, 1], rows=True)(data(4, 5))
            self.assertLess(off(own, torch.cat([m(x) for m, x in zip(models, data(4, 5).split(2))])), 1e-12)
            with self.assertRaisesRegex(nw.Error, r"^\[at\] rows: got answers that depend on the other rows of a batch, expected .*; try "):
                wide.at([0, 0, 0, 1, 1], rows=True)(data(5, 5))

    def test_rows_that_reach_each_other_are_refused_after_calls_that_do_not_show_it(self):
        """Zeros, equal rows, another argument, others of the models."""
        class Optional(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.line, self.norm = nn.Embedding(7, 6), nn.Linear(5, 6), nn.BatchNorm1d(6, track_running_stats=False)

            def forward(self, x, joined=True):
                y = self.line(x) if x.is_floating_point() else self.table(x)
                return self.norm(y) if joined else y

        ids, few = torch.tensor([0, 0, 0, 1, 2, 3]), torch.tensor([0, 0, 0])
        real, whole = data(6, 5), torch.tensor([1, 5, 2, 6, 0, 3])
        models = [Optional().double() for _ in range(4)]
        for first in ((few, real[:3], False), (ids, real, False), (ids, torch.full((6,), 3), None), (few, torch.zeros(3).long(), None)):
            wide = nw.compile(models)
            own = wide.at(first[0], rows=True)(first[1], *([] if first[2] is None else [first[2]]))
            for row, i in enumerate(first[0]):
                if first[2] is False:
                    self.assertLess(off(own[row], models[i](first[1][row:row + 1], False)[0]), 1e-12)
            for which, x in ((ids, real), (few, real[:3])) if first[2] is False else ((ids, whole), (few, whole[:3])):
                with self.assertRaisesRegex(nw.Error, r"^\[at\] rows: got answers that depend on the other rows of a batch, "):
                    wide.at(which, rows=True)(x)
        wide = nw.compile(models)
        with self.assertRaisesRegex(nw.Error, r"^\[at\] rows: got answers that depend on the other rows of a batch, "):
            wide.at(ids, rows=True)(torch.zeros(6, 5, dtype=torch.float64))

    def test_the_check_of_rows_leaves_whole_numbers_what_they_are(self):
        class Codes(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(3, 2)

            def forward(self, codes):
                return self.table(codes.long())

        models = [Codes() for _ in range(3)]
        wide = nw.compile(models)
        for codes in (torch.zeros(4), torch.full((4,), 2.0), torch.tensor([0.0, 2.0, 1.0, 2.0])):
            before = torch.get_rng_state()
            answers = wide.at([0, 0, 0, 1], rows=True)(codes)
            self.assertTrue(torch.equal(before, torch.get_rng_state()))
            self.assertLess(off(answers, torch.stack([models[i](c) for i, c in zip([0, 0, 0, 1], codes)])), 1e-6)
        self.assertTrue(wide._rows_checked[wide._some.get(2, wide)._recorder])

    def test_rows_are_checked_again_after_changes_of_modes_and_loads(self):
        models, ids, x = [Gated().double() for _ in range(3)], [0, 0, 0, 1, 2], data(5, 5)
        joined = copy.deepcopy(models)
        for model in joined:
            nn.init.ones_(model.gate)

        def trained(wide):
            wide.train().copy_to(models)
            with torch.no_grad():
                wide.get_parameter("gate").fill_(1.0)
            wide.eval()

        for change in (trained, lambda wide: wide.load_state_dict(nw.compile(joined).state_dict()),
                       lambda wide: wide[0].load_state_dict(joined[0].state_dict()),
                       lambda wide: nn.ModuleList([wide]).load_state_dict(nn.ModuleList([nw.compile(joined)]).state_dict())):
            for few in (ids, [0, 0, 0]):
                wide = nw.compile(models).eval()
                answers = wide.at(few, rows=True)(x[:len(few)])
                self.assertLess(off(answers, torch.stack([models[i](row[None])[0] for i, row in zip(few, x)])), 1e-12)
                change(wide)
                with self.assertRaisesRegex(nw.Error, JOINED):
                    wide.at(few, rows=True)(x[:len(few)])

    def test_rows_are_not_checked_again_where_no_mode_changes(self):
        """Nor by a copy, which has the same programs."""
        models, ids, x = [nn.Linear(5, 6).double() for _ in range(3)], [0, 0, 0, 1, 2], data(5, 5)
        wide = nw.compile(models).eval()
        wide.at(ids, rows=True)(x)
        copied = copy.deepcopy(wide)
        copied.at(ids, rows=True)(x)
        with mock.patch.object(Routed, "_computed", autospec=True, side_effect=Routed._computed) as computed:
            for own in (wide, copied, wide):
                answers = own.eval().at(ids, rows=True)(x)
                self.assertLess(off(answers, torch.stack([models[i](row) for i, row in zip(ids, x)])), 1e-12)
        self.assertEqual(computed.call_count, 3)

    def test_rows_of_values_that_forward_does_not_take_with_something_added(self):
        class Rounded(nn.Module):
            def __init__(self, joined=False):
                super().__init__()
                self.table, self.joined = nn.Embedding(3, 2), joined

            def forward(self, codes):
                y = self.table(codes.round().long())
                return y + y.mean(0, keepdim=True) if self.joined else y

        class Factors(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(3, 2)

            def forward(self, x):
                return self.line(torch.linalg.cholesky(x).sum(-1))

        ids = [0, 0, 0, 1]
        for kind, x in ((Rounded, torch.full((4,), 2.0)), (Factors, 2 * torch.eye(3).expand(4, 3, 3))):
            models = [kind() for _ in range(3)]
            wide = nw.compile(models).eval()
            expected = torch.stack([models[i](row[None])[0] for i, row in zip(ids, x)])
            self.assertLess(off(wide.at(ids, rows=True)(x), expected), 1e-6)
            with mock.patch.object(Routed, "_computed", autospec=True, side_effect=Routed._computed) as computed:
                self.assertLess(off(wide.at(ids, rows=True)(x), expected), 1e-6)
            self.assertEqual(computed.call_count, 1)
        for first in (2.0, 1.0):  # with something added no code, or the same one
            wide = nw.compile([nn.Sequential(Floor(), Rounded(True)) for _ in range(3)]).eval()
            wide.at(ids, rows=True)(torch.full((4,), first))
            with self.assertRaisesRegex(nw.Error, JOINED):
                wide.at(ids, rows=True)(torch.tensor([0.0, 2.0, 1.0, 2.0]))

    def test_a_check_of_rows_is_of_the_call_that_it_follows(self):
        """Another thread's call of another kind, right after this one's program ran, stays unchecked."""
        models, ids, x = [Gated().double() for _ in range(3)], [0, 0, 0, 1, 2], data(5, 5)
        for model in models:
            nn.init.ones_(model.gate)
        wide = nw.compile(models).eval()
        plain = Routed._computed

        def followed(routed, *args):
            made = plain(routed, *args)
            if not threads:
                threads.append(threading.Thread(target=lambda: wide(torch.stack([x] * 3), True)))
                threads[0].start()
                threads[0].join()
            return made

        threads = []
        with mock.patch.object(Routed, "_computed", followed):
            answers = wide.at(ids, rows=True)(x, False)
        self.assertLess(off(answers, torch.stack([models[i](row, False) for i, row in zip(ids, x)])), 1e-12)
        with self.assertRaisesRegex(nw.Error, JOINED):
            wide.at(ids, rows=True)(x, True)

    def test_of_a_frozen_module_are_what_was_frozen(self):
        """Whatever layers there are, and however many of the models are asked for."""
        def net(i):
            torch.manual_seed(i)
            return nn.Sequential(nn.Conv1d(2, 3, 3), nn.PReLU(), nn.BatchNorm1d(3), nn.Flatten(), nn.LayerNorm(9), nn.Linear(9, 2)).double()

        models = [net(i).eval() for i in range(4)]
        wide = nw.compile(copy.deepcopy(models), options=nw.Options(tune=False, threads=1)).eval().freeze()
        x = data(4, 7, 2, 5)
        before = torch.stack([m(own) for m, own in zip(models, x)])
        for change in (lambda p: p.add_(0.5), lambda p: p.mul_(0)):
            with torch.no_grad():
                for p in wide.parameters():
                    change(p)
            self.assertLess(off(wide(x), before), 1e-12)
            self.assertLess(off(wide.at([2])(x[2:3]), before[2:3]), 1e-12)
            for ids in ([1], [0, 1, 2, 3]):
                answers = wide.at(ids, rows=True)(torch.stack([x[i, 0] for i in ids]))
                self.assertLess(off(answers, torch.stack([before[i, 0] for i in ids])), 1e-12)
                self.assertFalse(answers.requires_grad)
        wide.freeze()
        self.assertLess(wide(x).abs().max(), 1e-12)

    def test_hooks_of_the_wide_module_are_refused(self):
        wide, x = nw.compile([torch.nn.Linear(4, 2) for _ in range(3)]), torch.randn(2, 5, 4)
        for add in (wide.register_forward_hook, wide.register_forward_pre_hook, wide.register_full_backward_hook):
            hook = add(lambda *_: None)
            for call in (lambda: wide.at([0, 2])(x), lambda: wide.at([0, 2], rows=True)(x)):
                with self.assertRaisesRegex(nw.Error, r"^\[at\] hook of the wide module: got one that .*; try code around wide.at"):
                    call()
            hook.remove()
            self.assertEqual(wide.at([0, 2])(x).shape, (2, 5, 2))

    def test_numbers_of_models_are_whole(self):
        _, wide = twins(mlp, 4)
        for ids in ([True, False, True, False], [1.5], torch.tensor([1.0, 2.0])):
            with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got torch\.(bool|float32), expected whole numbers; try "):
                wide.at(ids)

        for ids, got in ((slice(0, 2), r"slice\(0, 2, None\)"), ("ab", "'ab'"), ({0, 1}, r"\{0, 1\}"), (None, "None")):
            with self.assertRaisesRegex(nw.Error, rf"^\[at\] ids: got {got}, expected numbers of models; try a list, such as "
                                                  r"list\(range\(2\)\) for a slice$"):
                wide.at(ids)
        class Table:
            def __repr__(self):
                return "0    a\n1    b"

        with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got 0 a 1 b, expected numbers of models; try .*\Z"):
            wide.at(Table())
        with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got \['a', 'a', .{,40}\.\.\.\], expected numbers of models; try "):
            wide.at(["a"] * 1000)
        for ids in ([], (), torch.empty(0, dtype=torch.long)):
            with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got \(0,\), expected a row of numbers of models; try \[0, 3\]$"):
                wide.at(ids)

    def test_a_model_twice_has_statistics_but_once(self):
        _, wide = twins(cnn, 4)
        with self.assertRaisesRegex(nw.Error, r"^\[at\] ids: got a model twice in \[3, 1, 3\], expected each once.*; try eval"):
            wide.at([3, 1, 3])(data(3, 4, 2, 8, 8))
        self.assertEqual(wide.state_dict()["1.num_batches_tracked"].tolist(), [0] * 4)
        self.assertEqual(wide.eval().at([3, 1, 3])(data(3, 4, 2, 8, 8)).shape, (3, 4, 4))


if __name__ == "__main__":
    unittest.main()
