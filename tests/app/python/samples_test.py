"""Monte-Carlo samples of one module, and arguments that are known when a call is compiled."""

import package

package.enter()

import copy  # noqa: E402
import unittest  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import nwide as nw  # noqa: E402


class MonteCarlo(unittest.TestCase):
    def test_means_and_variances_are_those_of_the_formula(self):
        torch.manual_seed(0)
        p, samples, x = 0.3, 4000, torch.randn(5, 6)
        net = nn.Sequential(nn.Linear(6, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(p), nn.Linear(40, 3))
        net(torch.randn(50, 6))  # statistics of its own
        statistics = copy.deepcopy(net.state_dict())
        wide = nw.compile(net, x, n=samples, in_dims=None, share_weights=True, dropout=True)
        self.assertEqual([w.shape for w in wide.parameters()], [w.shape for w in net.parameters()])
        y = wide(x).detach().double()
        self.assertEqual(y.shape, (samples, 5, 3))
        kept = copy.deepcopy(net).double().eval()
        h, last = kept[:3](x.double()), kept[4].weight
        with torch.no_grad():
            variance = torch.einsum("bh,oh->bo", h ** 2, last ** 2) * p / (1 - p)
            self.assertLess(float(((y.mean(0) - kept(x.double())) / (variance / samples).sqrt()).abs().max()), 5)
            self.assertLess(float((y.var(0) / variance - 1).abs().max()), 0.2)
        for name, value in wide.state_dict().items():
            self.assertTrue(torch.equal(value, statistics[name]), name)
        self.assertTrue(net.training)  # the caller's own module is as it was
        self.assertRegex(str(wide.coverage), "linear +linear +shared")  # once for all, as it comes before the dropout

    def test_layers_that_drop_inside(self):
        net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.4, batch_first=True)
        wide = nw.compile(net, n=3, in_dims=None, share_weights=True, dropout=True)
        y = wide(torch.randn(2, 5, 8))
        self.assertGreater(float((y[0] - y[1]).abs().max()), 1e-3)
        own = nw.compile([copy.deepcopy(net) for _ in range(3)]).eval()
        x = torch.randn(3, 2, 5, 8)  # in eval nothing is dropped: bit for bit in every call, and as the module itself
        first = own(x)
        self.assertTrue(torch.equal(first, own(x)))
        for i in range(3):
            torch.testing.assert_close(first[i], net.eval()(x[i]), rtol=1e-5, atol=1e-5)

    def test_gradients_are_the_sum_over_samples(self):
        net = nn.Linear(4, 2).double()
        wide = nw.compile(net, n=3, share_weights=True)
        x = torch.randn(3, 5, 4, dtype=torch.float64)
        wide(x).square().sum().backward()
        sum(net(one).square().sum() for one in x).backward()
        torch.testing.assert_close(wide.weight.grad, net.weight.grad)

    def test_errors(self):
        with self.assertRaisesRegex(nw.Error, r"^\[compile\] share_weights: got models with weights of their own, expected .*; try "):
            nw.compile([nn.Linear(2, 2)] * 3, share_weights=True)
        with self.assertRaisesRegex(nw.Error, r"^\[compile\] dropout: got a module without any, expected .*; try "):
            nw.compile(nn.Linear(2, 2), n=3, dropout=True)
        with self.assertRaisesRegex(nw.Error, r"^\[compile\] dropout: got list, expected .*; try "):
            nw.compile([nn.Dropout(0.5)] * 3, dropout=True)


class Functional(nn.Module):
    """Dropout by functions beside a layer; with `p`, in the attention too."""

    def __init__(self, p=0.0):
        super().__init__()
        self.first, self.drop, self.norm, self.last = nn.Linear(6, 40), nn.Dropout(0.1), nn.BatchNorm1d(40), nn.Linear(40, 3)
        self.p = p

    def forward(self, x):
        h = self.norm(self.drop(self.first(x)))
        if not self.p:
            return self.last(F.dropout(h, 0.5, self.training))
        h = h.view(1, len(h), 4, 10).transpose(1, 2)
        h = F.scaled_dot_product_attention(h, h, h, dropout_p=self.p if self.training else 0.0)
        return self.last(h.transpose(1, 2).reshape(-1, 40))


