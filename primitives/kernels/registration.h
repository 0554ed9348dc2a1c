#pragma once
#include <torch/library.h>

#include <string>
#include <utility>
#include <vector>

/// How the engine's own operators are registered with PyTorch's dispatcher.
namespace wide::kernels {

/// What an operator's schema says beside its name and its arguments.
struct OperatorSchema {
  std::vector<std::string> results = {"out"};  // names of the tensors that the out-form writes
  std::vector<at::Tag> tags = {};
};

namespace detail {
/// Defines `NAME(ARGUMENTS)`, and `NAME.out` where `has_out`. Autograd refuses to differentiate it.
void define(torch::Library& m, const std::string& name, const std::string& arguments, bool has_out,
            const OperatorSchema& schema);

template <class Function>
void implement(torch::Library& m, const std::string& name, Function&& function) {
  m.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CPU, std::forward<Function>(function)));
}
}  // namespace detail

/// Registers an operator without an out-form, computed by `kernel` on the CPU. A call whose
/// arguments need a gradient is refused when the gradient is computed.
template <class Kernel>
void add_operator(torch::Library& m, const std::string& name, const std::string& arguments,
                  Kernel&& kernel) {
  detail::define(m, name, arguments, false, OperatorSchema());
  detail::implement(m, name, std::forward<Kernel>(kernel));
}

/// The same with the form `NAME.out`, computed by `out_kernel`.
template <class Kernel, class OutKernel>
void add_operator(torch::Library& m, const std::string& name, const std::string& arguments,
                  Kernel&& kernel, OutKernel&& out_kernel,
                  const OperatorSchema& schema = OperatorSchema()) {
  detail::define(m, name, arguments, true, schema);
  detail::implement(m, name, std::forward<Kernel>(kernel));
  detail::implement(m, name + ".out", std::forward<OutKernel>(out_kernel));
}

}  // namespace wide::kernels
