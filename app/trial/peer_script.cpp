#include "app/trial/peer_script.h"

namespace wide {

const char* const kPeerScript = R"PY(
import json, math, os, signal, sys, threading, time
folder, limit_s = sys.argv[1], 300
def say(**what):
    print("PEER " + json.dumps(what), flush=True)
def breathe():
    while True:
        time.sleep(5)
        say()
threading.Thread(target=breathe, daemon=True).start()
def last_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
try:
    import torch
    from torch.func import functional_call, vmap
    from torch.utils import _pytree as pytree
except ImportError as error:
    say(absent=str(error))
    sys.exit()
with open(os.path.join(folder, "case"), encoding="utf-8") as file:
    case = json.load(file)
torch.set_num_threads(case["threads"])
n, phase, device = case["n"], case["phase"], case["device"]
on_cpu = device == "cpu"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case["tf32"]
dtypes = {"Float": torch.float32, "Double": torch.float64, "Half": torch.float16, "BFloat16": torch.bfloat16,
          "Long": torch.int64, "Int": torch.int32, "Short": torch.int16, "Char": torch.int8, "Byte": torch.uint8,
          "Bool": torch.bool}
def read(k, t):
    with open(os.path.join(folder, str(k)), "rb") as data:
        content = bytearray(data.read())
    shape, dtype = t["sizes"] if t["shared"] else [n, *t["sizes"]], dtypes[t["dtype"]]
    return (torch.frombuffer(content, dtype=dtype).reshape(shape) if content else torch.empty(shape, dtype=dtype)).to(device)

# The network, its weights by name and its inputs in order; then what the phase has beside them.
try:
    program = torch.export.load(os.path.join(folder, "one.pt2"))
    if not on_cpu:
        from torch.export.passes import move_to_device_pass
        program = move_to_device_pass(program, device)
    module = program.module()
except Exception as error:
    say(absent=last_line(error))
    sys.exit()
wide = [read(k, t) for k, t in enumerate(case["tensors"])]
inner = case["inner"]
weights = {case["tensors"][k]["name"]: k for k in range(inner) if not case["tensors"][k]["input"]}
inputs = [k for k in range(inner) if case["tensors"][k]["input"]]
optimizer = None
if case["optimizer"]:
    sys.path.insert(0, folder)
    import optimizer
wanted, cotangents, real = case["wanted"], case["cotangents"], case["real_outputs"]

def one(state, arguments):
    return [y for y in pytree.tree_leaves(functional_call(module, state, arguments)) if isinstance(y, torch.Tensor)]

def of(tensors):
    return {name: tensors[k] for name, k in weights.items()}, tuple(tensors[k] for k in inputs)

def outputs_and_gradients(function, tensors):
    """The outputs; in other phases the gradients of `wanted`, then buffers that the call changed."""
    if phase == "forward":
        with torch.no_grad():
            return function(*of(tensors))
    leaves = [tensors[k].detach().requires_grad_() for k in wanted]
    tensors = list(tensors)
    for k, leaf in zip(wanted, leaves):
        tensors[k] = leaf
    results = function(*of(tensors))
    pairs = [(results[o], tensors[c]) for o, c in zip(real, cotangents) if results[o].requires_grad]
    gradients = torch.autograd.grad([y for y, _ in pairs], leaves, [c.reshape(y.shape) for y, c in pairs], allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for g, p in zip(gradients, leaves)]
    return gradients + [y.detach() for y in results[case["outputs"]:]]

def updates(hyper, parameters, gradients, moments, rate):
    """What the parameters of all models become, each with a learning rate of its own."""
    return [optimizer.update(p, g, rate.reshape(-1, *[1] * (p.dim() - 1)).to(p.dtype), hyper, *state)
            for p, g, *state in zip(parameters, gradients, *moments)]

def stepper(tensors, k):
    """torch.optim's own fused step of one model's parameters."""
    group = [tensors[i] for i in wanted]
    own = optimizer.fused(group, float(tensors[case["rate"]]), case["hyper"])
    for i, p in enumerate(group):
        state = {name: tensors[case["state"] + m * len(wanted) + i] for m, name in enumerate(case["moments"])}
        if state:
            own.state[p] = {"step": torch.tensor(1e5, device=device), **state}
    return group, own

def looped():
    """One model after the other, as a script with a compiled module does it."""
    function = torch.compile(one, dynamic=False)
    models = [[t if about["shared"] else t[i].clone() for t, about in zip(wide, case["tensors"])] for i in range(n)]
    optimizers = [stepper(t, i) for i, t in enumerate(models)] if phase == "step" else []
    def call():
        made = []
        for i, t in enumerate(models):
            results = outputs_and_gradients(function, t)
            if phase == "step":
                group, optimizer = optimizers[i]
                for p, g in zip(group, results):
                    p.grad = g
                optimizer.step()
                results = [p.detach().clone() for p in group] if not made_once else []
            made.append(results)
        return made
    made_once = []
    first = call()
    made_once.append(True)
    return call, [torch.stack([r[k] for r in first]) for k in range(len(first[0]))]

def batched():
    """All models by vmap, compiled as a whole."""
    dims = of([None if t["shared"] else 0 for t in case["tensors"]])
    everywhere = dims[0].values(), dims[1]
    if all(d is None for group in everywhere for d in group):
        raise ValueError("vmap needs a weight or an input that differs between models")
    mode = "reduce-overhead" if case["graphs"] else None
    function = torch.compile(vmap(one, in_dims=dims, randomness="error"), dynamic=False, mode=mode)
    step = torch.compile(updates, dynamic=False, mode=mode)
    def call():
        if case["graphs"]:  # a graph's results are overwritten by its next replay
            torch.compiler.cudagraph_mark_step_begin()
        results = outputs_and_gradients(function, wide)
        if phase == "step":
            moments = [[wide[case["state"] + m * len(wanted) + i] for i in range(len(wanted))] for m in range(len(case["moments"]))]
            with torch.no_grad():
                results = step(case["hyper"], [wide[k] for k in wanted], results[:len(wanted)], moments, wide[case["rate"]])
        return results
    return call, call()

def time_ns(call):
    """Of one call; on a device from one event to another, as the candidates are timed there."""
    if on_cpu:
        begun = time.perf_counter_ns()
        call()
        return time.perf_counter_ns() - begun
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return round(start.elapsed_time(stop) * 1e6)

others = torch.zeros(case["cache_bytes"] // 4, device=device)
def answer(name, make):
    if phase == "step" and optimizer is None:
        return say(name=name, absent="its optimiser is not known to it")
    def too_long(*_):
        raise TimeoutError(f"no first result within {limit_s} s")
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit_s)
    try:
        begun = time.perf_counter_ns()
        call, results = make()
        results = [r.detach().cpu() for r in results]
        first_ns = time.perf_counter_ns() - begun
    except Exception as error:
        return say(name=name, absent=last_line(error))
    finally:
        signal.alarm(0)
    for k, result in enumerate(results):
        content = result.contiguous().view(-1)
        with open(os.path.join(folder, f"{name}.{k}"), "wb") as out:
            out.write(bytes(content.view(torch.uint8).numpy()) if content.numel() else b"")
    # As the others are timed: what ran before has filled the caches, then a call refills them.
    end, short, samples = time.monotonic() + case["budget_s"], 20e6, []
    while len(samples) < case["min_samples"] or (time.monotonic() < end and len(samples) < 1000):
        if not samples or samples[-1] < short:
            others.add_(1)
            call()
        samples.append(time_ns(call))
    say(name=name, samples_ns=samples, first_call_ns=first_ns,
        results=[[list(r.shape), str(r.dtype).removeprefix("torch.")] for r in results])

answer("loop", looped)
answer("vmap", batched)
say(done=True)
)PY";

}  // namespace wide
