#include "primitives/kernels/attention/blockwise_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "engine/measure/roofline.h"
#include "primitives/kernels/attention/attention_rows.h"
#include "primitives/kernels/gemm/panel_gemm.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/registration.h"

namespace wide {
namespace {

using at::Tensor;
namespace pg = panel_gemm;

constexpr int64_t kRows = 64;      // queries at a time, forward
constexpr int64_t kColumns = 384;  // keys at a time: scores fit the second-level cache
constexpr int64_t kKeys = 128;     // keys at a time, backward
constexpr int64_t kPanels = 4;     // panels of queries at a time, backward

/// Values that all heads share.
struct Sizes {
  int64_t from, to, depth, width;  // steps of q, steps of k and v, features of q and k, of v
  bool causal;
  float scale;
};

/// One head's part of a tensor: rows of features.
struct Rows {
  float* data;
  int64_t row, column;  // strides in floats
};

using Floats = std::unique_ptr<float[]>;
Floats floats(int64_t count) {
  return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count));
}

void scale_row(float* row, int64_t count, float by) {
  for (int64_t i = 0; i < count; ++i) row[i] *= by;
}

// ----------------------------------------------------------------------------------- forward

/// The keys and values of a head, packed block by block for the products.
class Packed {
 public:
  Packed(const Sizes& s, float* memory) : s_(s), memory_(memory) {}
  static int64_t size(const Sizes& s) { return blocks(s) * stride(s); }
  static int64_t blocks(const Sizes& s) { return (s.to + kColumns - 1) / kColumns; }

  void pack(const Rows& k, const Rows& v) const {
    for (int64_t j = 0; j < blocks(s_); ++j) {
      const int64_t at = j * kColumns, count = columns(j);
      pg::pack({s_.depth, count, k.data + at * k.row, k.column, k.row, nullptr, 0}, keys(j));
      pg::pack({count, s_.width, v.data + at * v.row, v.row, v.column, nullptr, 0}, values(j));
    }
  }
  int64_t columns(int64_t j) const { return std::min(kColumns, s_.to - j * kColumns); }
  float* keys(int64_t j) const { return memory_ + j * stride(s_); }
  float* values(int64_t j) const { return keys(j) + key_floats(s_); }

 private:
  static int64_t key_floats(const Sizes& s) {
    return pg::packed_floats(s.depth, std::min(kColumns, s.to));
  }
  static int64_t stride(const Sizes& s) {
    return key_floats(s) + pg::packed_floats(std::min(kColumns, s.to), s.width);
  }
  const Sizes& s_;
  float* memory_;
};

/// Rows [row, row + count) of a head; `sums` gets the logarithm of each row's sum of e^score.
void forward_rows(const Sizes& s, const Packed& packed, const Rows& q, const Rows& out, int64_t row,
                  int64_t count, float* scores, float* sums) {
  float most[kRows], sum[kRows], shrunk[kRows];
  std::fill(most, most + count, -std::numeric_limits<float>::infinity());
  std::fill(sum, sum + count, 0.0F);
  float* to = out.data + row * out.row;
  for (int64_t j = 0; j < Packed::blocks(s); ++j) {
    const int64_t first = row - j * kColumns;  // column of the diagonal in this block
    if (s.causal && first + count <= 0) break;
    const int64_t columns = packed.columns(j);
    pg::multiply(count, s.depth, columns, q.data + row * q.row, q.row, q.column, packed.keys(j),
                 scores, kColumns, false);
    attention_rows::add_block(
        {scores, count, columns, kColumns, s.scale, first, s.causal, most, sum, shrunk});
    for (int64_t r = 0; j > 0 && r < count; ++r)
      if (shrunk[r] != 1.0F) scale_row(to + r * out.row, s.width, shrunk[r]);
    pg::multiply(count, columns, s.width, scores, kColumns, 1, packed.values(j), to, out.row,
                 j > 0);
  }
  for (int64_t r = 0; r < count; ++r) {
    scale_row(to + r * out.row, s.width, 1.0F / sum[r]);
    sums[r] = most[r] + std::log(sum[r]);
  }
}

// ---------------------------------------------------------------------------------- backward

struct Head {
  Rows q, k, v, out, gradient;  // of the result
  const float* sums;
  Rows dq, dk, dv;
};

