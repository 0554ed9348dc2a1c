#include "engine/lower/executor.h"

#include <ATen/ATen.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/lower/memory/plain_memory.h"
#include "engine/machine/caches.h"
#include "engine/machine/clock.h"
#include "engine/machine/threads.h"

namespace wide {

namespace {

bool is_weight(const Value& v) { return v.role == Role::parameter || v.role == Role::buffer; }

/// Index in `bound` of a bound value, or -1.
int64_t bound_index(const Program& program, ValueId id) {
  auto at = std::ranges::find(program.bound, id);
  return at == program.bound.end() ? -1 : at - program.bound.begin();
}

/// Whether a call's inputs and results exceed the last-level cache. Then results are written past
/// the cache, which saves reading the memory that they overwrite.
bool outgrows_cache(const Program& single, int64_t n, const std::vector<bool>& shared,
                    int threads) {
  int64_t bytes = 0;
  for (size_t i = 0; i < single.bound.size(); ++i) {
    const Value& v = single.value(single.bound[i]);
    if (v.role == Role::input) bytes += v.bytes() * (shared[i] ? 1 : n);
  }
  for (ValueId id : single.outputs) bytes += n * single.value(id).bytes();
  return bytes >= last_cache_bytes(threads);
}

/// Whether two nodes compute the same values of the same sizes.
bool same_results(const Program& program, const Node& node, const Program& of, const Node& other) {
  if (node.name() != other.name() || node.results.size() != other.results.size()) return false;
  for (size_t r = 0; r < node.results.size(); ++r) {
    const std::vector<ValueId>&mine = node.results[r].values, &theirs = other.results[r].values;
    if (mine.size() != theirs.size()) return false;
    for (size_t k = 0; k < mine.size(); ++k)
      if (mine[k] != kNone && program.value(mine[k]).sizes != of.value(theirs[k]).sizes)
        return false;
  }
  return true;
}

/// A range of models that a thread ran, for the timeline.
struct RangeRan {
  int thread = 0, core = -1;
  double begin_ns = 0;
  std::vector<double> at_ns;  // from Plan::run_stamped
};

struct ProgramRan {
  double begin_ns = 0, shared_ns = 0, end_ns = 0;  // shared_ns: end of the shared phase
  std::vector<RangeRan> ranges;
};

TimelineItem item_of(const Step& step) {
  return {"step",
          step.text,
          step.origin.module,
          step.origin.primitive,
          step.origin.strategy,
          step.shape,
          step.origin.node,
          step.work.flops,
          step.work.computed_flops,
          step.work.bytes};
}

/// The timeline's lanes: one for each thread, named with its core if the thread stayed on one.
std::vector<std::string> lanes_of(const ProgramRan& call) {
  std::map<int, std::set<int>> cores;
  for (const RangeRan& range : call.ranges) cores[range.thread].insert(range.core);
  std::vector<std::string> lanes(static_cast<size_t>(cores.rbegin()->first) + 1);
  for (size_t t = 0; t < lanes.size(); ++t) {
    const std::set<int>& on = cores[static_cast<int>(t)];
    lanes[t] = fmt::format("thread {}", t);
    if (on.size() == 1) lanes[t] += fmt::format(", core {}", *on.begin());
  }
  return lanes;
}

}  // namespace

Arenas make_arenas(int threads, int64_t reused_from) {
  Arenas arenas;
  for (int t = 0; t < threads; ++t) arenas.push_back(std::make_shared<ArenaMemory>(reused_from));
  return arenas;
}

int64_t bytes_of(const Arenas& arenas) {
  int64_t sum = 0;
  for (const auto& memory : arenas) sum += memory->bytes();
  return sum;
}

Executor::Executor(const Program& single, const Ensemble& ensemble, const MakeProgram& make,
                   const ExecutorOptions& options)
    : n_(ensemble.n), shared_(ensemble.shared), options_(options) {
  const int64_t count = std::clamp<int64_t>(options.ranges, 1, n_);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t begin = n_ * k / count, end = n_ * (k + 1) / count;
    ranges_.push_back({begin, end - begin, {}});
  }
  if (options_.arenas.empty()) options_.arenas = make_arenas(options_.threads);
  gives_results_ = options.gives_results && count == 1;
  make_plans(single, make, ensemble.tensors);
  set_weights(ensemble.tensors);
}

