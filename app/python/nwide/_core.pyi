from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

Tensors = list[Tensor]

class Error(RuntimeError): ...

class Options:
    mode: str | None
    threads: int
    tune: bool
    autotune_s: float
    strategies: dict[str, str]
    strict: bool
    passes_off: set[str]
    verify: bool
    verbose: bool
    validate: bool
    rtol: float
    shared_inputs: set[str]
    input_names: list[str]
    signatures: int
    frozen: bool

class Recorded:
    program: str
    constants: Tensors
    updates: list[str]
    random: bool

def record(forward: Callable[[Tensors], Tensors], parameters: Sequence[tuple[str, Tensor]],
           buffers: Sequence[tuple[str, Tensor]], inputs: Sequence[Tensor], input_names: Sequence[str]) -> Recorded: ...

def targets() -> list[dict[str, Any]]: ...

class Core:
    def __init__(self, forward: Callable[[Tensors], Tensors],
                 instantiate: Callable[[Tensors], Callable[[Tensors], Tensors]],
                 parameters: Sequence[tuple[str, Tensor]], buffers: Sequence[tuple[str, Tensor]],
                 weights: Sequence[Tensor], shared: Sequence[bool], n: int, options: Options) -> None: ...
    def run(self, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[Tensors, list[tuple[int, Tensor]]]: ...
    def prepare(self, inputs: Sequence[Tensor]) -> None: ...
    def coverage(self) -> list[dict[str, Any]]: ...
    def explain(self) -> list[dict[str, Any]]: ...
    def benchmark(
        self, budget_s: float, seed: int, batched: Callable[[list[Tensor], list[bool]], Callable[[], list[Tensor]]],
        progress: Callable[[str], None],
    ) -> str: ...
    def validate(self, rtol: float = ...) -> dict[str, Any]: ...
    def plan(self) -> str: ...
    def program(self) -> str: ...
    def bytes(self) -> int: ...
    def signatures(self) -> int: ...
    def export(self, path: str) -> None: ...

class Stepped:
    def __init__(self, parameter: Tensor, gradient: Tensor, state: Sequence[Tensor], step: int, shared: bool) -> None: ...

def optimizers() -> dict[str, tuple[list[tuple[str, float, float, float]], list[tuple[str, str]]]]: ...
def optimizer_step(name: str, parameters: Sequence[Stepped], kept: Sequence[bool], hyper: Tensor) -> None: ...
