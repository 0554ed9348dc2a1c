#include "primitives/kernels/batched_gemm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>

#include "engine/error.h"
#include "engine/lower/operator_traits.h"
#include "primitives/kernels/activations.h"

namespace wide {

namespace {

using at::Tensor;

using Activate = void (*)(float*, int64_t);

/// How results are changed where they lie; null: not at all.
Activate find_activation(c10::string_view name) {
  if (name == "none") return nullptr;
  if (name == "relu") return activations::relu;
  if (name == "silu") return activations::silu;
  if (name == "gelu") return activations::gelu;
  if (name == "gelu_tanh") return activations::gelu_tanh;
  TORCH_CHECK(false, "wide::batched_gemm: activation ", name,
              ", expected none, relu, silu, gelu or gelu_tanh");
}

bool rows_contiguous(const Tensor& t) {
  return t.dim() == 3 && (t.size(2) == 1 || t.stride(2) == 1) &&
         (t.size(1) == 1 || t.stride(1) >= t.size(2));
}

/// Between rows; the stride of a single row says nothing.
int64_t leading(const Tensor& t) { return t.size(1) == 1 ? t.size(2) : t.stride(1); }

Tensor& batched_gemm_out(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                         c10::string_view activation, Tensor& out) {
  const int64_t n = a.size(0), m = a.size(1), k = a.size(2), o = b.size(2);
  TORCH_CHECK(rows_contiguous(a) && rows_contiguous(b) && b.size(0) == n && b.size(1) == k,
              "wide::batched_gemm: a ", a.sizes(), " and b ", b.sizes(), " do not fit");
  TORCH_CHECK(out.is_contiguous() && out.numel() == n * m * o, "wide::batched_gemm: out ",
              out.sizes(), " is not a contiguous [N, M, O]");
  const Tensor offset = bias ? bias->contiguous() : Tensor();
  const Activate activate = find_activation(activation);
  const float *pa = a.const_data_ptr<float>(), *pb = b.const_data_ptr<float>();
  const float* pbias = offset.defined() ? offset.const_data_ptr<float>() : nullptr;
  float* pc = out.mutable_data_ptr<float>();
  // A few rows at a time: enough work for a core, few enough that the result is still in its
  // first-level cache when the activation passes over it.
  const int64_t rows = m <= 64 ? m : 32, blocks = (m + rows - 1) / rows;
  const int64_t lda = leading(a), ldb = leading(b);
  const auto work = static_cast<double>(rows) * static_cast<double>(k) * static_cast<double>(o);
  const auto grain = static_cast<int64_t>(std::max(1.0, 65536.0 / work));
  at::parallel_for(0, n * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) {
      const int64_t i = job / blocks, row = job % blocks * rows, count = std::min(rows, m - row);
      float* c = pc + (i * m + row) * o;
      if (pbias != nullptr)
        for (int64_t r = 0; r < count; ++r)
          std::memcpy(c + r * o, pbias + i * o, static_cast<size_t>(o) * sizeof(float));
      at::native::cpublas::brgemm(count, o, k, lda, ldb, o, pbias != nullptr,
                                  pa + i * a.stride(0) + row * lda, pb + i * b.stride(0), c,
                                  /*is_vnni=*/false);
      if (activate != nullptr) activate(c, count * o);
    }
  });
  return out;
}

Tensor batched_gemm_kernel(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias,
                           c10::string_view activation) {
  Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  return batched_gemm_out(a, b, bias, activation, out);
}

TORCH_LIBRARY(wide, m) {
  m.def("batched_gemm(Tensor a, Tensor b, Tensor? bias, str activation) -> Tensor");
  m.def(
      "batched_gemm.out(Tensor a, Tensor b, Tensor? bias, str activation, *, Tensor(a!) out) "
      "-> Tensor(a!)");
}

[[maybe_unused]] const bool registered = add_operator_traits(
    {.op = "wide::batched_gemm", .absorbs = {"relu", "silu", "gelu", "gelu_tanh"}});

TORCH_LIBRARY_IMPL(wide, CPU, m) {
  m.impl("batched_gemm", batched_gemm_kernel);
  m.impl("batched_gemm.out", batched_gemm_out);
}

TORCH_LIBRARY_IMPL(wide, Autograd, m) {
  m.impl("batched_gemm", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace

Tensor batched_gemm(const Tensor& a, const Tensor& b, const std::optional<Tensor>& bias) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("wide::batched_gemm", "");
  std::vector<c10::IValue> stack{a, b, bias ? c10::IValue(*bias) : c10::IValue(), "none"};
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

bool batched_gemm_applies(const Tensor& a, const Tensor& b) {
  return a.is_cpu() && a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat &&
         a.numel() > 0 && b.numel() > 0 &&
         !(at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad()));
}

}  // namespace wide
