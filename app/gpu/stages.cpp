#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/gpu/stage.h"
#include "app/sandbox/sandbox.h"
#include "app/trial/contest.h"
#include "app/version.h"
#include "data/machine/gpu.h"
#include "data/machine/peaks.h"
#include "data/reports/sweep/report_json.h"
#include "data/store/store.h"
#include "data/tensors.h"
#include "engine/check/check.h"
#include "engine/check/check_detail.h"
#include "engine/compile.h"
#include "engine/device.h"
#include "engine/error.h"
#include "engine/measure/stopwatch.h"
#include "engine/widen/target.h"

// The stages of the GPU report, from the lowest layer up: each step relies only on those before it.
namespace wide::gpu_stages_of_program {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kClose =
    1e-3;  // largest error of float32 against float64, for any algorithm of the device

/// Whether the stages only run on the CPU, without graph capture, to test the report itself.
bool is_rehearsal(c10::Device device) { return device.is_cpu() && !device_runtime(device.type()); }

void machine(Steps& steps) {
  steps.step("environment", [&]() -> Json {
    Environment environment = capture_environment("", version(), git_state());
    add_gpu(environment, steps.device());
    Json e = to_json(environment);
    e.erase("host");
    e.erase("command");
    return e;
  });
  steps.step("settings", [&]() -> Json { return {{"tf32", tf32_allowed() ? "on" : "off"}}; });
  if (is_rehearsal(steps.device())) return;
  steps.step("device", [&]() -> Json {
    DeviceRuntime* runtime = device_runtime(steps.device().type());
    if (!runtime) fail("[device] {}: got no runtime, expected one", steps.device().str());
    const DeviceFacts facts = runtime->facts(steps.device());
    const DeviceMemory memory = runtime->memory(steps.device());
    return {{"name", facts.name},
            {"capability", facts.capability},
            {"count", runtime->count()},
            {"free_bytes", memory.free},
            {"total_bytes", memory.total}};
  });
}

void expect_close(const std::string& what, double error, double most = kClose) {
  if (!(error <= most))
    fail("[{}] result: got a relative error of {:.2g}, expected at most {:.2g}", what, error, most);
}

/// Compares the results of `work` on the device with those in float64 on the CPU.
Json compared(c10::Device device, const Tensors& inputs,
              const std::function<Tensor(const Tensors&)>& work) {
  Tensors there, exact;
  for (const Tensor& t : inputs) {
    there.push_back(t.to(device));
    exact.push_back(t.to(at::kDouble));
  }
  const double error =
      max_relative_error({work(there).cpu().unsqueeze(0)}, {work(exact).unsqueeze(0)});
  expect_close("device", error);
  return {{"error", error}};
}

Tensor lstm(const Tensors& t) {
  const Tensor zero = at::zeros({1, t[0].size(1), t[2].size(1)}, t[0].options());
  return std::get<0>(
      at::lstm(t[0], {zero, zero}, {t[1], t[2], t[3], t[4]}, true, 1, 0, false, false, false));
}

void climb(Steps& steps) {
  const c10::Device d = steps.device();
  steps.step("driver", [&]() -> Json {
    if (const auto why = unavailable(d)) throw Error(*why, 6);
    at::manual_seed(1);
    return {};
  });
  steps.step("memory", [&]() -> Json {
    const Tensor t = at::full({1 << 20}, 3, at::device(d));
    synchronize(d);
    return {{"sum", t.sum().item<double>()}};
  });
  const std::pair<const char*, std::function<Json()>> rungs[] = {
      {"product",
       [&] {
         return compared(d, {at::randn({65, 33}), at::randn({33, 17})},
                         [](const Tensors& t) { return at::mm(t[0], t[1]); });
       }},
      {"convolution",
       [&] {
         return compared(d, {at::randn({2, 6, 9, 9}), at::randn({4, 6, 3, 3})},
                         [](const Tensors& t) { return at::conv2d(t[0], t[1]); });
       }},
      {"attention",
       [&] {
         const Tensors qkv = {at::randn({2, 3, 16, 8}), at::randn({2, 3, 16, 8}),
                              at::randn({2, 3, 16, 8})};
         return compared(d, qkv, [](const Tensors& t) {
           return at::scaled_dot_product_attention(t[0], t[1], t[2]);
         });
       }},
      {"recurrent",
       [&] {
         const Tensors t = {at::randn({5, 3, 4}), at::randn({24, 4}), at::randn({24, 6}),
                            at::randn({24}), at::randn({24})};
         return compared(d, t, lstm);
       }},
      {"linear algebra",
       [&] {
         return compared(d, {at::randn({3, 8, 8}) + 8 * at::eye(8), at::randn({3, 8, 2})},
                         [](const Tensors& t) { return at::linalg_solve(t[0], t[1]); });
       }},
      {"compiler",
       [&] {  // compiled at the first call on the device
         return compared(d, {at::rand({64})},
                         [](const Tensors& t) { return at::special_bessel_j0(t[0]); });
       }},
      {"graph", [&]() -> Json {
         Tensor x = at::ones({64}, at::device(d)), y = at::empty({64}, at::device(d));
         const auto graph = capture(d, [&] { at::mul_out(y, x, x); });
         x.fill_(3);
         graph->replay();
         synchronize(d);
         if (y.min().item<float>() != 9) fail("[graph] replay: got the results of the capture");
         return {};
       }}};
  for (const auto& [name, work] : rungs)
    if (!is_rehearsal(d) || std::string(name) != "graph") steps.step(name, work);
}

int run_on_device_in_sandbox(double timeout_s, const std::function<int()>& work) {
  SandboxPolicy policy;
  policy.what = "gpu-report";
  policy.device = true;
  policy.timeout_s = timeout_s;
  return run_in_sandbox(policy, work);
}

void climb_in_sandbox(Steps& steps) {
  const int code = run_on_device_in_sandbox(60, [&] {
    climb(steps);
    return 0;
  });
  if (code != 0) throw Error("[sandbox] end: got a failure, expected none", code);
}

CompileOptions compile_in(Mode mode) {
  CompileOptions options;
  options.mode = mode;
  options.tune = false;
  return options;
}

/// A network's models on a device, with their reference on the CPU.
struct GpuSubject {
  Network network;
  Ensemble here, there;
  Program single;

