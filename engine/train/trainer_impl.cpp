#include "engine/train/trainer_impl.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "engine/compile.h"
#include "engine/error.h"
#include "engine/lower/plan/ranges.h"
#include "engine/train/step_check.h"

namespace wide {
namespace {

/// While it exists, the model in a slot has other values in its trained tensors.
class OtherWeights {
 public:
  OtherWeights(const Tensors& trained, int64_t slot, const Tensors& values) {
    for (size_t k = 0; k < values.size(); ++k) {
      rows_.push_back(trained[k].select(0, slot));
      own_.push_back(rows_.back().clone());
      rows_.back().copy_(values[k]);
    }
  }
  OtherWeights(const OtherWeights&) = delete;
  OtherWeights& operator=(const OtherWeights&) = delete;
  ~OtherWeights() {
    for (size_t k = 0; k < rows_.size(); ++k) rows_[k].copy_(own_[k]);
  }

 private:
  Tensors rows_, own_;
};

}  // namespace

Trainer::Impl::Impl(Forms forms_, std::vector<InputForm> inputs_,
                    std::map<std::string, StartTensor> start, TrainerOptions options_)
    : forms(std::move(forms_)),
      inputs(std::move(inputs_)),
      options(std::move(options_)),
      threads(options.threads > 0 ? options.threads : at::get_num_threads()),
      models(forms.tensors, std::move(start), options) {
  options.loss.check();
  options.schedule.check();
  if (!options.plan.empty()) choices = Choices::parse(options.plan);
  if (!options.plan.empty() && choices.exact != options.exact)
    fail("[train] plan: got one {} exact, expected one {}; try another",
         choices.exact ? "with" : "without", options.exact ? "with" : "without");
  if (choices.threads <= 0) choices.threads = threads;
  choices.exact = options.exact;
}

Call Trainer::Impl::read(const Batch& batch, bool step) const {
  Call call;
  call.key = step ? "step" : "evaluate";
  const int64_t n = models.n();
  const auto add = [&](const std::string& name, const Column& column, at::ScalarType dtype) {
    call.columns.emplace_back(name, column, dtype, n);
    BatchColumn& c = call.columns.back();
    // What is computed once for all models may be added in another order than for one model.
    if (options.exact) c.never_share();
    if (!c.present()) {
      call.columns.pop_back();
      return;
    }
    call.key += fmt::format(" {}{}[{}]", name, c.shared() ? "*" : "", fmt::join(c.sizes(), ","));
  };
  if (batch.inputs.size() != inputs.size())
    fail("[train] inputs: got {}, expected {}; try one column for each", batch.inputs.size(),
         inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!batch.inputs[k].values.defined())
      fail("[train] input {}: got nothing, expected a tensor; try a column", inputs[k].name);
    add(inputs[k].name, batch.inputs[k], inputs[k].dtype.value_or(models.dtype()));
  }
  if (!step) return call;
  const Loss& loss = options.loss;
  if (loss.needs_target() != batch.target.values.defined())
    fail("[train] target: got {}, expected {} with {}; try another loss",
         loss.needs_target() ? "none" : "one", loss.needs_target() ? "one" : "none", loss.name);
  add("target", batch.target, loss.target_dtype(models.dtype()));
  add("weight", batch.weight, models.dtype());
  const auto of_loss = [&](const char* name, const Tensor& weight, int64_t own_dim) {
    if (weight.defined())
      add(name, {weight.dim() == 0 ? weight.reshape(1) : weight, weight.dim() <= own_dim, {}, {}},
          models.dtype());
  };
  of_loss("class weight", loss.weight, 1);
  const bool own = loss.pos_weight.defined() && loss.pos_weight.dim() > 0 &&
                   loss.pos_weight.size(0) == n && loss.pos_weight.dim() > 1;
  of_loss("pos_weight", loss.pos_weight, own ? 0 : 9);
  if (models.any("label_smoothing") && loss.name == "cross_entropy") call.key += " smoothed";
  return call;
}