/// Recomputes scores with keys as rows and queries as columns. The product gives them scaled and
/// minus the logarithm of their sum, which is a bias of the column.
class Backward {
 public:
  Backward(const Sizes& s, const Head& h) : s_(s), h_(h) {
    const int64_t t = s.from, blocks = count_blocks(), most = kPanels * widest();
    stride_ = (most + 15) / 16 * 16;
    query_rows_floats_ = pg::packed_floats(most, s.depth);
    gradient_rows_floats_ = pg::packed_floats(most, s.width);
    scaled_ = floats(t * s.depth);
    delta_ = floats(t);
    minus_sums_ = floats(t);
    queries_ = floats(pg::packed_floats(s.depth, t));
    gradients_ = floats(pg::packed_floats(s.width, t));
    query_rows_ = floats(blocks * query_rows_floats_);
    gradient_rows_ = floats(blocks * gradient_rows_floats_);
    key_rows_ = floats(pg::packed_floats(kKeys, s.depth));
    shares_ = floats(kKeys * stride_);
    moved_ = floats(kKeys * stride_);
  }

  void run() {
    prepare();
    for (int64_t key = 0; key < s_.to; key += kKeys) keys(key, std::min(kKeys, s_.to - key));
    for (int64_t i = 0; i < s_.from; ++i) scale_row(h_.dq.data + i * h_.dq.row, s_.depth, s_.scale);
  }

 private:
  int64_t widest() const {
    return std::max<int64_t>(pg::first_column(s_.from, 1), 1);  // the first panel is the widest
  }
  int64_t count_blocks() const { return (pg::panel_count(s_.from) + kPanels - 1) / kPanels; }

  /// Packs queries and the result's gradient as columns and as rows, as the blocks' products need.
  void prepare() {
    for (int64_t i = 0; i < s_.from; ++i) {
      const float *q = h_.q.data + i * h_.q.row, *y = h_.out.data + i * h_.out.row;
      const float* g = h_.gradient.data + i * h_.gradient.row;
      float sum = 0;
      for (int64_t k = 0; k < s_.width; ++k)
        sum += g[k * h_.gradient.column] * y[k * h_.out.column];
      delta_[i] = -sum;
      minus_sums_[i] = -h_.sums[i];
      for (int64_t k = 0; k < s_.depth; ++k)
        scaled_[i * s_.depth + k] = s_.scale * q[k * h_.q.column];
      std::fill_n(h_.dq.data + i * h_.dq.row, s_.depth, 0.0F);
    }
    pg::pack({s_.depth, s_.from, scaled_.get(), 1, s_.depth, minus_sums_.get(), 1}, queries_.get());
    pg::pack(
        {s_.width, s_.from, h_.gradient.data, h_.gradient.column, h_.gradient.row, delta_.get(), 1},
        gradients_.get());
    for (int64_t b = 0; b < count_blocks(); ++b) {
      const auto [begin, end] = columns_of(b);
      pg::pack({end - begin, s_.depth, scaled_.get() + begin * s_.depth, s_.depth, 1, nullptr, 0},
               query_rows_.get() + b * query_rows_floats_);
      pg::pack({end - begin, s_.width, h_.gradient.data + begin * h_.gradient.row, h_.gradient.row,
                h_.gradient.column, nullptr, 0},
               gradient_rows_.get() + b * gradient_rows_floats_);
    }
  }

  std::pair<int64_t, int64_t> columns_of(int64_t block) const {
    const int64_t past = std::min(pg::panel_count(s_.from), (block + 1) * kPanels);
    return {pg::first_column(s_.from, block * kPanels), pg::first_column(s_.from, past)};
  }

  void keys(int64_t key, int64_t count) {
    pg::pack({count, s_.depth, h_.k.data + key * h_.k.row, h_.k.row, h_.k.column, nullptr, 0},
             key_rows_.get());
    float *dk = h_.dk.data + key * h_.dk.row, *dv = h_.dv.data + key * h_.dv.row;
    bool add = false;
    for (int64_t b = 0; b < count_blocks(); ++b) {
      const auto [begin, end] = columns_of(b);
      if (s_.causal && end <= key) continue;  // these queries come before all of these keys
      const int64_t columns = end - begin, panel = b * kPanels,
                    past = std::min(pg::panel_count(s_.from), panel + kPanels);
      pg::multiply(count, s_.depth, s_.from, h_.k.data + key * h_.k.row, h_.k.row, h_.k.column,
                   queries_.get(), shares_.get() - begin, stride_, false, panel, past);
      pg::multiply(count, s_.width, s_.from, h_.v.data + key * h_.v.row, h_.v.row, h_.v.column,
                   gradients_.get(), moved_.get() - begin, stride_, false, panel, past);
      attention_rows::shares_and_gradients(
          {shares_.get(), moved_.get(), count, columns, stride_, key - begin, s_.causal});
      pg::multiply(count, columns, s_.width, shares_.get(), stride_, 1,
                   gradient_rows_.get() + b * gradient_rows_floats_, dv, h_.dv.row, add);
      pg::multiply(count, columns, s_.depth, moved_.get(), stride_, 1,
                   query_rows_.get() + b * query_rows_floats_, dk, h_.dk.row, add);
      pg::multiply(columns, count, s_.depth, moved_.get(), 1, stride_, key_rows_.get(),
                   h_.dq.data + begin * h_.dq.row, h_.dq.row, true);
      add = true;
    }
    if (add) return;
    for (int64_t r = 0; r < count; ++r) {  // no query uses these keys
      std::fill_n(dk + r * h_.dk.row, s_.depth, 0.0F);
      std::fill_n(dv + r * h_.dv.row, s_.width, 0.0F);
    }
  }

