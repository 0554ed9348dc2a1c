#include "engine/measure/baselines.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "engine/device.h"
#include "engine/error.h"
#include "engine/machine/large_pages.h"
#include "engine/measure/flat_weights.h"
#include "engine/measure/spread.h"
#include "engine/measure/vmapped.h"
#include "engine/widen/derivative.h"

namespace wide {
namespace {

constexpr int kStreams = 8;

/// How gradients are turned off: by InferenceMode, which is faster; by no_grad for a network that
/// calls autograd itself (a training step), which cannot run under InferenceMode.
enum class Quiet { inference_mode, no_grad };

void quietly(Quiet quiet, const Work& work) {
  if (quiet == Quiet::inference_mode) {
    const c10::InferenceMode guard;
    work();
  } else {
    const at::NoGradGuard guard;
    work();
  }
}

/// Like `first_line`, of the cause.
std::string cause_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  // TorchScript's interpreter puts its trace before the cause.
  if (const size_t at = text.find("\nRuntimeError: "); at != std::string::npos)
    text = text.substr(at + 15);
  return text.substr(0, text.find('\n'));
}

/// Runs `work` under InferenceMode, or if that throws under no_grad; returns which it was.
Quiet choose_quiet(const Work& work) {
  try {
    quietly(Quiet::inference_mode, work);
    return Quiet::inference_mode;
  } catch (const std::exception&) {
    quietly(Quiet::no_grad, work);
    return Quiet::no_grad;
  }
}

Tensors stack_outputs(const std::vector<Tensors>& outputs) {
  const at::NoGradGuard guard;
  Tensors stacked;
  for (size_t k = 0; k < outputs.front().size(); ++k) {
    Tensors column;
    for (const Tensors& one : outputs) column.push_back(one[k]);
    stacked.push_back(at::stack(column));
  }
  return stacked;
}

/// N separate models as users have them: each weight and input is a separate tensor, so a model
/// that updates a buffer in place changes no other.
struct Separate {
  std::vector<Model> models;
  std::vector<Tensors> inputs;
  std::vector<Tensors> outputs;  // of the last call, kept as a user would
  std::vector<Tensors> fresh;    // before a model's first call: all its tensors

  Separate(const Network& network, const Ensemble& ensemble) {
    const auto count = static_cast<size_t>(ensemble.n);
    const std::vector<size_t> input_at = network.indices(true), weight_at = network.indices(false);
    Tensors shared(ensemble.tensors.size());
    const auto own = [&](const Tensors& tensors, const std::vector<size_t>& indices) {
      Tensors result;
      for (size_t k : indices) {
        // A shared tensor exists once, unless the models write to it.
        if (ensemble.shared[k] && !network.training) {
          if (!shared[k].defined()) shared[k] = copy_to_keep(tensors[k]);
          result.push_back(shared[k]);
        } else {
          result.push_back(copy_to_keep(tensors[k]));
        }
      }
      return result;
    };
    for (size_t i = 0; i < count; ++i) {
      const Tensors tensors = ensemble.model(static_cast<int64_t>(i));
      const Tensors weights = own(tensors, weight_at);
      models.push_back(network.instantiate ? network.instantiate(weights) : bind(network, weights));
      inputs.push_back(own(tensors, input_at));
      fresh.push_back(weights);
      fresh.back().insert(fresh.back().end(), inputs.back().begin(), inputs.back().end());
    }
    outputs.resize(count);
  }

  void call(size_t i) {
    std::optional<FlatWeights> flat;
    if (const Tensors own = std::exchange(fresh[i], {}); !own.empty())
      flat.emplace(own.front().device(), own);
    outputs[i] = models[i](inputs[i]);
  }
  void call_all() {
    for (size_t i = 0; i < models.size(); ++i) call(i);
  }
};

void call_all_in_parallel(Separate& separate, Quiet quiet, int threads) {
  call_spread(static_cast<int64_t>(separate.models.size()), threads,
              [&](int64_t begin, int64_t end) {
                quietly(quiet, [&] {
                  for (int64_t i = begin; i < end; ++i) separate.call(static_cast<size_t>(i));
                });
              });
}

/// functorch's vmap over the model itself.
class Vmap {
 public:
  Vmap(const Network& network, const Ensemble& ensemble)
      : derivative_(network.derivative),
        forward_(derivative_ ? derivative_->inner().forward : network.forward),
        n_(ensemble.n),
        shared_(ensemble.shared) {
    for (const Tensor& tensor : ensemble.tensors) bound_.push_back(copy_to_keep(tensor));
  }

