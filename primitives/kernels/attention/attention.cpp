#include "primitives/kernels/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "engine/measure/roofline.h"
#include "primitives/kernels/attention/attention_rows.h"
#include "primitives/kernels/gemm/panel_gemm.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"
#include "primitives/kernels/thread_memory.h"

namespace wide {

namespace {

using at::Tensor;

constexpr int64_t kScores = 8192;  // scores at a time: they fit the first-level cache

/// One head; strides in floats.
struct Head {
  const float *q, *k, *v;
  int64_t q_stride, k_stride, v_stride;  // from one step to the next
  int64_t k_column;                      // from one feature to the next
  float* out;
  int64_t out_stride;
};

/// The mask of one head: numbers added to scores, or true for those that count; one of the two.
struct Mask {
  const float* added = nullptr;
  const bool* counts = nullptr;
  int64_t stride = 0;  // from row to row
};

struct Sizes {
  int64_t from, to, depth, width;  // steps of q, steps of k and v, features of q and k, of v
  bool causal;
  float scale;
  bool empty_is_zero;

  int64_t stride() const { return (to + 15) / 16 * 16; }
  int64_t rows() const { return std::clamp<int64_t>(kScores / stride(), 8, 64); }
  int64_t key_floats() const { return panel_gemm::packed_floats(depth, to); }
  int64_t value_floats() const { return panel_gemm::packed_floats(to, width); }
  int64_t floats() const { return key_floats() + value_floats() + rows() * stride(); }
};

void compute(const Sizes& s, const Head& h, const Mask& mask, float* memory) {
  float *keys = memory, *values = keys + s.key_floats(), *scores = values + s.value_floats();
  panel_gemm::pack({s.depth, s.to, h.k, h.k_column, h.k_stride, nullptr, 0}, keys);
  panel_gemm::pack({s.to, s.width, h.v, h.v_stride, 1, nullptr, 0}, values);
  for (int64_t row = 0; row < s.from; row += s.rows()) {
    const int64_t count = std::min(s.rows(), s.from - row);
    panel_gemm::multiply(count, s.depth, s.to, h.q + row * h.q_stride, h.q_stride, 1, keys, scores,
                         s.stride(), false);
    const bool masked = mask.added != nullptr || mask.counts != nullptr;
    if (masked)
      attention_rows::mask({scores, count, s.to, s.stride(), s.scale,
                            mask.added ? mask.added + row * mask.stride : nullptr,
                            mask.counts ? mask.counts + row * mask.stride : nullptr, mask.stride});
    attention_rows::softmax({scores, count, s.to, s.stride(), masked ? 1.0F : s.scale,
                             s.causal ? row : -1, masked && s.empty_is_zero});
    panel_gemm::multiply(count, s.to, s.width, scores, s.stride(), 1, values,
                         h.out + row * h.out_stride, h.out_stride, false);
  }
}

bool rows_contiguous(const Tensor& t) {
  return t.dim() == 5 && (t.size(4) == 1 || t.stride(4) == 1);
}

/// The mask expanded to all scores, with contiguous rows; undefined if there is none.
Tensor of_scores(const std::optional<Tensor>& mask, const Tensor& q, const Tensor& k) {
  if (!mask || !mask->defined()) return {};
  TORCH_CHECK(mask->scalar_type() == at::kFloat || mask->scalar_type() == at::kBool,
              "wide::attention: a mask of ", mask->scalar_type());
  const Tensor all = mask->expand({q.size(0), q.size(1), q.size(2), q.size(3), k.size(3)});
  return rows_contiguous(all) ? all : all.contiguous();
}

Tensor& attention_out(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::optional<Tensor>& mask, bool causal, double scale,
                      bool empty_is_zero, Tensor& out) {
  TORCH_CHECK(rows_contiguous(q) && k.dim() == 5 && rows_contiguous(v) && rows_contiguous(out) &&
                  k.sizes().slice(0, 3) == q.sizes().slice(0, 3) &&
                  v.sizes().slice(0, 4) == k.sizes().slice(0, 4) && k.size(4) == q.size(4) &&
                  out.sizes().slice(0, 4) == q.sizes().slice(0, 4) && out.size(4) == v.size(4),
              "wide::attention: q ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              " do not fit");
  const Sizes sizes{
      q.size(3), k.size(3), q.size(4), v.size(4), causal, static_cast<float>(scale), empty_is_zero};
  const Tensor masks = of_scores(mask, q, k);
  const float *pq = q.const_data_ptr<float>(), *pk = k.const_data_ptr<float>();
  const float* pv = v.const_data_ptr<float>();
  float* po = out.mutable_data_ptr<float>();
  const int64_t batch = q.size(1), heads = q.size(2);
  at::parallel_for(0, q.size(0) * batch * heads, 1, [&](int64_t begin, int64_t end) {
    float* memory = kernels::thread_memory<Head>(sizes.floats());
    for (int64_t job = begin; job < end; ++job) {
      const int64_t h = job % heads, b = job / heads % batch, i = job / heads / batch;
      const auto at = [&](const Tensor& t) {
        return i * t.stride(0) + b * t.stride(1) + h * t.stride(2);
      };
      Mask own;
      if (masks.defined()) {
        own.stride = masks.stride(3);
        if (masks.scalar_type() == at::kBool)
          own.counts = masks.const_data_ptr<bool>() + at(masks);
        else
          own.added = masks.const_data_ptr<float>() + at(masks);
      }
      compute(sizes,
              {pq + at(q), pk + at(k), pv + at(v), q.stride(3), k.stride(3), v.stride(3),
               k.stride(4), po + at(out), out.stride(3)},
              own, memory);
    }
  });
  return out;
}

/// FLOPs of the products of queries with keys and of softmax with values.
double flops(const Program& program, const Node& node) {
  const auto sizes = [&](size_t i) -> const std::vector<int64_t>& {
    return program.value(node.arguments[i].values[0]).sizes;
  };
  const double scores =
      double(c10::multiply_integers(sizes(0))) / double(sizes(0)[4]) * double(sizes(2)[3]);
  return 2 * scores * double(sizes(0)[4] + sizes(2)[4]);
}

[[maybe_unused]] const bool registered = add_flops("wide::attention", flops);

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "attention",
      "Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float scale, "
      "bool empty_is_zero",
      [](const Tensor& q, const Tensor&, const Tensor& v, const auto&...) {
        return at::empty({q.size(0), q.size(1), q.size(3), q.size(2), v.size(4)}, q.options())
            .transpose(2, 3);
      },
      attention_out, {.others = {at::kBool}});
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, bool causal,
                 double scale, bool empty_is_zero) {
  return kernels::call("attention", {q, k, v, mask.defined() ? c10::IValue(mask) : c10::IValue(),
                                     causal, scale, empty_is_zero});
}

}  // namespace wide