  const Sizes& s_;
  const Head& h_;
  int64_t stride_, query_rows_floats_, gradient_rows_floats_;
  Floats scaled_, delta_, minus_sums_;  // scaled queries; biases of columns
  Floats queries_, gradients_;          // as columns: [features, queries]
  Floats query_rows_, gradient_rows_;   // as rows, one matrix for each block
  Floats key_rows_, shares_, moved_;    // of one block of keys
};

// --------------------------------------------------------------------------------- operators

/// The heads of `[N, B, H, ...]`, one after the other.
class Heads {
 public:
  explicit Heads(const Tensor& q) : batch_(q.size(1)), heads_(q.size(2)), count_(q.size(0)) {}
  int64_t count() const { return count_ * batch_ * heads_; }
  int64_t offset(const Tensor& t, int64_t head) const {
    return head / heads_ / batch_ * t.stride(0) + head / heads_ % batch_ * t.stride(1) +
           head % heads_ * t.stride(2);
  }
  Rows rows(const Tensor& t, int64_t head) const {
    return {const_cast<float*>(t.const_data_ptr<float>()) + offset(t, head), t.stride(3),
            t.size(4) == 1 ? 1 : t.stride(4)};
  }

 private:
  int64_t batch_, heads_, count_;
};

Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  TORCH_CHECK(q.dim() == 5 && k.dim() == 5 && v.dim() == 5 &&
                  k.sizes().slice(0, 3) == q.sizes().slice(0, 3) &&
                  v.sizes().slice(0, 4) == k.sizes().slice(0, 4) && k.size(4) == q.size(4),
              "wide::blockwise_attention: q ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
              " do not fit");
  return {q.size(3), k.size(3), q.size(4), v.size(4), causal, static_cast<float>(scale)};
}

/// The tensor, or a copy in which rows or columns are contiguous, as the products need.
Tensor in_pieces(const Tensor& t) {
  const bool rows = t.size(4) == 1 || t.stride(4) == 1,
             columns = t.size(3) == 1 || t.stride(3) == 1;
  return rows || columns ? t : t.contiguous();
}

/// A result with heads side by side, as the next layer reads it.
Tensor side_by_side(const Tensor& like, int64_t features) {
  return at::empty({like.size(0), like.size(1), like.size(3), like.size(2), features},
                   like.options())
      .transpose(2, 3);
}

std::tuple<Tensor&, Tensor&> forward_out(const Tensor& q_, const Tensor& k_, const Tensor& v_,
                                         bool causal, double scale, Tensor& out, Tensor& sums) {
  const Tensor q = in_pieces(q_), k = in_pieces(k_), v = in_pieces(v_);
  const Sizes s = sizes_of(q, k, v, causal, scale);
  TORCH_CHECK(out.size(4) == 1 || out.stride(4) == 1, "wide::blockwise_attention: out of strides ",
              out.strides());
  const Heads heads(q);
  // If there are few heads, they are split so that every thread has rows.
  const int64_t cut = std::max<int64_t>(1, 2 * at::get_num_threads() / heads.count());
  const int64_t parts = std::min(cut, (s.from + kRows - 1) / kRows);
  at::parallel_for(0, heads.count() * parts, 1, [&](int64_t begin, int64_t end) {
    const Floats memory = floats(Packed::size(s)), scores = floats(kRows * kColumns);
    const Packed packed(s, memory.get());
    for (int64_t job = begin, before = -1; job < end; ++job) {
      const int64_t head = job / parts, part = job % parts;
      if (head != before) packed.pack(heads.rows(k, head), heads.rows(v, head));
      before = head;
      const int64_t rows = s.from * (part + 1) / parts;
      for (int64_t row = s.from * part / parts; row < rows; row += kRows)
        forward_rows(s, packed, heads.rows(q, head), heads.rows(out, head), row,
                     std::min(kRows, rows - row), scores.get(),
                     sums.mutable_data_ptr<float>() + head * s.from + row);
    }
  });
  return {out, sums};
}