  Tensors operator()() {
    if (!derivative_) return forward(bound_);
    // As in Python: torch.vmap of the forward pass, autograd and the optimiser on wide tensors.
    const Tensors results = derivative_->run(
        bound_, [this](const Tensors& inner) { return forward(inner); }, n_);
    for (const auto& [output, tensor] : derivative_->feedback()) bound_[tensor] = results[output];
    return results;
  }

 private:
  Tensors forward(const Tensors& bound) const { return vmapped(forward_, bound, shared_, n_); }

  std::shared_ptr<const Derivative> derivative_;
  std::function<Tensors(const Tensors&)> forward_;
  int64_t n_;
  std::vector<bool> shared_;
  Tensors bound_;
};

Baseline no_baseline(const std::string& name, const std::string& reason) {
  Baseline baseline;
  baseline.name = name;
  baseline.unavailable = reason;
  return baseline;
}

/// The models of a timed baseline, made in its first call, whose time includes that.
class Late {
 public:
  Late(const Network& network, const Ensemble& ensemble) : network_(network), ensemble_(ensemble) {}
  const std::shared_ptr<Separate>& get() {
    if (!made_) made_ = std::make_shared<Separate>(network_, ensemble_);
    return made_;
  }

 private:
  Network network_;
  Ensemble ensemble_;
  std::shared_ptr<Separate> made_;
};

/// What the baselines of one case share. `run`, for the check, makes new models, since timing
/// changes the buffers of the timed ones.
struct Case {
  Network network;
  Ensemble ensemble;
  Quiet quiet;
  Tensors alone;  // results of a single model, if finding out `quiet` computed them

  std::shared_ptr<Late> late() const { return std::make_shared<Late>(network, ensemble); }

