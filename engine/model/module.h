#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/program.h"

namespace wide {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// One model as C++ code: its forward pass and the tensors that this reads. `forward` holds these
/// tensors itself; for N models at once they are replaced while it runs.
struct Module {
  std::function<Tensors(const Tensors& inputs)> forward;
  NamedTensors parameters, buffers;
  /// A separate model with other tensors (parameters, then buffers, each once), as users run it,
  /// for baselines. Empty: `forward` with its tensors replaced by those.
  std::function<std::function<Tensors(const Tensors& inputs)>(const Tensors& tensors)> instantiate =
      {};
};

namespace detail {

inline void flatten(const Tensor& t, Tensors& out) { out.push_back(t); }
template <class T>
void flatten(const std::vector<T>& all, Tensors& out);
template <class... T>
void flatten(const std::tuple<T...>& all, Tensors& out);
template <class A, class B>
void flatten(const std::pair<A, B>& both, Tensors& out);
template <class T>
void flatten(const std::optional<T>& maybe, Tensors& out) {
  if (maybe) flatten(*maybe, out);
}
template <class T>
void flatten(const std::vector<T>& all, Tensors& out) {
  for (const T& one : all) flatten(one, out);
}
template <class... T>
void flatten(const std::tuple<T...>& all, Tensors& out) {
  std::apply([&](const auto&... one) { (flatten(one, out), ...); }, all);
}
template <class A, class B>
void flatten(const std::pair<A, B>& both, Tensors& out) {
  flatten(both.first, out);
  flatten(both.second, out);
}

[[noreturn]] void refuse_arguments(size_t count);

template <class F, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void)I, std::declval<const Tensor&>())...>;
}

template <class F, size_t... I>
Tensors call_with(F& f, const Tensors& in, std::index_sequence<I...>) {
  Tensors out;
  flatten(f(in[I]...), out);
  return out;
}

/// Calls `f` with all tensors; flattens nested results.
template <size_t N = 1, class F>
Tensors call(F& f, const Tensors& in) {
  if constexpr (N <= 8) {
    if (in.size() > N) return call<N + 1>(f, in);
    if constexpr (takes<F>(std::make_index_sequence<N>()))
      if (in.size() == N) return call_with(f, in, std::make_index_sequence<N>());
  }
  refuse_arguments(in.size());
}

/// Pairs, or the items of a torch::OrderedDict.
template <class Items>
NamedTensors named(const Items& items) {
  NamedTensors out;
  for (const auto& item : items) {
    if constexpr (requires { item.key(); })
      out.emplace_back(item.key(), item.value());
    else
      out.emplace_back(item.first, item.second);
  }
  return out;
}

/// The model itself behind a pointer or a torch::nn::ModuleHolder.
template <class M>
auto& pointee(M& model) {
  if constexpr (std::is_pointer_v<M>)
    return *model;
  else if constexpr (requires { model.operator->(); })
    return *model.operator->();
  else
    return model;
}

/// A model's own `forward`, or its `operator()`. Holds a copy of the pointer or holder, which keeps
/// what it points to alive.
template <class M>
struct OwnCall {
  std::shared_ptr<M> model;

  template <class... T>
  requires requires(M& m, const T&... in) {
    pointee(m).forward(in...);
  } || requires(M& m, const T&... in) {
    pointee(m)(in...);
  }
  auto operator()(const T&... in) {
    auto& own = pointee(*model);
    if constexpr (requires { own.forward(in...); })
      return own.forward(in...);
    else
      return own(in...);
  }
};

}  // namespace detail

/// A model with this `forward`. `model` is anything, or a pointer to it: a torch::nn::Module, a
/// struct whose `named_parameters()` and `named_buffers()`, where it has them, return pairs of a
/// name and a tensor, or a function.
template <class M, class F>
Module as_module(const M& model, F forward) {
  M held = model;
  auto& own = detail::pointee(held);
  Module module;
  if constexpr (requires { own.named_parameters(); })
    module.parameters = detail::named(own.named_parameters());
  if constexpr (requires { own.named_buffers(); })
    module.buffers = detail::named(own.named_buffers());
  module.forward = [held, forward](const Tensors& inputs) mutable {
    if constexpr (std::is_invocable_r_v<Tensors, F&, const Tensors&>)
      return forward(inputs);
    else
      return detail::call(forward, inputs);
  };
  return module;
}

/// A model with its own `forward(...)`, or else `operator()(...)`: takes up to 8 tensors; returns a
/// tensor, or tuples, vectors and optionals of them.
template <class M>
Module as_module(const M& model) {
  return as_module(model, detail::OwnCall<M>{std::make_shared<M>(model)});
}

inline Module as_module(const Module& module) { return module; }

}  // namespace wide
