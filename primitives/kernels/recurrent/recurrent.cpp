#include "primitives/kernels/recurrent/recurrent.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "primitives/kernels/gemm/packed_linear.h"
#include "primitives/kernels/gemm/panel_gemm.h"
#include "primitives/kernels/operators.h"
#include "primitives/kernels/recurrent/recurrent_cells.h"
#include "primitives/kernels/registration.h"

namespace wide {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// --------------------------------------------------------------------------------- the cells

/// `gates`: number of gates in the step's scratch. The input's part is stored in the first `input`
/// of them; the hidden state's part is added to `hidden` of them from `offset` on.
struct CellKind {
  const char* name;
  int64_t gates, input, hidden, offset, states;
  void (*step)(const recurrent_cells::Step&);
};

constexpr CellKind kKinds[] = {{"lstm", 4, 4, 4, 0, 2, recurrent_cells::lstm},
                               {"gru", 4, 3, 3, 1, 1, recurrent_cells::gru},
                               {"rnn_tanh", 1, 1, 1, 0, 1, recurrent_cells::rnn_tanh},
                               {"rnn_relu", 1, 1, 1, 0, 1, recurrent_cells::rnn_relu}};

const CellKind& find_kind(c10::string_view name) {
  for (const CellKind& kind : kKinds)
    if (name == kind.name) return kind;
  TORCH_CHECK(false, "wide::recurrent_layer: cell ", name,
              ", expected lstm, gru, rnn_tanh or rnn_relu");
}

// ---------------------------------------------------------------------------------- one model

/// Rows `[B, T, ...]` at these strides.
struct Strides {
  int64_t batch, time;
};

/// One model's tensors; strides in elements.
struct Sequence {
  const CellKind& kind;
  int64_t batch, time, in, width;
  const float *x, *input, *hidden;  // packed weights
  const float* last_bias;           // for gates without an input part, or null
  Strides xs, ys;
  float *y, *h, *c;  // h and c: `[B, H]`, initial states on entry
  bool reverse;
};

/// Number of steps whose input part is one product: one step if it has enough rows for the GEMM's
/// full speed, so that gates stay in the first-level cache; more steps for small batches.
int64_t chunk_of(int64_t batch, int64_t time) {
  return batch >= 8 ? 1 : std::min(time, 32 / batch);
}

/// Rows of scratch for at most `batch` sequences; fewer sequences take more steps at once.
int64_t scratch_rows(int64_t batch, int64_t time) {
  return std::max(batch, std::min(batch * time, int64_t{32}));
}

/// Number of parts of each model's batch, so that each thread has one.
int64_t parts_of_batch(int64_t models, int64_t batch) {
  constexpr int64_t kFewestRows = 4;  // fewer leave the GEMM's registers empty
  if (at::in_parallel_region()) return 1;
  return std::clamp(at::get_num_threads() / models, int64_t{1},
                    std::max(int64_t{1}, batch / kFewestRows));
}

/// Distance of scratch rows: not a power of two, as these would compete for cache sets.
int64_t scratch_stride(const CellKind& kind, int64_t width) {
  return (kind.gates * width + 15) / 16 * 16 + 16;
}

/// out = rows of `a` times the input's weights, or out += rows times the `hidden` weights.
void multiply(const Sequence& s, int64_t rows, const float* a, int64_t a_stride, bool hidden,
              float* out, int64_t out_stride) {
  const int64_t columns = (hidden ? s.kind.hidden : s.kind.input) * s.width;
  panel_gemm::multiply(rows, hidden ? s.width : s.in, columns, a, a_stride, 1,
                       hidden ? s.hidden : s.input, out, out_stride, hidden);
}

/// Computes the input's part of `steps` steps, bias included, as gates `[steps, B, stride]`.
void input_share(const Sequence& s, int64_t from, int64_t steps, float* gates, int64_t stride) {
  const float* x = s.x + from * s.xs.time;
  if (steps == 1) {
    multiply(s, s.batch, x, s.xs.batch, false, gates, stride);
  } else if (s.batch == 1 || s.xs.time == s.batch * s.xs.batch) {
    multiply(s, steps * s.batch, x, s.batch == 1 ? s.xs.time : s.xs.batch, false, gates, stride);
  } else {
    for (int64_t b = 0; b < s.batch; ++b)
      multiply(s, steps, x + b * s.xs.batch, s.xs.time, false, gates + b * stride,
               s.batch * stride);
  }
  const int64_t rest = (s.kind.gates - s.kind.input) * s.width;
  for (int64_t r = 0; rest > 0 && r < steps * s.batch; ++r) {
    float* to = gates + r * stride + s.kind.input * s.width;
    if (s.last_bias != nullptr)
      std::copy_n(s.last_bias, rest, to);
    else
      std::fill_n(to, rest, 0.0F);
  }
}

void run_sequence(const Sequence& s, float* scratch) {
  const CellKind& kind = s.kind;
  const int64_t stride = scratch_stride(kind, s.width), chunk = chunk_of(s.batch, s.time);
  for (int64_t done = 0; done < s.time; done += chunk) {
    const int64_t steps = std::min(chunk, s.time - done);
    const int64_t from = s.reverse ? s.time - done - steps : done;
    input_share(s, from, steps, scratch, stride);
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t step = s.reverse ? steps - 1 - k : k;
      float* gates = scratch + step * s.batch * stride;
      multiply(s, s.batch, s.h, s.width, true, gates + kind.offset * s.width, stride);
      float* y = s.y + (from + step) * s.ys.time;
      kind.step({gates, stride, s.h, s.c, y, s.ys.batch, s.batch, s.width});
    }
  }
}