  /// Runs fresh models, with at most `at_a_time` of them in memory at once.
  std::function<Tensors()> fresh(int64_t at_a_time,
                                 const std::function<void(Separate&)>& call_all) const {
    return [net = network, ens = ensemble, at_a_time, call_all] {
      std::vector<Tensors> outputs;
      for (int64_t begin = 0; begin < ens.n; begin += at_a_time) {
        Separate models(net, ens.models(begin, std::min(at_a_time, ens.n - begin)));
        call_all(models);
        outputs.insert(outputs.end(), models.outputs.begin(), models.outputs.end());
      }
      return stack_outputs(outputs);
    };
  }
};

Baseline make_loop(const Case& given) {
  Baseline loop;
  loop.name = "loop";
  const Quiet quiet = given.quiet;
  if (given.alone.empty())
    loop.run = given.fresh(1, [quiet](Separate& s) { quietly(quiet, [&] { s.call_all(); }); });
  else
    loop.run = [alone = given.alone] { return stack_outputs({alone}); };
  const auto late = given.late();
  loop.call = [late, quiet] { quietly(quiet, [&] { late->get()->call_all(); }); };
  loop.one = [late, quiet](size_t i) { quietly(quiet, [&] { late->get()->call(i); }); };
  return loop;
}

Baseline make_threads(const Case& given, int threads) {
  if (threads < 2) return no_baseline("threads", "one thread only");
  if (given.ensemble.n < 2) return no_baseline("threads", "one model only");
  if (!given.ensemble.device().is_cpu()) return no_baseline("threads", "for the CPU only");
  Baseline baseline;
  baseline.name = "threads";
  const int workers = static_cast<int>(std::min<int64_t>(threads, given.ensemble.n));
  const Quiet quiet = given.quiet;
  baseline.run =
      given.fresh(workers, [=](Separate& s) { call_all_in_parallel(s, quiet, workers); });
  baseline.call = [=, late = given.late()] { call_all_in_parallel(*late->get(), quiet, workers); };
  return baseline;
}

Baseline make_vmap(const Case& given) {
  Quiet quiet = Quiet::no_grad;
  try {
    const Ensemble few = given.ensemble.models(0, std::min<int64_t>(given.ensemble.n, 2));
    quiet = choose_quiet([&] { Vmap(given.network, few)(); });
  } catch (const std::exception& error) {
    return no_baseline("vmap", cause_of(error));
  }
  Baseline baseline;
  baseline.name = "vmap";
  struct Kept {
    std::unique_ptr<Vmap> vmap;  // made at the first call
    Tensors outputs;
  };
  baseline.call = [net = given.network, ens = given.ensemble, quiet,
                   kept = std::make_shared<Kept>()] {
    if (!kept->vmap) kept->vmap = std::make_unique<Vmap>(net, ens);
    quietly(quiet, [&] { kept->outputs = (*kept->vmap)(); });
  };
  baseline.run = [net = given.network, ens = given.ensemble, quiet] {
    Tensors outputs;
    quietly(quiet, [&] { outputs = Vmap(net, ens)(); });
    return outputs;
  };
  return baseline;
}

std::vector<Work> separate_works(const std::shared_ptr<Separate>& separate, Quiet quiet) {
  std::vector<Work> works;
  for (size_t i = 0; i < separate->models.size(); ++i)
    works.push_back([=] { quietly(quiet, [&] { separate->call(i); }); });
  return works;
}

Baseline make_streams(const Case& given, DeviceRuntime& runtime) {
  if (given.ensemble.n < 2) return no_baseline("streams", "one model only");
  const c10::Device device = given.ensemble.device();
  Baseline baseline;
  baseline.name = "streams";
  const Quiet quiet = given.quiet;
  baseline.run = [=, &runtime, net = given.network, ens = given.ensemble] {
    const auto models = std::make_shared<Separate>(net, ens);
    runtime.on_streams(device, separate_works(models, quiet), kStreams)();
    runtime.synchronize(device);
    return stack_outputs(models->outputs);
  };
  baseline.call = [=, &runtime, late = given.late(), call = Work()]() mutable {
    if (!call) call = runtime.on_streams(device, separate_works(late->get(), quiet), kStreams);
    call();
  };
  return baseline;
}

Baseline make_graph(const Case& given, DeviceRuntime& runtime) {
  const c10::Device device = given.ensemble.device();
  const Quiet quiet = given.quiet;
  const auto captured = [device, quiet, net = given.network, ens = given.ensemble] {
    // The graph needs models of its own: it keeps writing to the outputs it was captured with.
    const auto models = std::make_shared<Separate>(net, ens);
    const Work all = [models, quiet] { quietly(quiet, [&] { models->call_all(); }); };
    const std::shared_ptr<DeviceGraph> graph = capture(device, all);
    return std::pair{models, graph};
  };
  try {
    captured();
  } catch (const std::exception& error) {
    return no_baseline("graph", cause_of(error));
  }
  Baseline baseline;
  baseline.name = "graph";
  const auto kept = std::make_shared<decltype(captured())>();
  baseline.call = [captured, kept] {
    if (!kept->second) *kept = captured();
    kept->second->replay();
  };
  // A training step starts from the results of the one before.
  if (!given.network.training)
    baseline.call_with_packing = [call = baseline.call, kept, net = given.network,
                                  ens = given.ensemble,
                                  results = std::vector<Tensors>()]() mutable {
      if (!kept->second) call();
      const std::vector<size_t> at = net.indices(true);
      for (size_t i = 0; i < kept->first->inputs.size(); ++i) {
        const Tensors own = ens.model(static_cast<int64_t>(i));
        for (size_t k = 0; k < at.size(); ++k) kept->first->inputs[i][k].copy_(own[at[k]]);
      }
      call();
      results = kept->first->outputs;
      for (Tensors& of_model : results)
        for (Tensor& t : of_model) t = t.clone();
    };
  baseline.run = [=, &runtime, net = given.network, ens = given.ensemble] {
    if (net.training) {
      // Warming up and capturing has changed the buffers; the check needs results of fresh models.
      Separate fresh(net, ens);
      quietly(quiet, [&] { fresh.call_all(); });
      return stack_outputs(fresh.outputs);
    }
    const auto [models, graph] = captured();
    graph->replay();
    runtime.synchronize(device);
    return stack_outputs(models->outputs);
  };
  return baseline;
}

}  // namespace

std::vector<Baseline> baselines(const Network& network, const Ensemble& ensemble, int threads,
                                const std::function<bool(const std::string&)>& wanted) {
  Case given{network, ensemble, Quiet::inference_mode, {}};
  {
    Separate one(network, ensemble.models(0, 1));
    given.quiet = choose_quiet([&] { one.call(0); });
    // A second attempt would start from buffers that the first one has changed.
    if (ensemble.n == 1 && given.quiet == Quiet::inference_mode) given.alone = one.outputs[0];
  }
  const c10::Device device = ensemble.device();
  std::vector<Baseline> all;
  const auto add = [&](const char* name, const std::function<Baseline()>& make) {
    if (!wanted || wanted(name)) all.push_back(make());
  };
  add("loop", [&] { return make_loop(given); });
  add("threads",
      [&] { return make_threads(given, threads > 0 ? threads : at::get_num_threads()); });
  add("vmap", [&] { return make_vmap(given); });
  if (DeviceRuntime* runtime = device_runtime(device.type())) {
    add("streams", [&] { return make_streams(given, *runtime); });
    add("graph", [&] { return make_graph(given, *runtime); });
  }
  return all;
}

}  // namespace wide
