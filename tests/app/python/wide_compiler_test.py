"""Programs written for WideCompiler run after their import was changed."""

import package

package.enter()

import unittest  # noqa: E402

import torch  # noqa: E402

import nwide as nw  # noqa: E402
import nwide.wide_compiler as wide_compiler  # noqa: E402


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(64, 128)
        self.fc2 = torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.fc2(torch.nn.functional.relu(self.fc1(x)))


def right(wide, models, inputs):
    with torch.no_grad():
        outputs = wide_compiler.unpack(wide(wide_compiler.pack(inputs)), n=len(models))
        return all(torch.allclose(y, m.double()(x.double()).float(), atol=1e-5)
                   for y, m, x in zip(outputs, models, inputs))


class Programs(unittest.TestCase):
    def test_a_list(self):
        models = [MLP() for _ in range(11)]
        inputs = [torch.randn(32, 64) for _ in range(11)]
        sample = torch.randn(1, 64)
        for wide in (wide_compiler.compile(models, sample),
                     wide_compiler.compile(models, sample, compile_model=True),
                     wide_compiler.compile(models, sample, validate=True),
                     wide_compiler.WideBuilder(models).with_sample(sample).validate().compile(mode="default").build()):
            self.assertTrue(right(wide, [wide[i].module() for i in range(11)], inputs))
            torch.testing.assert_close(wide[3].state_dict()["fc1.weight"], models[3].fc1.weight.detach())

    def test_one_model(self):
        wide = wide_compiler.compile(MLP(), torch.randn(1, 64), n=5)
        models = [wide[i].module() for i in range(5)]
        self.assertFalse(torch.equal(models[0].fc1.weight, models[1].fc1.weight))
        self.assertTrue(right(wide, models, [torch.randn(3, 64) for _ in range(5)]))

    def test_presets(self):
        config = wide_compiler.WideConfig
        for made in (config.default(), config.fast(), config.safe(), config.debug(),
                     config(compile=True, compile_mode="reduce-overhead", validate=True, validate_rtol=1e-3)):
            models = [MLP() for _ in range(3)]
            wide = wide_compiler.compile(models, torch.randn(1, 64), config=made)
            self.assertTrue(right(wide, models, [torch.randn(3, 64) for _ in range(3)]))
        modes = [made.options.mode for made in (config.default(), config.safe(), config.fast(),
                                                config(compile=True, compile_mode="max-autotune"))]
        self.assertEqual(modes, ["eager", "eager", "default", "max-autotune"])
        self.assertTrue(config.safe().options.validate)
        self.assertTrue(config.debug().options.verbose)

    def test_refused(self):
        with self.assertRaisesRegex(nw.Error, r"\[unpack\] models: got 3, expected 4; try"):
            wide_compiler.unpack(torch.zeros(3, 2), n=4)
        with self.assertRaisesRegex(nw.Error, r"\[compile\] n: got none, expected how many models; try n=8"):
            wide_compiler.compile(MLP(), torch.randn(1, 64))
        for name in ("compile_model", "validate"):
            with self.assertRaisesRegex(nw.Error, rf"^\[compile\] {name}: got it beside config, which says it too, expected one of the "
                                                  r"two; try config=WideConfig\(compile=..., validate=...\)$"):
                wide_compiler.compile([MLP(), MLP()], torch.randn(1, 64), config=wide_compiler.WideConfig.fast(), **{name: True})


if __name__ == "__main__":
    unittest.main()