// ------------------------------------------------------------------------------- the operator

using Scratch = std::unique_ptr<float, decltype(&std::free)>;

/// Memory aligned to a cache line.
Scratch make_scratch(int64_t count) {
  const auto bytes = (static_cast<size_t>(count) * sizeof(float) + 63) / 64 * 64;
  Scratch made(static_cast<float*>(std::aligned_alloc(64, std::max<size_t>(bytes, 64))), std::free);
  TORCH_CHECK(made != nullptr, "wide::recurrent_layer: no memory for ", bytes, " bytes");
  return made;
}

/// The tensor, or a copy with a contiguous last axis if it is not.
Tensor with_rows(const Tensor& t) {
  return t.size(-1) == 1 || t.stride(-1) == 1 ? t : t.contiguous();
}

using Results = std::tuple<Tensor&, Tensor&>;

/// `input` and `hidden`: packed weights, with the bias in `input`. `last_bias`: bias of gates
/// without an input part.
Results recurrent_layer_out(const Tensor& x, const Tensor& input, const Tensor& hidden,
                            const OptionalTensor& last_bias, const Tensor& h0,
                            const OptionalTensor& c0, c10::string_view cell, bool reverse,
                            bool time_major, Tensor& y, Tensor& states) {
  const CellKind& kind = find_kind(cell);
  TORCH_CHECK(x.dim() == 4 && h0.dim() == 3, "wide::recurrent_layer: x ", x.sizes(), " and state ",
              h0.sizes(), " do not fit");
  const int64_t n = x.size(0), batch = x.size(time_major ? 2 : 1);
  const int64_t time = x.size(time_major ? 1 : 2), in = x.size(3), width = h0.size(2);
  const int64_t input_floats = panel_gemm::packed_floats(in, kind.input * width);
  const int64_t hidden_floats = panel_gemm::packed_floats(width, kind.hidden * width);
  TORCH_CHECK(input.is_contiguous() && input.numel() == n * input_floats &&
                  hidden.is_contiguous() && hidden.numel() == n * hidden_floats &&
                  h0.sizes() == c10::IntArrayRef({n, batch, width}) &&
                  c0.has_value() == (kind.states == 2) && (!c0 || c0->sizes() == h0.sizes()) &&
                  (!last_bias ||
                   last_bias->sizes() == c10::IntArrayRef({n, (kind.gates - kind.input) * width})),
              "wide::recurrent_layer: x ", x.sizes(), ", weights ", input.sizes(), " and ",
              hidden.sizes(), ", state ", h0.sizes(), " do not fit");
  TORCH_CHECK(y.is_contiguous() && states.is_contiguous() &&
                  y.numel() == n * batch * time * width &&
                  states.numel() == n * kind.states * batch * width,
              "wide::recurrent_layer: results ", y.sizes(), " and ", states.sizes(),
              " are not contiguous or too small");
  const Tensor rows = with_rows(x);
  const Tensor offset = last_bias ? with_rows(*last_bias) : Tensor();
  states.select(1, 0).copy_(h0);
  if (c0) states.select(1, 1).copy_(*c0);
  const float *px = rows.const_data_ptr<float>(), *pi = input.const_data_ptr<float>();
  const float* ph = hidden.const_data_ptr<float>();
  const float* pb = last_bias ? offset.const_data_ptr<float>() : nullptr;
  float *py = y.mutable_data_ptr<float>(), *ps = states.mutable_data_ptr<float>();
  const Strides xs{rows.stride(time_major ? 2 : 1), rows.stride(time_major ? 1 : 2)};
  const Strides ys = time_major ? Strides{width, batch * width} : Strides{time * width, width};
  const int64_t state = batch * width;
  // With fewer models than threads, the batch is split too: sequences are independent, and each
  // core has the weights in its own cache.
  const int64_t parts = parts_of_batch(n, batch), most = (batch + parts - 1) / parts;
  const int64_t floats = scratch_rows(most, time) * scratch_stride(kind, width);
  at::parallel_for(0, n * parts, 1, [&](int64_t begin, int64_t end) {
    const Scratch scratch = make_scratch(floats);
    for (int64_t job = begin; job < end; ++job) {
      const int64_t i = job / parts, first = job % parts * most;
      const int64_t count = std::min(most, batch - first);
      if (count <= 0) continue;
      float* h = ps + i * kind.states * state + first * width;
      run_sequence({kind, count, time, in, width, px + i * rows.stride(0) + first * xs.batch,
                    pi + i * input_floats, ph + i * hidden_floats,
                    pb == nullptr ? nullptr : pb + i * offset.stride(0), xs, ys,
                    py + i * time * state + first * ys.batch, h,
                    kind.states == 2 ? h + state : nullptr, reverse},
                   scratch.get());
    }
  });
  return {y, states};
}