Tensor Executor::slice(const Tensors& bound, size_t i, const Range& range) const {
  return shared_[i] ? bound[i] : bound[i].narrow(0, range.begin, range.n);
}

std::unordered_map<ValueId, Tensor> Executor::known_weights(const Range& range,
                                                            const Tensors& bound) const {
  const Program& program = sizes_.at(range.n).program->wide.program;
  std::unordered_map<ValueId, Tensor> known;
  for (size_t i = 0; i < program.bound.size(); ++i)
    if (is_weight(program.value(program.bound[i])))
      known[program.bound[i]] = slice(bound, i, range);
  run_phase(program, Phase::prologue, known);
  return known;
}

PlanOptions RangeProgram::plan_options(PlanOptions options) const {
  options.apart = apart;
  options.as_they_lie = as_they_lie;
  options.lends_results = lends_results;
  options.placed = placed;
  return options;
}

void Executor::make_plans(const Program& single, const MakeProgram& make, const Tensors& bound) {
  at::NoGradGuard no_grad;
  const int threads = ranges_.size() == 1 ? 1 : options_.threads;
  for (const Range& range : ranges_) {
    PerSize& size = sizes_[range.n];
    if (size.program) continue;
    size.program = make(range.begin, range.n);
    const Program& program = size.program->wide.program;
    for (const Node& node : program.nodes) has_shared_phase_ |= node.phase == Phase::shared;
    const auto known = known_weights(range, bound);
    PlanOptions plan = size.program->plan_options(options_.plan);
    plan.serial = options_.serial || ranges_.size() > 1;
    plan.stream_results = outgrows_cache(single, n_, shared_, options_.threads);
    plan.packing = std::make_shared<PackingChoices>();
    plan.gives_results = gives_results_;
    for (int t = 0; t < threads; ++t) {
      plan.memory = options_.arenas.at(static_cast<size_t>(t));
      size.plans.push_back(std::make_unique<Plan>(program, known, plan));
    }
    size.bound_range.assign(static_cast<size_t>(threads), -1);
    for (ValueId id : size.plans[0]->outside()) size.bound_at.push_back(bound_index(program, id));
  }
}

void Executor::set_weights(const Tensors& bound) {
  at::NoGradGuard no_grad;
  for (Range& range : ranges_) {
    PerSize& size = sizes_.at(range.n);
    const Plan& plan = *size.plans[0];
    const auto known = known_weights(range, bound);
    range.fixed.assign(plan.outside().size(), Tensor());
    for (size_t k = 0; k < plan.outside().size(); ++k) {
      auto it = known.find(plan.outside()[k]);
      if (it != known.end()) range.fixed[k] = plan.prepare(k, resolved(it->second));
    }
    if (has_shared_phase_) size.weights = known;
    std::fill(size.bound_range.begin(), size.bound_range.end(), -1);
  }
}

void Executor::run_shared(const Tensors& bound, const RangeHooks& hooks) {
  const PerSize* first = nullptr;
  for (auto& [n, size] : sizes_) {
    const Program& program = size.program->wide.program;
    auto known = size.weights;
    for (size_t i = 0; i < program.bound.size(); ++i)
      if (shared_[i])
        known[program.bound[i]] = bound[i];
      else if (hooks.of_all)
        known[program.bound[i]] = hooks.of_all(n, i);
    // Shared work runs once, for the first size of range. For another size it runs again only where
    // a result's sizes depend on the number of models in a range. Views are regenerated.
    std::vector<const Node*> nodes, done;
    for (const Node& node : program.nodes)
      if (node.phase == Phase::shared) nodes.push_back(&node);
    if (first != nullptr)
      for (const Node& node : first->program->wide.program.nodes)
        if (node.phase == Phase::shared) done.push_back(&node);
    for (size_t k = 0; k < nodes.size(); ++k) {
      const Node& node = *nodes[k];
      const bool again = first == nullptr || done.size() != nodes.size() || node.is_view() ||
                         !same_results(program, node, first->program->wide.program, *done[k]);
      if (again) {
        Stack stack = make_stack(node.arguments, [&](ValueId id) {
          const Value& v = program.value(id);
          return v.role == Role::constant ? v.constant : known.at(id);
        });
        node.op.callBoxed(&stack);
        take_results(node.results, stack, [&](ValueId id, const Tensor& t) { known[id] = t; });
      } else {
        for (size_t r = 0; r < node.results.size(); ++r)
          for (size_t v = 0; v < node.results[r].values.size(); ++v)
            if (node.results[r].values[v] != kNone)
              known[node.results[r].values[v]] = first->shared.at(done[k]->results[r].values[v]);
      }
    }
    size.shared = std::move(known);
    if (first == nullptr) first = &size;
  }
  // Keep only results that the ranges read or that `asked` lists.
  for (auto& [n, size] : sizes_) {
    std::unordered_map<ValueId, Tensor> kept;
    const auto keep = [&, &shared = size.shared](ValueId id) {
      if (const auto it = shared.find(id); it != shared.end())
        kept.emplace(id, resolved(it->second));
    };
    for (const ValueId id : size.plans[0]->outside()) keep(id);
    for (const ValueId id : size.program->asked) keep(id);
    size.shared = std::move(kept);
  }
}

