"""The classes of `primitives` and `blocks`, made from what is registered, and how WideCompiler calls torch.nn's layers."""

import copy
import functools
import re

from torch import nn

from ...layers import TARGETS, WideLayer

# WideCompiler's class names that cannot be derived from a target's name or source.
NAMES = {"attention_block": "Attention", "mlp_block": "MLP", "multiheadcrossattention": "MultiheadCrossAttention",
         "naive_layernorm": "NaiveLayerNorm", "naive_mha": "NaiveMHA"}


def self_attention(module, x, **options):
    return type(module).forward(module, x, x, x, need_weights=False, **options)[0]


def cross_attention(module, x, context, **options):
    return type(module).forward(module, x, context, context, need_weights=False, **options)[0]


def recurrent(module, x, *state):
    """Returns the output and each part of the state, which is `[B, H]` if the module has one layer and one direction."""
    single = module.num_layers == 1 and not module.bidirectional
    state = [s.unsqueeze(0) if single else s for s in state]
    lstm = isinstance(module, nn.LSTM)
    given = (tuple(state),) if state and lstm else state
    y, last = type(module).forward(module, x, *given)
    return y, *(s.squeeze(0) if single else s for s in (last if lstm else (last,)))


CALLS = {("attention", nn.MultiheadAttention): self_attention,
         ("multiheadcrossattention", nn.MultiheadAttention): cross_attention,
         ("gru", nn.GRU): recurrent, ("lstm", nn.LSTM): recurrent, ("rnn", nn.RNN): recurrent}


class Layer(WideLayer):
    """A wide layer called as WideCompiler's are: self attention takes `x` alone, recurrent layers return a flat tuple."""

    @classmethod
    def from_modules(cls, modules, strategy="auto", *, options=None):
        """N separate modules as one, by WideCompiler's names of strategies: "sequential" is `per_model`."""
        return super().from_modules(modules, "per_model" if strategy == "sequential" else strategy, options=options)

    @classmethod
    def _as_called(cls, module):
        call = next((c for (target, layer), c in CALLS.items() if target == cls.target and isinstance(module, layer)), None)
        if call is None:
            return module
        own = copy.copy(module)
        own.__dict__["forward"] = functools.partial(call, own)
        return own

    def _one_model(self):
        own = super()._one_model()
        if isinstance(vars(own).get("forward"), functools.partial):
            del own.__dict__["forward"]  # use the class's own forward
        return own


def class_name(target):
    """WideCompiler's class name of a target, such as WideRMSNorm for `rmsnorm` (torch.nn.RMSNorm)."""
    plain = target.name.replace("_", "")
    spelt = next((word for word in re.findall(r"\w+", target.source) if word.lower() == plain), "")
    words = "".join(part[:1].upper() + part[1:] for part in target.name.split("_"))
    return "Wide" + (NAMES.get(target.name) or spelt or words)


@functools.cache
def classes(kind, module):
    """By name: a class for each target of this kind, as members of `module`."""
    found = {}
    for target in TARGETS.values():
        if target.kind == kind:
            name = class_name(target)
            text = f"N modules of `{target.name}` as one: {target.summary}.\n\n{target.formula}"
            found[name] = type(name, (Layer,), {"__module__": module, "__qualname__": name, "__doc__": text,
                                                "target": target.name})
    return found