TORCH_LIBRARY_FRAGMENT(wide, m) {
  kernels::add_filled_operator(
      m, "recurrent_layer",
      "Tensor x, Tensor input, Tensor hidden, Tensor? last_bias, Tensor h0, "
      "Tensor? c0, str cell, bool reverse, bool time_major",
      [](const Tensor& x, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor& h0,
         const OptionalTensor&, c10::string_view cell, const auto&...) {
        const int64_t width = h0.size(2), batch = h0.size(1);
        return std::tuple(
            at::empty({x.size(0), x.size(1), x.size(2), width}, x.options()),
            at::empty({x.size(0), find_kind(cell).states, batch, width}, x.options()));
      },
      recurrent_layer_out, {.results = {"y", "states"}});
}

}  // namespace

std::pair<Tensor, Tensor> recurrent_layer(const RecurrentLayer& layer) {
  const int64_t columns = layer.input.size(2);
  OptionalTensor input_bias, last_bias;
  if (layer.bias) {
    const int64_t rest = layer.bias->size(1) - columns;
    input_bias = layer.bias->narrow(1, 0, columns);
    if (rest > 0) last_bias = layer.bias->narrow(1, columns, rest);
  }
  const auto made = kernels::results(
      "recurrent_layer",
      {layer.x, pack_panels(layer.input, input_bias), pack_panels(layer.hidden, std::nullopt),
       last_bias, layer.h0, layer.c0, layer.cell, layer.reverse, layer.time_major});
  return {made[0], made[1]};
}

}  // namespace wide