/// Hooks that write each result of all models into one tensor.
RangeHooks Executor::side_by_side(const Tensors& results) const {
  RangeHooks hooks;
  hooks.results = [results](const RangeAt& at) {
    std::vector<void*> out;
    for (const Tensor& t : results) {
      if (!t.defined()) {  // the plan gives it
        out.push_back(nullptr);
        continue;
      }
      const int64_t stride = t.size(0) == 0 ? 0 : t.numel() / t.size(0);
      out.push_back(static_cast<char*>(t.data_ptr()) +
                    at.begin * stride * static_cast<int64_t>(t.element_size()));
    }
    return out;
  };
  return hooks;
}

Plan& Executor::prepare(int thread, int range_index, const Tensors& bound,
                        const RangeHooks& hooks) {
  Range& range = ranges_[static_cast<size_t>(range_index)];
  PerSize& size = sizes_.at(range.n);
  Plan& plan = *size.plans[static_cast<size_t>(thread)];
  const RangeAt at{thread, range.begin, range.n};
  const bool rebind = size.bound_range[static_cast<size_t>(thread)] != range_index;
  for (size_t k = 0; k < plan.outside().size(); ++k) {
    if (range.fixed[k].defined()) {
      if (rebind) plan.bind(k, range.fixed[k]);
      continue;
    }
    if (size.bound_at[k] >= 0) {
      const auto i = static_cast<size_t>(size.bound_at[k]);
      if (const auto own = hooks.source ? hooks.source(at, i) : std::nullopt) {
        plan.bind(k, *own);
        continue;
      }
      const int64_t skip = shared_[i] ? 0 : range.begin * bound[i].stride(0);
      plan.bind(k, static_cast<char*>(bound[i].data_ptr()) +
                       skip * static_cast<int64_t>(bound[i].element_size()));
    } else {
      plan.bind(k, size.shared.at(plan.outside()[k]));
    }
  }
  size.bound_range[static_cast<size_t>(thread)] = range_index;
  plan.bind_outputs(hooks.results(at));
  return plan;
}

void Executor::for_each_range(const std::function<void(int, int)>& work) const {
  const auto count = static_cast<int>(ranges_.size());
  if (options_.serial && (count == 1 || options_.threads == 1)) {
    run_serial([&] {
      for (int range = 0; range < count; ++range) work(0, range);
    });
  } else {
    run_parallel(options_.threads, count, work);
  }
}

void Executor::run_shared_phase(const Tensors& bound, const RangeHooks& hooks) {
  if (!has_shared_phase_) return;
  const at::NoGradGuard no_grad;
  if (options_.serial)
    run_serial([&] { run_shared(bound, hooks); });
  else
    run_shared(bound, hooks);
}

void Executor::run(const Tensors& bound, const Tensors& results) {
  run(bound, side_by_side(results));
}

Tensors Executor::with_given(Tensors results) {
  for (size_t k = 0; k < results.size(); ++k)
    if (gives(k)) results[k] = only_plan().given(k);
  return results;
}

void Executor::run(const Tensors& bound, const RangeHooks& hooks) {
  const ArenaLease lease(options_.arenas);
  run_shared_phase(bound, hooks);
  for_each_range([&](int thread, int range) {
    prepare(thread, range, bound, hooks).run();
    const Range& r = ranges_[static_cast<size_t>(range)];
    if (hooks.done) hooks.done({thread, r.begin, r.n});
  });
}