PlannedSize Trainer::Impl::record_size(const Call& call, bool step, c10::Device device) {
  PlannedSize p;
  p.key = call.key;
  p.step = step;
  p.device = device;
  std::vector<TensorSpec> specs;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const BatchColumn& c = call.columns[k];
    specs.push_back({inputs[k].name, Role::input, c.sizes(),
                     at::isFloatingType(c.dtype()) ? at::kFloat : c.dtype()});
  }
  const Network forward = (p.step ? forms.train : forms.evaluate)(specs);
  StepExtras extras;
  const auto column = [&](const std::string& name) {
    return std::find_if(call.columns.begin() + static_cast<ptrdiff_t>(inputs.size()),
                        call.columns.end(), [&](const BatchColumn& c) { return c.name() == name; });
  };
  const auto spec = [&](const char* name) -> std::optional<TensorSpec> {
    const auto at = column(name);
    if (at == call.columns.end()) return std::nullopt;
    return TensorSpec{name, Role::input, at->sizes(),
                      at::isFloatingType(at->dtype()) ? at::kFloat : at->dtype()};
  };
  const auto like = [&](const char* name) {
    const auto at = column(name);
    return at == call.columns.end() ? Tensor() : at::empty(at->sizes(), at->dtype());
  };
  if (p.step) {
    extras = {spec("target"), spec("weight"), like("class weight"), like("pos_weight"),
              call.key.ends_with(" smoothed")};
    p.form = with_loss(forward, options.loss, extras);
  } else {
    p.form.network = forward;
    p.form.inputs = forward.indices(true);
    p.form.weights = forward.indices(false);
  }
  WIDE_ASSERT(p.form.weights.size() >= models.specs().size(), "the network has other tensors");
  p.form.weights.resize(models.specs().size());
  for (size_t k = 0; k < p.form.weights.size(); ++k)
    if (forward.tensors[p.form.weights[k]].name != models.specs()[k].name)
      fail("[train] {} form: got tensor {}, expected {}; try two forms of one network",
           p.step ? "training" : "evaluation", forward.tensors[p.form.weights[k]].name,
           models.specs()[k].name);
  p.columns = p.form.inputs;
  p.columns.resize(inputs.size());
  for (const int64_t at :
       {p.form.target, p.form.row_weight, p.form.class_weight, p.form.pos_weight})
    if (at >= 0) p.columns.push_back(static_cast<size_t>(at));
  p.shared.assign(p.form.network.tensors.size(), false);
  for (size_t k = 0; k < p.columns.size(); ++k) p.shared[p.columns[k]] = call.columns[k].shared();
  for (size_t k = 0; k < p.form.weights.size(); ++k) p.shared[p.form.weights[k]] = models.shared(k);
  ++recordings;
  p.single = recorded_single(p, ensemble(p, call, 0, 1, true));
  if (p.step) expect_trainable(p.single);
  if (!p.step)
    for (const Node& node : p.single.nodes)
      if (node.is_random())
        fail(
            "[train] evaluation form: got {}, expected no random operators; try a forward that "
            "draws only while self.training",
            node.name());
  // Tensors that a step writes count as inputs, so that nothing is precomputed from them.
  const auto changes = [&](size_t bound) {
    p.single.value(p.single.bound[bound]).role = Role::input;
  };
  for (const size_t k : models.trained()) {
    p.trained.push_back(p.form.weights[k]);
    changes(p.form.weights[k]);
  }
  for (const Update& u : p.single.updates) {
    const auto at = std::ranges::find(p.form.weights, p.single.bound_at(u.target));
    if (at == p.form.weights.end())
      fail(
          "[train] input: got one that the network changes in place, expected it to be read; try "
          "a clone in forward");
    const auto k = static_cast<size_t>(at - p.form.weights.begin());
    if (p.step && models.shared(k))
      fail(
          "[train] weights {}: got one for all models that a step changes, expected one for each; "
          "try [{}, ...]",
          models.specs()[k].name, models.n());
    p.updated.push_back(k);
  }
  if (!p.step) p.single.updates.clear();  // not used
  // Buffers too, in both forms, as steps with other batch sizes write them.
  for (size_t k = 0; k < p.form.weights.size(); ++k)
    if (models.specs()[k].role == Role::buffer && !models.shared(k)) changes(p.form.weights[k]);
  if (p.step)
    p.gradients = std::make_shared<WithGradients>("train", p.single, p.trained, Cotangents::ones);
  return p;
}

