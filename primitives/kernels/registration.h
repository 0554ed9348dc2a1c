#pragma once
#include <torch/library.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/widen/capabilities.h"

/// How the engine's own operators are registered with PyTorch's dispatcher.
namespace wide::kernels {

/// Properties of an operator beside its name and arguments.
struct OperatorSchema {
  std::vector<std::string> results = {"out"};  // names of the tensors that the out-form writes
  std::vector<at::Tag> tags = {};
  std::vector<at::ScalarType> dtypes = {at::kFloat};  // of floating tensors, on the CPU
  std::vector<at::ScalarType> others = {};            // of masks and indices, on every device
  /// True: the operator's file registers a gradient for the Autograd key. False: autograd refuses
  /// to differentiate it.
  bool gradients = false;
};

namespace detail {
/// Defines `NAME(ARGUMENTS)`, and `NAME.out` where `has_out`, and the dtypes that the CPU supports.
void define(torch::Library& m, const std::string& name, const std::string& arguments, bool has_out,
            const OperatorSchema& schema);
/// Declares the dtypes that another device supports.
void add_device(torch::Library& m, const std::string& name, c10::DeviceType device,
                const std::vector<at::ScalarType>& dtypes);

template <class Function>
void implement(torch::Library& m, const std::string& name, c10::DeviceType device,
               Function&& function) {
  m.impl(name.c_str(), torch::dispatch(device, std::forward<Function>(function)));
}
}  // namespace detail

/// Registers an operator without an out-form, computed by `kernel` on the CPU.
template <class Kernel>
void add_operator(torch::Library& m, const std::string& name, const std::string& arguments,
                  Kernel&& kernel, const OperatorSchema& schema = OperatorSchema()) {
  detail::define(m, name, arguments, false, schema);
  detail::implement(m, name, c10::kCPU, std::forward<Kernel>(kernel));
}

/// Registers an operator with the form `NAME.out`, computed by `out_kernel`.
template <class Kernel, class OutKernel>
requires(!std::is_same_v<std::decay_t<OutKernel>, OperatorSchema>) void add_operator(
    torch::Library& m, const std::string& name, const std::string& arguments, Kernel&& kernel,
    OutKernel&& out_kernel, const OperatorSchema& schema = OperatorSchema()) {
  detail::define(m, name, arguments, true, schema);
  detail::implement(m, name, c10::kCPU, std::forward<Kernel>(kernel));
  detail::implement(m, name + ".out", c10::kCPU, std::forward<OutKernel>(out_kernel));
}

/// Registers an operator's kernel and out-kernel for another device than the CPU, for floating
/// `dtypes`.
template <class Kernel, class OutKernel>
void add_form(torch::Library& m, const std::string& name, c10::DeviceType device,
              const std::vector<at::ScalarType>& dtypes, Kernel&& kernel, OutKernel&& out_kernel) {
  detail::add_device(m, name, device, dtypes);
  detail::implement(m, name, device, std::forward<Kernel>(kernel));
  detail::implement(m, name + ".out", device, std::forward<OutKernel>(out_kernel));
}

}  // namespace wide::kernels