void Executor::with_first_range(const Tensors& bound, const Tensors& results,
                                const std::function<void(Plan&)>& visit) {
  const ArenaLease lease(options_.arenas);
  const RangeHooks hooks = side_by_side(results);
  run(bound, hooks);
  const auto prepared = [&] { visit(prepare(0, 0, bound, hooks)); };
  if (ranges_.size() > 1) {
    run_serial(prepared);
  } else {
    run_parallel(1, 1, [&](int, int) { prepared(); });
  }
}

int64_t Executor::allocated_bytes(const Tensors& bound, const Tensors& results) {
  int64_t bytes = 0;
  with_first_range(bound, results, [&](Plan& plan) {
    bytes = count_peak_bytes(device(), [&] { plan.run_steps(); });
  });
  return bytes;
}

std::vector<StepCost> Executor::explain(const Tensors& bound, const Tensors& results) {
  std::vector<std::vector<double>> samples;
  Plan* plan = nullptr;
  with_first_range(bound, results, [&](Plan& first) {
    plan = &first;
    for (int i = 0; i < 11; ++i) samples.push_back(plan->run_timed(device()));
  });
  std::vector<StepCost> costs;
  double sum = 0;
  for (size_t s = 0; s < plan->steps().size(); ++s) {
    std::vector<double> ns;
    for (const auto& sample : samples) ns.push_back(sample[s]);
    std::nth_element(ns.begin(), ns.begin() + 5, ns.end());
    const Step& step = plan->steps()[s];
    costs.push_back({step.text, step.origin.module, step.origin.primitive, step.origin.strategy,
                     step.shape, ns[5], 0, step.origin.node, step.work.flops,
                     step.work.computed_flops, step.work.bytes});
    sum += ns[5];
  }
  for (StepCost& c : costs) c.share = sum > 0 ? c.median_ns / sum : 0;
  return costs;
}

TimelineCall Executor::timeline(const Tensors& bound, const Tensors& results) {
  const ArenaLease lease(options_.arenas);
  const RangeHooks hooks = side_by_side(results);
  const c10::Device device = this->device();
  std::vector<ProgramRan> calls(kWatchedCalls);
  run(bound, hooks);
  for (ProgramRan& call : calls) {
    call.ranges.resize(ranges_.size());
    call.begin_ns = call.shared_ns = now_ns();
    run_shared_phase(bound, hooks);
    if (!device.is_cpu()) synchronize(device);
    call.shared_ns = now_ns();
    for_each_range([&](int thread, int range) {
      RangeRan& ran = call.ranges[static_cast<size_t>(range)];
      ran.thread = thread;
      ran.begin_ns = now_ns();
      prepare(thread, range, bound, hooks).run_stamped(device, ran.at_ns);
      ran.core = sched_getcpu();
    });
    call.end_ns = now_ns();
  }
  std::vector<double> ns;
  for (const ProgramRan& call : calls) ns.push_back(call.end_ns - call.begin_ns);
  const size_t middle = median_at(ns);
  const ProgramRan& call = calls[middle];

  TimelineCall shown;
  shown.name = "wide";
  shown.calls = kWatchedCalls;
  shown.call_ns = ns[middle];
  shown.lanes = lanes_of(call);
  if (ranges_.size() == 1 && options_.threads > 1 && !options_.serial && device.is_cpu()) {
    shown.cores_a_lane = options_.threads;
    shown.lanes = {"the thread that calls"};
    shown.notes.push_back(fmt::format(
        "wide: all models run at once, and an operator may use up to {} threads; which of them did "
        "what is not measured, the lane shows when it ran",
        options_.threads));
  }
  if (!device.is_cpu())
    shown.notes.emplace_back(
        "wide: the host waits after each step, so that the call takes longer than usual");
  const auto add = [&](size_t item, const RangeRan& range, double begin, double end) {
    shown.spans.push_back({static_cast<int32_t>(item), range.thread, range.core,
                           begin - call.begin_ns, end - call.begin_ns});
  };
  if (has_shared_phase_) {
    shown.items.push_back({"shared", "once for all models", "", "", "shared", ""});
    add(0, {}, call.begin_ns, call.shared_ns);
  }
  std::map<int64_t, size_t> first_step;  // by size of range
  for (const auto& [n, size] : sizes_) {
    first_step[n] = shown.items.size();
    for (const Step& step : size.plans[0]->steps()) shown.items.push_back(item_of(step));
    if (size.plans[0]->copies_out())
      shown.items.push_back({"step", "copies results out", "", "", "strategy", ""});
  }
  for (size_t r = 0; r < ranges_.size(); ++r) {
    const Range& range = ranges_[r];
    const RangeRan& ran = call.ranges[r];
    const size_t item = shown.items.size(), steps = ran.at_ns.size() - 2;
    TimelineItem& whole = shown.items.emplace_back();
    whole.kind = "range";
    whole.name = range.n == 1 ? fmt::format("model {}", range.begin)
                              : fmt::format("models {}-{}", range.begin, range.begin + range.n - 1);
    add(item, ran, ran.begin_ns, ran.at_ns.back());
    for (size_t s = 0; s < steps; ++s)
      add(first_step.at(range.n) + s, ran, ran.at_ns[s], ran.at_ns[s + 1]);
    if (sizes_.at(range.n).plans[0]->copies_out())
      add(first_step.at(range.n) + steps, ran, ran.at_ns[steps], ran.at_ns[steps + 1]);
  }
  sort_spans(shown.spans);
  return shown;
}

