"""Training of one model by PyTorch, one step after the other, from the same start, rows and rates."""
import copy

import torch

from . import draws


class Evaluation:
    """What a model was at one: the mean of its steps' losses since the last one, its outputs on the validation rows, its weights."""

    def __init__(self, step, train_loss, outputs, weights):
        self.step, self.train_loss, self.outputs, self.weights = step, train_loss, outputs, weights


class Trajectory:
    """All evaluations of a model; `diverged`: the step at which it was left as it was, or None."""

    def __init__(self):
        self.evaluations, self.diverged, self.skipped, self.last_weights = {}, None, [], None


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, groups, lr, betas):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            old, kept = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                direction = (old * m + (1 - old) * p.grad).sign()
                p.sub_(group["lr"] * (direction + group["weight_decay"] * p))
                m.mul_(kept).add_((1 - kept) * p.grad)


def optimizer_of(name, groups, hyper):
    own = torch.optim
    betas = (hyper.get("beta1"), hyper.get("beta2"))
    if name == "sgd":
        return own.SGD(groups, lr=hyper["lr"], momentum=hyper["momentum"], nesterov=bool(hyper["nesterov"]),
                       dampening=hyper["dampening"], foreach=False)
    if name == "rmsprop":
        return own.RMSprop(groups, lr=hyper["lr"], momentum=hyper["momentum"], alpha=hyper["alpha"], eps=hyper["eps"], foreach=False)
    if name == "lion":
        return Lion(groups, hyper["lr"], betas)
    made = own.Adam if name == "adam" else own.AdamW
    return made(groups, lr=hyper["lr"], betas=betas, eps=hyper["eps"], foreach=False)


def factors(schedule, warmup, steps):
    """The factor of the learning rate at each step, by torch.optim.lr_scheduler."""
    name, _, more = schedule.partition(":")
    first = round(float(warmup[:-1]) / 100 * steps) if warmup.endswith("%") else int(warmup)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    kinds = torch.optim.lr_scheduler
    left = steps - first
    made = {"constant": lambda: kinds.ConstantLR(optimizer, 1.0),
            "cosine": lambda: kinds.CosineAnnealingLR(optimizer, left, eta_min=float(more or 0)),
            "linear": lambda: kinds.LinearLR(optimizer, 1.0, 0.0, left),
            "step": lambda: kinds.StepLR(optimizer, int(more.split(",")[0]), float(more.split(",")[1])),
            "onecycle": lambda: kinds.OneCycleLR(optimizer, 1.0, total_steps=steps, cycle_momentum=False)}[name]()
    all_of_them = [(t + 1) / first for t in range(first)]
    for t in range(left):
        all_of_them.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if t + 1 < left:
            made.step()
    return all_of_them


def evaluated(network, state, given):
    """Forward's outputs in evaluation with these weights, always a list."""
    network.load_state_dict(state)
    network.eval()
    with torch.no_grad():
        outputs = network(*given)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def finite(tensors):
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


