#pragma once
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <string>
#include <tuple>
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

/// The number of tensors that an out-kernel writes, which it returns.
template <class Result>
constexpr size_t kResults = 1;
template <class... Tensors>
constexpr size_t kResults<std::tuple<Tensors...>> = sizeof...(Tensors);

/// A kernel with the first arguments of `out_kernel`: the rest are results that `allocate` makes.
template <class Allocate, class Result, class... All, size_t... Inputs>
auto filling(Allocate allocate, Result (*out_kernel)(All...), std::index_sequence<Inputs...>) {
  return [=](std::tuple_element_t<Inputs, std::tuple<All...>>... in) {
    auto made = allocate(in...);
    if constexpr (std::is_same_v<decltype(made), at::Tensor>)
      out_kernel(in..., made);
    else
      std::apply([&](auto&... out) { out_kernel(in..., out...); }, made);
    return made;
  };
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

/// Registers an operator with the form `NAME.out`, computed by `out_kernel` into results that
/// `allocate` makes from the same arguments.
template <class Allocate, class Result, class... All>
void add_filled_operator(torch::Library& m, const std::string& name, const std::string& arguments,
                         Allocate allocate, Result (*out_kernel)(All...),
                         const OperatorSchema& schema = OperatorSchema()) {
  const auto inputs = std::make_index_sequence<sizeof...(All) - detail::kResults<Result>>();
  add_operator(m, name, arguments, detail::filling(allocate, out_kernel, inputs), out_kernel,
               schema);
}

/// Makes a contiguous result of the first argument's sizes and dtype.
inline constexpr auto like_first = [](const at::Tensor& x, const auto&...) {
  return at::empty(x.sizes(), x.options());
};

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
