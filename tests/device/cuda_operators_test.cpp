// The host code of the real CUDA libraries, where they can be loaded: every operator that programs
// are made of has a kernel in them, or is made of operators that have.
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "app/sweep/cases.h"
#include "engine/compile.h"
#include "engine/error.h"
#include "engine/widen/derivative.h"

namespace wide::cuda_operators_test {
namespace {

/// Recorded on the CPU alone: with tensors of a GPU PyTorch calls the other one.
const std::map<std::string, std::string>& elsewhere() {
  static const std::map<std::string, std::string> all = {
      {"aten::_scaled_dot_product_flash_attention_for_cpu",
       "aten::_scaled_dot_product_efficient_attention"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
       "aten::_scaled_dot_product_efficient_attention_backward"},
      {"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn"}};
  return all;
}

using Operators = std::map<std::string, std::string>;  // and who has it

void note(const Program& program, const std::string& who, Operators* all) {
  for (const Node& node : program.nodes) all->emplace(node.name(), who);
}

/// Of every target, as one model and wide, in every phase and by every strategy.
Operators recorded() {
  const at::NoGradGuard no_grad;
  Operators all;
  for (const Target* target : targets()) {
    if (target->may_not_fit) continue;
    const Shape& shape = target->sweeps.at("ci").shapes.front();
    for (const std::string phase : {"forward", "step"}) {  // which has a backward pass
      Network network = target->network(shape);
      Program single = record_single(network, generate(network, 1, at::kFloat, c10::kCPU, 3),
                                     phase != "forward");
      try {
        if (phase != "forward") {
          network =
              phase_network(network, single, phase, default_optimizer(target->optimizer).name);
          single = record_single(network, generate(network, 1, at::kFloat, c10::kCPU, 3), true);
        }
      } catch (const Unsupported&) {
        continue;  // nothing to train
      }
      note(single, target->name + " " + phase, &all);
      const Ensemble ensemble = generate(network, 2, at::kFloat, c10::kCPU, 3);
      for (const std::string& strategy : strategy_names(*target)) {
        if (phase != "forward" && strategy != strategy_names(*target).front()) continue;
        CompileOptions options;
        options.threads = 1;
        options.tune = false;
        options.widen = widen_options(*target, strategy, {});
        try {
          note(compile(network, ensemble, options, single)->program(),
               fmt::format("{}/{} {}", target->name, strategy, phase), &all);
        } catch (const Unsupported&) {
          continue;
        }
      }
    }
  }
  return all;
}

/// Of these PyTorch has a decomposition for all devices, and no kernel of CUDA beside it. Operators
/// whose kernel is missing have one under the same key: it calls the form that is missing.
const std::set<std::string>& decomposed() {
  static const std::set<std::string> all = {"aten::bernoulli.p", "aten::select_backward"};
  return all;
}

bool has_kernel(const std::string& name) {
  const size_t dot = name.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!op) return false;
  for (const c10::DispatchKey key :
       {c10::DispatchKey::CUDA, c10::DispatchKey::CompositeImplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutograd})
    if (op->hasKernelForDispatchKey(key)) return true;
  return decomposed().count(name) > 0 &&
         op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
}

/// Names without a kernel; operators of this project are for the CPU and say so themselves.
std::vector<std::string> holes(const Operators& all) {
  std::vector<std::string> found;
  for (const auto& [name, who] : all) {
    if (name.rfind("wide::", 0) == 0 || name.rfind("planted::", 0) == 0) continue;
    const auto other = elsewhere().find(name);
    if (!has_kernel(other == elsewhere().end() ? name : other->second))
      found.push_back(name + " of " + who);
  }
  return found;
}

TEST(CudaOperators, EveryRecordedOneHasAKernel) {
  Dl_info here{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&at::globalContext), &here), 0);
  const auto library = std::filesystem::path(here.dli_fname).parent_path() / "libtorch_cuda.so";
  if (!std::filesystem::exists(library)) GTEST_SKIP() << "this LibTorch is the CPU's";
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) GTEST_SKIP() << dlerror();
  Operators all = {{"aten::mkldnn_linear", "nobody, since it is the CPU's"}};
  EXPECT_EQ(holes(all).size(), 1u) << "a hole is not seen";
  all = recorded();
  EXPECT_GT(all.size(), 100u);
  EXPECT_EQ(holes(all), std::vector<std::string>{});
}

}  // namespace
}  // namespace wide::cuda_operators_test