Ensemble Trainer::Impl::ensemble(const PlannedSize& p, const Call& call, int64_t begin, int64_t n,
                                 bool with_columns) const {
  Ensemble e;
  e.n = n;
  e.tensors.resize(p.form.network.tensors.size());
  e.shared = p.shared;
  for (size_t k = 0; k < p.form.weights.size(); ++k) {
    const Tensor all = models.tensor(k, !p.step);
    const Tensor some = models.shared(k) ? all : all.narrow(0, begin, n);
    // A recording needs contiguous strides, not those of padded rows.
    e.tensors[p.form.weights[k]] =
        with_columns && !models.shared(k) ? some.clone(at::MemoryFormat::Contiguous) : some;
  }
  const auto numbers = [&](int64_t at, at::ScalarType dtype, auto value) {
    if (at < 0) return;
    const Tensor made = at::empty({n}, dtype);
    for (int64_t j = 0; j < n; ++j) value(models.model_at(begin + j), made, j);
    e.tensors[static_cast<size_t>(at)] = made;
  };
  const auto whole = [&](int64_t at, auto value) {
    numbers(at, at::kLong, [&](int64_t model, const Tensor& made, int64_t j) {
      made.mutable_data_ptr<int64_t>()[j] = static_cast<int64_t>(value(model));
    });
  };
  const auto real = [&](int64_t at, const char* name) {
    numbers(at, models.dtype(), [&](int64_t model, const Tensor& made, int64_t j) {
      const double value = models.hyper(name, model);
      if (made.scalar_type() == at::kDouble)
        made.mutable_data_ptr<double>()[j] = value;
      else if (made.scalar_type() == at::kFloat)
        made.mutable_data_ptr<float>()[j] = static_cast<float>(value);
      else
        made[j].fill_(value);
    });
  };
  whole(p.form.seed, [&](int64_t model) { return models.seed(model); });
  whole(p.form.step, [&](int64_t) { return steps; });
  real(p.form.dropout, "dropout");
  real(p.form.label_smoothing, "label_smoothing");
  for (size_t k = 0; k < p.columns.size(); ++k) {
    const BatchColumn& c = call.columns[k];
    if (!c.shared() && !with_columns) continue;
    const Tensor made =
        at::empty(c.shared() ? c.sizes() : wide_sizes(n, c.sizes()), at::TensorOptions(c.dtype()));
    if (c.shared())
      c.take(-1, made);
    else
      for (int64_t j = 0; j < n; ++j) c.take(models.model_at(begin + j), made.select(0, j));
    e.tensors[p.columns[k]] = made;
  }
  if (with_columns)
    for (Tensor& t : e.tensors) t = t.to(p.device);
  return e;
}

/// The number of ranges: a multiple of the threads, none longer than `at_a_time`.
int64_t Trainer::Impl::ranges(int64_t at_a_time) const {
  const auto count = static_cast<int64_t>(models.running().size());
  const int64_t fewest = (count + at_a_time - 1) / at_a_time;
  const int64_t each = choices.threads;  // a resumed run keeps its ranges
  return options.exact ? fewest : std::min((fewest + each - 1) / each * each, count);
}