std::tuple<Tensor&, Tensor&, Tensor&> backward_out(const Tensor& gradient_, const Tensor& q_,
                                                   const Tensor& k_, const Tensor& v_,
                                                   const Tensor& out, const Tensor& sums,
                                                   bool causal, double scale, Tensor& dq,
                                                   Tensor& dk, Tensor& dv) {
  const Tensor gradient = in_pieces(gradient_), q = in_pieces(q_), k = in_pieces(k_),
               v = in_pieces(v_);
  const Sizes s = sizes_of(q, k, v, causal, scale);
  const Heads heads(q);
  for (const Tensor* t : {&dq, &dk, &dv})
    TORCH_CHECK(t->size(4) == 1 || t->stride(4) == 1,
                "wide::blockwise_attention_backward: a gradient of strides ", t->strides());
  at::parallel_for(0, heads.count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; ++head) {
      const auto rows = [&](const Tensor& t) { return heads.rows(t, head); };
      const Head h{rows(q),   rows(k),        rows(v),
                   rows(out), rows(gradient), sums.const_data_ptr<float>() + head * s.from,
                   rows(dq),  rows(dk),       rows(dv)};
      Backward(s, h).run();
    }
  });
  return {dq, dk, dv};
}

std::tuple<Tensor, Tensor> call_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                        bool causal, double scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("wide::blockwise_attention", "")
                             .typed<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&,
                                                               const Tensor&, bool, double)>();
  return op.call(q, k, v, causal, scale);
}

class Attention : public torch::autograd::Function<Attention> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const Tensor& q, const Tensor& k, const Tensor& v,
                                                bool causal, double scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [out, sums] = call_forward(q, k, v, causal, scale);
    context->save_for_backward({q, k, v, out, sums});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({sums});
    return {out, sums};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto made =
        kernels::results("blockwise_attention_backward",
                         {gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4],
                          context->saved_data["causal"], context->saved_data["scale"]});
    return {made[0], made[1], made[2], Tensor(), Tensor()};
  }
};

std::tuple<Tensor, Tensor> autograd(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                    double scale) {
  if (at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad())) {
    const auto made = Attention::apply(q, k, v, causal, scale);
    return {made[0], made[1]};
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_forward(q, k, v, causal, scale);
}

/// FLOPs of one product of all queries with all keys.
double product_flops(const Program& program, const Node& node, size_t q) {
  const auto sizes = [&](size_t i) -> const std::vector<int64_t>& {
    return program.value(node.arguments[i].values[0]).sizes;
  };
  return 2.0 * double(c10::multiply_integers(sizes(q))) * double(sizes(q + 1)[3]);
}

// Two products forward, five backward (one recomputes the forward's).
[[maybe_unused]] const bool registered =
    add_flops("wide::blockwise_attention",
              [](const Program& p, const Node& n) { return 2 * product_flops(p, n, 0); }) &&
    add_flops("wide::blockwise_attention_backward",
              [](const Program& p, const Node& n) { return 5 * product_flops(p, n, 1); });

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(m, "blockwise_attention",
                               "Tensor q, Tensor k, Tensor v, bool causal, float scale",
                               [](const Tensor& q, const Tensor&, const Tensor& v, const auto&...) {
                                 return std::tuple(side_by_side(q, v.size(4)),
                                                   at::empty(q.sizes().slice(0, 4), q.options()));
                               },
                               forward_out, {.results = {"out0", "out1"}, .gradients = true});
  kernels::add_filled_operator(
      m, "blockwise_attention_backward",
      "Tensor gradient, Tensor q, Tensor k, Tensor v, Tensor out, Tensor sums, "
      "bool causal, float scale",
      [](const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const auto&...) {
        return std::tuple(side_by_side(q, q.size(4)), side_by_side(k, k.size(4)),
                          side_by_side(v, v.size(4)));
      },
      backward_out, {.results = {"out0", "out1", "out2"}});
}

TORCH_LIBRARY_IMPL(wide, Autograd, m) { m.impl("blockwise_attention", autograd); }

}  // namespace

Tensor blockwise_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                           double scale) {
  return std::get<0>(call_forward(q, k, v, causal, scale));
}

}  // namespace wide
