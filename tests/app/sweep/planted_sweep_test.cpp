// A strategy that is wrong must end a sweep with `incorrect` and exit code 4. The faults are
// planted in targets that exist only in a child of this test, which runs the command line itself.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/library.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "tests/app/planted_target.h"
#include "tests/scratch.h"

namespace wide::planted_sweep_test {
namespace {

Target target(const std::string& name, const std::string& op, Network network,
              const std::vector<int64_t>& arguments,
              std::function<Tensors(const Planted&, const WideCall&)> fault) {
  Target t = planted_target(name, op, std::move(network), arguments);
  t.strategies = {strategy<Planted>("faulty", "wrong on purpose", std::move(fault))};
  return t;
}

Network batch_norm() {
  Network net;
  net.tensors = {{"mean", Role::buffer, {3}},
                 {"var", Role::buffer, {3}, at::kFloat, Fill::positive},
                 {"x", Role::input, {4, 3, 5}}};
  net.training = true;
  net.forward = [](const Tensors& t) {
    return Tensors{at::batch_norm(t[2], {}, {}, t[0], t[1], true, 0.1, 1e-5, false)};
  };
  return net;
}

Network dropout() {
  Network net;
  net.tensors = {{"x", Role::input, {64, 64}}};
  net.random = true;
  net.forward = [](const Tensors& t) { return Tensors{at::dropout(t[0], 0.5, true)}; };
  return net;
}

/// Wrong only once it has been called often, which is while it is timed.
Tensor worn(const Tensor& x) {
  static int64_t calls = 0;
  return x + (++calls > 2000 ? 1 : 0);
}

TORCH_LIBRARY_FRAGMENT(planted, m) {
  m.def("worn(Tensor x) -> Tensor");
  m.impl("worn", c10::DispatchKey::CPU, TORCH_FN(worn));
}

Tensor call_worn(const Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("planted::worn", "")
                             .typed<Tensor(const Tensor&)>();
  return op.call(x);
}

/// The fault named by the environment, as a target sorted before those it takes the claim from.
std::optional<Target> planted(const std::string& fault) {
  auto of_linear = [&](auto run) {
    return target("a_planted", "aten::linear", planted_linear(), {0, 1, 2}, run);
  };
  if (fault == "weight of another model")
    return of_linear([](const Planted&, const WideCall& c) {
      return Tensors{planted_product(c.inputs[0], c.inputs[1].roll(1, 0), c.inputs[2])};
    });
  if (fault == "wrong axis")
    return of_linear([](const Planted&, const WideCall& c) {
      return Tensors{planted_product(c.inputs[0], c.inputs[1].transpose(1, 2), c.inputs[2])};
    });
  if (fault == "bias of model 0 for all")
    return of_linear([](const Planted&, const WideCall& c) {
      return Tensors{planted_product(c.inputs[0], c.inputs[1],
                                     c.inputs[2].narrow(0, 0, 1).expand_as(c.inputs[2]))};
    });
  if (fault == "mean over models")
    return of_linear([](const Planted&, const WideCall& c) {
      const Tensor y = planted_product(c.inputs[0], c.inputs[1], c.inputs[2]);
      return Tensors{y - y.mean(0, true) * 0.01};
    });
  if (fault == "worn by timing")
    return of_linear(
        [](const Planted&, const WideCall& c) { return Tensors{call_worn(planted_product(c))}; });
  if (fault == "loop of other models") {
    Target t =
        of_linear([](const Planted&, const WideCall& c) { return Tensors{planted_product(c)}; });
    Network doubled = t.network(Shape{});
    doubled.instantiate = [honest = doubled.instantiate](const Tensors& weights) {
      return honest({weights[0] * 2, weights[1]});
    };
    t.network = [doubled](const Shape&) { return doubled; };
    return t;
  }
  if (fault == "stale running statistics")
    return target("a_planted", "aten::_native_batch_norm_legit_functional", batch_norm(), {0, 3, 4},
                  [](const Planted&, const WideCall& c) {
                    const Tensor& x = c.inputs[0];
                    const Tensor mean = x.mean({1, 3}, true);
                    const Tensor rstd = (x.var({1, 3}, false, true) + 1e-5).rsqrt();
                    return Tensors{(x - mean) * rstd, mean.view({c.n, 3}), rstd.view({c.n, 3}),
                                   c.inputs[1] * 1, c.inputs[2] * 1};
                  });
  if (fault == "mask shared by all")
    return target("a_planted", "aten::dropout", dropout(), {0},
                  [](const Planted&, const WideCall& c) {
                    const Tensor& x = c.inputs[0];
                    const Tensor keep = at::bernoulli(at::full_like(x[0], 0.5));
                    return Tensors{x * keep.unsqueeze(0) * 2};
                  });
  return std::nullopt;
}

const bool registered = [] {
  const char* fault = std::getenv("WORKBENCH_PLANT");
  if (fault == nullptr) return false;
  auto t = planted(fault);
  return t && add_target(std::move(*t), __FILE__);
}();

/// The child: the command line on a preset of the planted target alone.
TEST(PlantedChild, Sweep) {
  const char* folder = std::getenv("WORKBENCH_PLANT_FOLDER");
  if (!registered || folder == nullptr) GTEST_SKIP() << "runs only as a child of PlantedSweep";
  std::string preset = std::string(folder) + "/p.json", json = std::string(folder) + "/out.json";
  std::vector<std::string> words{"workbench", "sweep", preset,    "--strategy", "a_planted=faulty",
                                 "--json",    json,    "--quiet", "--no-store"};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  std::exit(run_cli(static_cast<int>(argv.size()), argv.data()));
}

class PlantedSweep : public ::testing::TestWithParam<const char*> {};

TEST_P(PlantedSweep, EndsIncorrectWithExitCodeFour) {
  const Scratch folder;
  std::ofstream(folder / "p.json")
      << R"({"schema": 1, "name": "planted", "description": "one fault",
    "targets": ["a_planted"], "sweep": "ci", "budget_s": 0.01})";
  ::setenv("WORKBENCH_PLANT", GetParam(), 1);
  ::setenv("WORKBENCH_PLANT_FOLDER", folder.path().c_str(), 1);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const int status =
      std::system((self + " --gtest_filter=PlantedChild.Sweep >/dev/null 2>&1").c_str());
  ::unsetenv("WORKBENCH_PLANT");
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 4);
  std::ifstream file(folder / "out.json");
  ASSERT_TRUE(file) << "no report";
  const auto report = nlohmann::json::parse(file);
  int incorrect = 0;
  for (const auto& one : report.at("cases"))
    for (const auto& trial : one.at("trials"))
      if (trial.at("strategy") == "faulty") {
        EXPECT_EQ(trial.at("status"), "incorrect");
        EXPECT_TRUE(!trial.contains("speedup") || trial.at("speedup").is_null());
        const bool late = GetParam() == std::string_view("worn by timing");
        EXPECT_EQ(trial.at("reason").get<std::string>().rfind("after timing: ", 0) == 0, late)
            << trial.at("reason");
        const bool loop = GetParam() == std::string_view("loop of other models");
        EXPECT_EQ(trial.at("reason").get<std::string>().find("keep numbers between calls") !=
                      std::string::npos,
                  loop)
            << trial.at("reason");
        EXPECT_EQ(one.at("notes").dump().find("baseline loop is wrong") != std::string::npos, loop);
        ++incorrect;
      }
  EXPECT_EQ(incorrect, 1);
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedSweep,
                         ::testing::Values("weight of another model", "wrong axis",
                                           "bias of model 0 for all", "mean over models",
                                           "stale running statistics", "mask shared by all",
                                           "worn by timing", "loop of other models"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name)
                             if (c == ' ') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace wide::planted_sweep_test