std::unique_ptr<Executor> Trainer::Impl::executor(PlannedSize& p, const Call& call,
                                                  int64_t at_a_time) {
  const MakeProgram program = [&](int64_t begin, int64_t n) {
    PlannedRange& made = p.programs[{at_a_time, n}];
    if (!made.program) {
      ++recordings;
      made = planned_range(p, at_a_time, ensemble(p, call, begin, n, true));
    }
    return made.program;
  };
  ExecutorOptions o;
  o.threads = threads;
  o.ranges = static_cast<int>(ranges(at_a_time));
  o.serial = options.exact || o.ranges > 1;
  const auto count = static_cast<int64_t>(models.running().size());
  return std::make_unique<Executor>(p.single, ensemble(p, call, 0, count, false), program, o);
}

/// The stored choice for this batch size. Steps of far fewer models choose again, as choices for
/// many are slow for few; evaluations are too rare for that, and `exact` has no choice.
const std::pair<const int64_t, Choice>* Trainer::Impl::known_choice(const PlannedSize& p) const {
  return choices.find(p.key, static_cast<int64_t>(models.running().size()),
                      p.step && !options.exact);
}

std::unique_ptr<TunedWidening> Trainer::Impl::widening(const PlannedSize& p) const {
  const auto count = static_cast<int64_t>(models.running().size());
  return std::make_unique<TunedWidening>(
      p.step ? evaluation_of(p.gradients) : WideEvaluation{},
      std::make_shared<const Program>(p.step ? p.gradients->form() : p.single), WidenOptions{},
      TunerOptions{/*serial=*/false, threads, count, /*measure=*/true, p.step});
}

/// Chooses how batches of this size are computed: strategies, and the fastest number of models at a
/// time, from one to one range per thread, by timing steps with the optimiser's work on copies.
/// With limited memory, fewer models at a time are preferred to recomputing. In `exact` mode
/// nothing is measured.
void Trainer::Impl::choose(PlannedSize& p, const Call& call) {
  constexpr double kLongest_s = 0.6;
  const auto count = static_cast<int64_t>(models.running().size());
  p.version = -1;
  p.programs.clear();
  p.widening = widening(p);
  if (const auto* known = known_choice(p)) {
    std::tie(p.chosen_for, p.choice) = *known;
    p.widening->take(p.choice.strategies);
    return;
  }
  if (options.exact || !options.tune) p.widening->take({});
  const auto at_a_time = [&](int64_t ranges) { return (count + ranges - 1) / ranges; };
  const MakeExecutor lower = [&](int ranges) {
    const int64_t n = at_a_time(ranges);
    if (options.tune && !options.exact) p.widening->choose(ensemble(p, call, 0, n, true));
    return executor(p, call, n);
  };
  const auto rehearsed = [&](Executor& executor) {
    return [&] {
      run(p, executor, call, [&](const RangeAt& at) {
        if (!p.step) return;
        const Tensors& results = memory(p, executor, at.thread).results;
        for (int64_t j = 0; j < at.n; ++j) models.rehearse(at.begin + j, made(p, results, j));
      });
    };
  };
  RangeOptions o;
  o.threads = choices.threads;
  if (options.exact || options.models_at_a_time > 0)
    o.asked = static_cast<int>(ranges(options.exact ? 1 : options.models_at_a_time));
  o.measure = options.tune || options.memory_limit > 0;
  o.all_at_once = false;
  o.longest_s = kLongest_s;
  if (options.memory_limit > 0)
    o.share_of_memory = [&](const Executor& executor) {
      const bool fits = recomputed(p, executor).calls == 0 &&
                        bytes_of_range(p, executor) * threads <= options.memory_limit;
      return fits ? 1 : std::numeric_limits<double>::infinity();
    };
  p.executor = choose_ranges(p.single, count, o, lower, rehearsed);
  p.version = models.version();
  p.chosen_for = count;
  const int64_t n = at_a_time(p.executor->ranges());
  p.choice = choices.by_size[p.key][count] = {n, p.widening->by_call(n)};
  p.widening->take(p.choice.strategies);
  std::erase_if(p.programs, [&](const auto& made) { return made.first.first != n; });
}