  GpuSubject(const Target& target, at::ScalarType dtype, c10::Device device)
      : network(target.network(target.sweeps.at("ci").shapes.front())),
        here(generate(network, 3, dtype, c10::kCPU, 3)),
        there(here),
        single(record_single(network, here)) {
    for (Tensor& t : there.tensors) t = t.to(device);
  }
  Tensors inputs() const { return pick(network, there, true); }
  Tensors weights() const { return pick(network, there, false); }
};

Tensors on_cpu(const Tensors& tensors) {
  Tensors out;
  for (const Tensor& t : tensors) out.push_back(t.cpu().clone());
  return out;
}

Json numbers_of(const Target& target, at::ScalarType dtype, c10::Device device) {
  const GpuSubject s(target, dtype, device);
  const auto model = compile(s.network, s.there, compile_in(Mode::default_));
  const Tensors got = on_cpu(model->run(s.inputs()));
  if (s.network.random) return {{"random", true}};
  const Tensors again = on_cpu(model->run(s.inputs()));
  bool same = true;
  for (size_t k = 0; k < got.size(); ++k) same = same && detail::same_bits(got[k], again[k]);
  const Tensors exact = in_double(s.single, s.here);
  const double own =
      max_relative_error(on_cpu(separate(record_single(s.network, s.there), s.there)), exact);
  const double error = max_relative_error(got, exact);
  expect_close(target.name, error, std::max(target.tolerance_for(dtype), 4 * own));
  return {{"error", error}, {"separate_error", own}, {"same_bits_again", same}};
}

void numerics(Steps& steps) {
  const at::NoGradGuard no_grad;
  for (const Target* target : targets()) {
    if (target->kind != Kind::primitive || target->may_not_fit) continue;
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
      steps.step(fmt::format("{} {}", target->name, short_name(dtype)), [&]() -> Json {
        try {
          return numbers_of(*target, dtype, steps.device());
        } catch (const Unsupported& e) {
          return {{"unsupported", e.what()}};
        }
      });
  }
}

void expect_right(const GpuSubject& s, CompiledModel& model) {
  expect_close("graph",
               max_relative_error(on_cpu(model.run(s.inputs())), in_double(s.single, s.here)));
}

void graphs(Steps& steps) {
  const at::NoGradGuard no_grad;
  const c10::Device d = steps.device();
  if (is_rehearsal(d)) return;
  const GpuSubject s(find_target("linear"), at::kFloat, d);
  std::unique_ptr<CompiledModel> model;
  steps.step("capture and replay", [&]() -> Json {
    model = compile(s.network, s.there, compile_in(Mode::reduce_overhead));
    expect_right(s, *model);
    return {};
  });
  if (!model) return;
  steps.step("replay after explain", [&]() -> Json {
    model->explain(s.inputs());
    expect_right(s, *model);
    return {};
  });
  steps.step("replay after set_weights", [&]() -> Json {
    model->set_weights(s.weights());
    expect_right(s, *model);
    return {};
  });
  steps.step("random numbers by their seed", [&]() -> Json {
    const GpuSubject r(find_target("dropout"), at::kFloat, d);
    const auto drawn = compile(r.network, r.there, compile_in(Mode::reduce_overhead));
    const auto draw = [&] {
      at::manual_seed(5);
      return on_cpu(drawn->run(r.inputs()));
    };
    const Tensors first = draw();
    drawn->set_weights(r.weights());
    const Tensors again = draw();
    for (size_t k = 0; k < first.size(); ++k)
      if (!first[k].equal(again[k])) fail("[graph] seed: got other numbers after set_weights");
    return {};
  });
  steps.step("a failed capture", [&]() -> Json {
    Tensor x = at::ones({8}, at::device(d));
    try {
      capture(d, [&] { x.mul_(x.sum().item<float>()); });
      fail("[graph] capture: got a graph that reads on the host, expected a refusal");
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
    }
    capture(d, [&] { x.add_(1); })->replay();
    return {};
  });
  steps.step("out of memory", [&]() -> Json {
    try {
      at::empty({int64_t{1} << 50}, at::device(d));
    } catch (const std::exception&) {
      expect_right(s, *model);
      return {};
    }
    fail("[memory] a petabyte: got it, expected a refusal");
  });
}

/// Whether a failed assertion in a kernel is reported as a broken device, as it should be.
bool is_broken_by_assertion(c10::Device device) {
  try {
    const Tensor rows = at::zeros({4, 2}, at::device(device));
    at::index_select(rows, 0, at::full({1}, 9, at::device(device).dtype(at::kLong)));
    synchronize(device);
  } catch (const std::exception&) {
  }
  try {
    expect_working(device);
    return false;
  } catch (const BrokenDevice&) {
    return true;
  }
}

void assertions(Steps& steps) {
  const c10::Device d = steps.device();
  if (d.is_cpu()) return;  // on the CPU operators throw at once
  // In a forked process, started before this one has used the device.
  steps.step("a failed assertion is noticed", [&]() -> Json {
    if (run_on_device_in_sandbox(25, [&] { return is_broken_by_assertion(d) ? 0 : 1; }) != 0)
      fail(
          "[device] assertion: got a device that goes on, expected one that is broken for its "
          "process");
    return {};
  });
  steps.step("another process goes on", [&]() -> Json {
    const auto sum = at::full({64}, 3, at::device(d)).sum().item<double>();
    if (sum != 192) fail("[device] sum: got {}, expected 192", sum);
    return {};
  });
}

void peaks(Steps& steps) {
  steps.step("peaks", [&]() -> Json { return peaks_json(measure_peaks(steps.device(), 1)); });
  steps.step("launch", [&]() -> Json {
    const Tensor one = at::ones({1}, at::device(steps.device()));
    Tensor sum = at::empty({1}, at::device(steps.device()));
    Stopwatch watch(steps.device());
    std::vector<double> ns;
    for (int i = 0; i < 50; ++i) ns.push_back(watch.time_ns([&] { at::add_out(sum, one, one); }));
    return {{"add_of_one_element_ns", ns}};
  });
}

/// The arguments of the sweep; on the CPU only a few cases of the smallest preset.
std::vector<std::string> figures(c10::Device device, const std::string& folder) {
  std::vector<std::string> line = {"sweep",
                                   device.is_cpu() ? "ci" : "quick",
                                   "--device",
                                   device.str(),
                                   "--mode",
                                   "default,reduce-overhead",
                                   "--budget",
                                   "0.1",
                                   "--name",
                                   "gpu-report",
                                   "--quiet",
                                   "--db",
                                   folder + "/gpu-report.db",
                                   "--json",
                                   folder + "/gpu-report-sweep.json"};
  // Few enough for about half of the limit, by what an H100 took.
  if (device.is_cpu())
    line.insert(line.end(), {"--targets", "linear,layernorm", "-n", "2"});
  else
    line.insert(line.end(), {"-n", "8,32"});
  return line;
}

/// At least half of the cases, and no failure among their trials, are enough.
std::string cut_figures(const std::string& folder) {
  const std::string store = folder + "/gpu-report.db";
  std::error_code error;
  if (!std::filesystem::exists(store, error)) return "";
  const std::vector<SweepRow> sweeps = Store::read(store).sweeps(1);
  if (sweeps.empty() || 2 * sweeps.front().done < sweeps.front().cases) return "";
  const auto failed = [](const auto& count) {
    const Ending ending = ending_of(count.first);
    return count.second > 0 && (ending == Ending::incorrect || ending == Ending::failed);
  };
  if (std::ranges::any_of(sweeps.front().trials, failed)) return "";
  return fmt::format("the time limit came after {} of {} cases, none of whose trials failed",
                     sweeps.front().done, sweeps.front().cases);
}

const bool registered =
    add_gpu_stage({"machine", "the system, the driver and the device", 0, 60, machine}) &&
    add_gpu_stage({"ladder", "what each library does, from the driver upwards", 10, 120, climb}) &&
    add_gpu_stage({"sandbox", "the same inside the sandbox", 20, 120, climb_in_sandbox}) &&
    add_gpu_stage({"numerics", "every primitive in every dtype against float64 on the CPU", 30, 240,
                   numerics}) &&
    add_gpu_stage(
        {"graphs", "captured graphs: replay, weights, seeds, failures", 40, 90, graphs}) &&
    add_gpu_stage({"assertions", "a kernel's failed assertion ends its own process alone", 45, 30,
                   assertions}) &&
    add_gpu_stage({"peaks", "arithmetic, memory and launches", 50, 60, peaks}) &&
    add_gpu_stage({"figures",
                   "every strategy beside every baseline, as a sweep",
                   60,
                   480,
                   {},
                   figures,
                   cut_figures});

}  // namespace
}  // namespace wide::gpu_stages_of_program