double Executor::computed_flops() const {
  double sum = 0;
  bool any = false;
  for (const Range& range : ranges_)
    for (const Step& step : sizes_.at(range.n).plans[0]->steps()) {
      any = any || step.work.computed_flops > 0;
      sum += step.work.computed_flops > 0 ? step.work.computed_flops : step.work.flops;
    }
  return any ? sum : 0;
}

c10::Device Executor::device() const {
  const std::vector<Value>& results = sizes_.begin()->second.plans.front()->results();
  return results.empty() ? c10::Device(c10::kCPU) : results.front().device;
}

std::vector<Value> Executor::results() const {
  const Range& range = ranges_.front();
  std::vector<Value> values = sizes_.at(range.n).plans[0]->results();
  for (Value& v : values) {
    WIDE_ASSERT(!v.sizes.empty() && (v.sizes[0] == range.n || v.sizes[0] == 1),
                "a result is not N-first");
    v.sizes[0] = n_;
  }
  return values;
}

int64_t Executor::arena_bytes() const {
  int64_t most = 0;
  for (const auto& [n, size] : sizes_) most = std::max(most, size.plans.front()->arena_bytes());
  return most;
}

int64_t Executor::bytes() const {
  int64_t sum = bytes_of(options_.arenas);
  std::set<const void*> counted;  // tensors that ranges share count once
  const auto add = [&](const Tensor& t) {
    if (!t.defined()) return;
    const bool plain = t.layout() == c10::kStrided && t.has_storage();
    if (plain && !counted.insert(t.const_data_ptr()).second) return;
    sum += t.numel() * static_cast<int64_t>(t.element_size());  // also for opaque tensors
  };
  for (const auto& [n, size] : sizes_) {
    for (const Node& node : size.program->wide.program.nodes) {
      if (node.phase != Phase::shared) continue;
      for_each_value(node.arguments, [&, &weights = size.weights](ValueId id) {
        if (const auto it = weights.find(id); it != weights.end()) add(it->second);
      });
    }
    for (const auto& [id, t] : size.shared) add(t);
  }
  for (const Range& range : ranges_)
    for (const Tensor& t : range.fixed) add(t);
  return sum;
}

int64_t Executor::steps() const {
  int64_t sum = 0;
  for (const Range& range : ranges_)
    sum += static_cast<int64_t>(sizes_.at(range.n).plans[0]->steps().size());
  return sum;
}

std::string Executor::text() const {
  std::string out = fmt::format("{} range{} of models on {} thread{}\n", ranges_.size(),
                                ranges_.size() == 1 ? "" : "s", options_.threads,
                                options_.threads == 1 ? "" : "s");
  for (const auto& [n, size] : sizes_)
    out += fmt::format("{} model{} at a time: {}", n, n == 1 ? "" : "s", size.plans[0]->text());
  return out;
}

}  // namespace wide