PlannedSize& Trainer::Impl::plan(const Call& call, bool step) {
  const at::NoGradGuard no_grad;
  auto found = planned.find(call.key);
  if (found == planned.end())
    found = planned.emplace(call.key, std::make_unique<PlannedSize>(record_size(call, step))).first;
  PlannedSize& p = *found->second;
  if (p.version != models.version()) {
    p.memory.assign(static_cast<size_t>(threads), {});
    const auto* known = known_choice(p);
    if (!known || known->first != p.chosen_for) choose(p, call);
    if (p.version != models.version()) p.executor = executor(p, call, p.choice.models_at_a_time);
    p.version = models.version();
    p.memory.assign(static_cast<size_t>(threads), {});
  }
  return p;
}

void Trainer::Impl::run(PlannedSize& p, Executor& executor, const Call& call,
                        const std::function<void(const RangeAt&)>& done) {
  const auto count = static_cast<int64_t>(models.running().size());
  const Ensemble bound = ensemble(p, call, 0, count, false);
  std::vector<int64_t> column_at(bound.tensors.size(), -1);
  for (size_t k = 0; k < p.columns.size(); ++k)
    if (!p.shared[p.columns[k]]) column_at[p.columns[k]] = static_cast<int64_t>(k);
  // Models that are neighbours in the batch too are read in place.
  const auto side_by_side = [&](const RangeAt& at) {
    return models.model_at(at.begin + at.n - 1) - models.model_at(at.begin) == at.n - 1;
  };
  RangeHooks hooks;
  hooks.source = [&](const RangeAt& at, size_t i) -> std::optional<void*> {
    if (column_at[i] < 0) return std::nullopt;
    const BatchColumn& c = call.columns[static_cast<size_t>(column_at[i])];
    const int64_t first = models.model_at(at.begin);
    const void* there = options.exact ? nullptr : c.in_place(first);
    if (there && side_by_side(at) && (at.n == 1 || c.stride_bytes() > 0))
      return const_cast<void*>(there);  // nothing writes through windows
    const Tensor& into = memory(p, executor, at.thread).taken[i];
    for (int64_t j = 0; j < at.n; ++j) c.take(models.model_at(at.begin + j), into.select(0, j));
    return into.data_ptr();
  };
  hooks.results = [&](const RangeAt& at) {
    std::vector<void*> out;
    for (const Tensor& t : memory(p, executor, at.thread).results) out.push_back(t.data_ptr());
    return out;
  };
  if (done) hooks.done = done;
  const at::NoGradGuard no_grad;
  executor.run(bound.tensors, hooks);
}

/// The gradients and new buffers of model `j` of a range.
TrainedModels::Made Trainer::Impl::made(const PlannedSize& p, const Tensors& results,
                                        int64_t j) const {
  const auto row = [&](size_t k) {
    const Tensor& t = results[k];
    return static_cast<const char*>(t.const_data_ptr()) +
           j * (t.numel() / t.size(0)) * static_cast<int64_t>(t.element_size());
  };
  const size_t trained = p.trained.size();
  TrainedModels::Made made;
  for (size_t k = 0; k < trained; ++k)
    made.gradients.push_back(p.gradients->reached()[k] ? row(1 + k) : nullptr);
  for (size_t k = 0; k < p.updated.size(); ++k)
    made.buffers.emplace_back(p.updated[k], row(1 + trained + k));
  return made;
}

void Trainer::Impl::need_models() const {
  if (models.running().empty())
    fail("[train] models: got none that runs, expected one at least; try before all are stopped");
}

void Trainer::Impl::prepare(const Batch& batch) {
  need_models();
  plan(read(batch, true), true);
}