class Loop:
    """One model's training. `dtype` may be wider than the run's own: data are rounded to the run's first."""

    def __init__(self, job, model, dtype):
        self.job, self.model, self.dtype = job, model, dtype
        self.network = copy.deepcopy(job.network).to(dtype)
        self.judged = copy.deepcopy(self.network)  # evaluates, with averaged weights where there are some
        self.scorer = job.scorer(model)
        part, rows = job.data.rows_of("train", model)
        self.part, self.given = part, job.data.inputs(part, model, list(range(part.count)), dtype)
        self.rows = rows
        self.target = part.of("target", model.number) if part.target is not None else None
        # Row weights are brought to the run's precision in a step.
        self.weight = part.of("weight", model.number).to(job.data.dtype) if part.weight is not None else None
        held, held_rows = job.data.rows_of("validation", model)
        self.held = job.data.inputs(held, model, held_rows, dtype) if held_rows else None

    def batches(self, steps):
        """Row numbers of each step."""
        options, data = self.job.asked.options, self.job.data
        seed = self.job.models[0].seeds["order"] if options.same_order else self.model.seeds["order"]
        for step in range(steps):
            epoch, place = divmod(step, data.steps_per_epoch)
            if place == 0:
                order = range(len(self.rows)) if options.order == "sequential" else draws.order(len(self.rows), seed, epoch)
                order = list(order)[:data.rows]
            yield [self.rows[k] for k in order[place * data.batch:(place + 1) * data.batch]]

    def run(self, start):
        job, hyper, asked = self.job, self.model.hyper, self.job.asked
        steps, trajectory = job.steps, Trajectory()
        self.network.load_state_dict({name: tensor.to(self.dtype) if tensor.is_floating_point() else tensor
                                      for name, tensor in start.items()})
        trained = {name: p for name, p in self.network.named_parameters() if name not in job.frozen}
        for name, p in self.network.named_parameters():
            p.requires_grad_(name in trained)
        groups = [{"params": [p for name, p in trained.items() if (name in job.no_decay) == bare],
                   "weight_decay": 0.0 if bare else hyper["weight_decay"]} for bare in (False, True)]
        optimizer = optimizer_of(asked.options.optimizer, [group for group in groups if group["params"]], hyper)
        average = {name: p.detach().clone() for name, p in trained.items()} if hyper["ema"] else {}
        rates = factors(asked.options.schedule, asked.options.warmup, steps)
        losses = []
        for step, rows in enumerate(self.batches(steps), 1):
            for group in optimizer.param_groups:
                group["lr"] = hyper["lr"] * rates[step - 1]
            with draws.dropping(self.model.seeds["dropout"], step - 1, hyper.get("dropout"), job.dtype):
                loss = self.step(optimizer, list(trained.values()), rows, self.batch_of(step - 1, rows))
            if loss is None:
                trajectory.diverged = step
                break
            if loss == "nothing counts":
                trajectory.skipped.append(step)
            else:
                losses.append(loss)
                for name in average:
                    average[name].mul_(hyper["ema"]).add_(trained[name].detach(), alpha=1 - hyper["ema"])
            if step % job.eval_every == 0 or step == steps:
                state = self.state(average)
                outputs = evaluated(self.judged, state, self.held) if self.held else None
                trajectory.evaluations[step] = Evaluation(step, sum(losses) / len(losses) if losses else None, outputs, state)
                losses = []
        trajectory.last_weights = self.state(average)
        return trajectory

    def state(self, average):
        return {name: tensor.detach().clone() for name, tensor in {**self.network.state_dict(), **average}.items()}

    def batch_of(self, step, rows):
        """Forward's arguments, augmented where that was asked for."""
        how = [part for text in self.job.asked.options.augment for part in text.split(",")]
        if not how:
            return [values[rows] for values in self.given]
        return self.job.data.inputs(self.part, self.model, rows, self.dtype,
                                    lambda images: draws.augmented(images, how, self.model.seeds["dropout"], step))

    def step(self, optimizer, trained, rows, given):
        """The loss before the step, "nothing counts" for a batch without any weight, or None where a number was not finite: then
        all is left as it was."""
        self.network.train()
        before = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        outputs = self.network(*given)
        total, counts = self.scorer.sums(list(outputs) if isinstance(outputs, (tuple, list)) else [outputs],
                                         None if self.target is None else self.target[rows],
                                         None if self.weight is None else self.weight[rows])
        if float(counts) == 0:
            self.network.load_state_dict(before)
            return "nothing counts"
        loss = total / counts
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in trained if p.grad is not None]
        if finite([loss.detach(), *gradients]):
            limit = self.model.hyper["clip"]
            if limit > 0:
                norm = torch.stack([g.double().square().sum() for g in gradients]).sum().sqrt()
                for g in gradients:
                    g.mul_(min(1.0, limit / (float(norm) + 1e-6)))
            optimizer.step()
            if finite(self.network.state_dict().values()):
                return float(loss.detach())
        self.network.load_state_dict(before)
        return None