class FunctionalDropout(unittest.TestCase):
    def test_is_refused_by_name_where_it_would_be_left_out(self):
        x = torch.randn(5, 6)
        for net, where in ((Functional(), "the model itself"), (Functional(0.5), "the model itself"),
                           (nn.Sequential(nn.Linear(6, 6), Functional()), "1"), (Functional().train(), "the model itself")):
            said = rf"^\[compile\] dropout: got functional dropout in {where}, which eval mode leaves out, expected .*; try net.train\(\)"
            with self.assertRaisesRegex(nw.Error, said):
                nw.compile(net, x, n=3, in_dims=None, share_weights=True, dropout=True)
            wide = nw.compile(net, n=3, dropout=True)
            for call in (lambda: wide(x.expand(3, 5, 6)), lambda: wide.at([0, 2])(x.expand(2, 5, 6))):
                self.assertRaisesRegex(nw.Error, said, call)
            with torch.inference_mode():
                self.assertRaisesRegex(nw.Error, said, lambda: wide(torch.ones(3, 5, 6)))
            wide.eval()  # draws nothing, as asked for
            torch.testing.assert_close(wide(x.expand(3, 5, 6))[1], net.eval()(x), rtol=1e-5, atol=1e-5)

    def test_other_chance_of_train_mode_is_not_dropout(self):
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.drop, self.leaky = nn.Dropout(0.4), nn.RReLU()

            def forward(self, x):
                return self.drop(self.leaky(x + torch.randn_like(x)) if self.training else self.leaky(x))

        x = torch.randn(50, 60)
        y = nw.compile(Noisy(), x, n=3, in_dims=None, share_weights=True, dropout=True)(x)
        kept = F.rrelu(x) / 0.6
        self.assertTrue(bool(((y == 0) | torch.isclose(y, kept)).all()))
        self.assertLess(abs(float((y == 0).float().mean()) - 0.4), 0.05)

    def test_the_way_out_works(self):
        """Variances of the samples are those of one module's own calls."""
        torch.manual_seed(0)
        samples, x = 4000, torch.randn(5, 6)
        for p in (0.0, 0.5):
            net = Functional(p)
            net(torch.randn(50, 6))
            net.train().norm.eval()
            y = nw.compile(net, x, n=samples, in_dims=None, share_weights=True)(x).detach().double()
            with torch.no_grad():
                own = torch.stack([net(x) for _ in range(samples)]).double()
            self.assertLess(float((y.var(0) / own.var(0) - 1).abs().max()), 0.2)
            self.assertLess(float(((y.mean(0) - own.mean(0)) / (own.var(0) * 2 / samples).sqrt()).abs().max()), 5)


class Graph(nn.Module):
    """A graph convolution with self-loops, for as many nodes as its edges name."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, edges):
        loop = torch.arange(int(edges.max().item()) + 1)
        source, target = torch.cat([edges, torch.stack([loop, loop])], 1)
        h = self.linear(x)
        return torch.zeros_like(h).index_add(0, target, h[source])


class Constants(unittest.TestCase):
    def test_values_are_known_when_compiled(self):
        torch.manual_seed(0)
        models = [Graph().double() for _ in range(3)]
        edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        x = torch.randn(3, 4, 4, dtype=torch.float64)
        with self.assertRaisesRegex(nw.Error, "data-dependent"):
            nw.compile(models, (x[0], edges))
        wide = nw.compile(copy.deepcopy(models), (x[0], nw.constant(edges)))
        for count, given in ((1, edges), (1, edges.clone()), (2, edges[:, :3]), (2, edges)):
            wide.zero_grad()
            y = wide(x, nw.constant(given))
            y.square().sum().backward()
            for i, model in enumerate(models):
                model.zero_grad()
                expected = model(x[i], given)
                expected.square().sum().backward()
                torch.testing.assert_close(y[i], expected)
                torch.testing.assert_close(wide.get_parameter("linear.weight").grad[i], model.linear.weight.grad)
            self.assertEqual(len(wide._cores), count)

    def test_a_copy_is_taken(self):
        edges = torch.tensor([[0, 1], [1, 0]])
        kept = nw.constant(edges)
        edges.zero_()
        self.assertEqual(kept.tensor.tolist(), [[0, 1], [1, 0]])
        self.assertEqual(kept, nw.constant(torch.tensor([[0, 1], [1, 0]])))
        self.assertNotEqual(kept, nw.constant(edges))
        self.assertNotEqual(nw.constant(torch.zeros(2)), nw.constant(torch.zeros(2, 1)))
        self.assertEqual(nw.constant(torch.zeros(0)), nw.constant(torch.zeros(0)))

    def test_errors(self):
        with self.assertRaisesRegex(nw.Error, r"^\[constant\] argument: got int, expected a tensor; try "):
            nw.constant(3)


if __name__ == "__main__":
    unittest.main()