void Trainer::Impl::run_step(const Batch& batch, const Visit& visit) {
  need_models();
  const Call call = read(batch, true);
  PlannedSize& p = plan(call, true);
  run(p, *p.executor, call, [&](const RangeAt& at) {
    const Tensors& results = memory(p, *p.executor, at.thread).results;
    for (int64_t j = 0; j < at.n; ++j) {
      const double loss = results[0].scalar_type() == at::kDouble
                              ? results[0].const_data_ptr<double>()[j]
                              : double(results[0].const_data_ptr<float>()[j]);
      visit(at.begin + j, loss, made(p, results, j));
    }
  });
}

std::vector<Tensors> Trainer::Impl::steps_of(const Batch& batch,
                                             const std::vector<int64_t>& slots) {
  std::vector<Tensors> made(models.running().size());
  run_step(batch, [&](int64_t slot, double loss, const TrainedModels::Made& step) {
    if (std::ranges::find(slots, slot) == slots.end()) return;
    Tensors& own = made[static_cast<size_t>(slot)];
    own.push_back(at::full({}, loss, at::kDouble));
    for (size_t k = 0; k < step.gradients.size(); ++k) {
      const Sizes& sizes = models.specs()[models.trained()[k]].sizes;
      own.push_back(
          step.gradients[k]
              ? at::from_blob(const_cast<void*>(step.gradients[k]), sizes, models.dtype()).clone()
              : at::zeros(sizes, models.dtype()));
    }
  });
  return made;
}

StepCheck Trainer::Impl::check_steps(
    const PlannedSize& recorded, const Call& call, int64_t count, const Tensors& trained,
    const std::function<std::vector<Tensors>(const std::vector<int64_t>&)>& run) const {
  std::vector<std::string> names;
  for (const size_t k : models.trained()) names.push_back(models.specs()[k].name);
  const auto running = static_cast<int64_t>(models.running().size());
  count = std::min(count, running);
  std::vector<int64_t> slots;
  for (int64_t i = 0; i < count; ++i)
    slots.push_back(count == 1 ? 0 : i * (running - 1) / (count - 1));
  const std::vector<Tensors> made = run(slots);
  StepChecker checker(recorded.single, recorded.trained, names, models.dtype());
  for (const int64_t slot : slots)
    checker.add(models.model_at(slot), ensemble(recorded, call, slot, 1, true).model(0),
                made[static_cast<size_t>(slot)], [&](const Tensors& values) {
                  const OtherWeights moved(trained, slot, values);
                  return run({slot})[static_cast<size_t>(slot)];
                });
  return checker.result();
}

StepCheck Trainer::Impl::check(const Batch& batch, int64_t count) {
  need_models();
  const Call call = read(batch, true);
  const PlannedSize& recorded = plan(call, true);
  Tensors trained;
  for (const size_t k : models.trained()) trained.push_back(models.tensor(k));
  return check_steps(recorded, call, count, trained,
                     [&](const std::vector<int64_t>& slots) { return steps_of(batch, slots); });
}

Tensors Trainer::Impl::run_evaluation(const Batch& batch) {
  need_models();
  const Call call = read(batch, false);
  PlannedSize& p = plan(call, false);
  const auto count = static_cast<int64_t>(models.running().size());
  Tensors outputs;
  for (const ValueId id : p.single.outputs) {
    const Value& v = p.single.value(id);
    outputs.push_back(at::empty(wide_sizes(count, v.sizes), at::TensorOptions(v.dtype)));
  }
  run(p, *p.executor, call, [&](const RangeAt& at) {
    const Tensors& results = memory(p, *p.executor, at.thread).results;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const auto bytes =
          static_cast<size_t>(outputs[k].numel() / count) * outputs[k].element_size();
      std::memcpy(static_cast<char*>(outputs[k].data_ptr()) + static_cast<size_t>(at.begin) * bytes,
                  results[k].const_data_ptr(), static_cast<size_t>(at.n) * bytes);
    }
  });
  return outputs;
}

}  // namespace wide
