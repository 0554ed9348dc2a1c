// embedding: y = W[ids]
// shapes: ids [N,B,T] (own indices per model), W [N,V,D] -> y [N,B,T,D]
// source: torch.nn.Embedding
#include <ATen/ATen.h>

#include "engine/widen/describe.h"
#include "primitives/kernels/lookup.h"

namespace wide::embedding_target {
namespace {

struct EmbeddingConfig {
  int64_t padding = -1;       // this row gets no gradient
  bool by_frequency = false;  // gradients are divided by how often a row is looked up
  std::string text() const {
    return fmt::format("padding_idx={}{}", padding, by_frequency ? " by frequency" : "");
  }
};

// ------------------------------------------------------------------------------ single model

Network network(const Shape& shape) {
  at_least_where_given("embedding", shape, {"padding_idx"}, -1);
  const int64_t v = shape["V"], d = shape["D"], padding = shape.get("padding_idx", -1);
  if (padding >= v)
    fail("[embedding] padding_idx: got {}, expected less than V={}; try padding_idx=0", padding, v);
  return {.name = "embedding",
          .tensors = {input("ids", {shape["B"], shape["T"]}, Fill::integers, double(v)),
                      parameter("weight", {v, d}, 1.0)},
          .forward = [padding](const Tensors& t) {
            return Tensors{at::embedding(t[1], t[0], padding)};
          }};
}

// ------------------------------------------------------------------------------------ claims

std::optional<Claimed> claim(const CallView& call) {  // weight, ids, padding, by frequency, sparse
  if (!call.is_tensor(0) || !call.is_tensor(1) || call.flag(4)) return std::nullopt;
  return Claimed{EmbeddingConfig{static_cast<int64_t>(call.number(2, -1)), call.flag(3)},
                 {call.id(1), call.id(0)},
                 {0}};
}

// -------------------------------------------------------------------------------- strategies

/// The result without a gradient for the padding row.
Tensor without_padding_gradient(const EmbeddingConfig& c, const Tensor& ids, const Tensor& y) {
  if (c.padding < 0 || !at::GradMode::is_enabled() || !y.requires_grad()) return y;
  return at::where(ids.eq(c.padding).unsqueeze(-1), y.detach(), y);
}

/// All tables as one, with n*V added to model n's indices. An index outside its own table would
/// read another model's row, so it is replaced by one that the lookup refuses.
Tensors indexed(const EmbeddingConfig& c, const WideCall& call) {
  const Tensor &ids = call.inputs[0], &w = call.inputs[1];
  const int64_t rows = w.size(1);
  Sizes first(static_cast<size_t>(ids.dim()), 1);
  first[0] = call.n;
  const Tensor offset =
      at::arange(0, call.n * rows, rows, ids.options().dtype(ids.scalar_type())).view(first);
  const Tensor inside = ids.ge(0).logical_and(ids.lt(rows));
  const Tensor moved = at::where(inside, ids + offset, at::full({}, -1, ids.options()));
  return {without_padding_gradient(
      c, ids, at::embedding(w.flatten(0, 1), moved, /*padding_idx=*/-1, c.by_frequency))};
}

/// The other strategies have the plain gradient.
Applies plain_gradient(const EmbeddingConfig& c, const WideCall&) {
  if (!c.by_frequency || !at::GradMode::is_enabled()) return std::nullopt;
  return reason("embedding", "scale_grad_by_freq", "True, with gradients", "False", "indexed");
}

/// The engine's own operator: copies rows once, into reused memory.
Tensors rows(const EmbeddingConfig&, const WideCall& call) {
  return {lookup(call.inputs[1], call.inputs[0])};
}

/// Gathers rows along the vocabulary axis of each model's table.
Tensors gather(const EmbeddingConfig& c, const WideCall& call) {
  const Tensor &ids = call.inputs[0], &w = call.inputs[1];
  const int64_t d = w.size(2);
  const Tensor index = ids.reshape({call.n, -1, 1}).to(at::kLong).expand({call.n, -1, d});
  Sizes sizes = ids.sizes().vec();
  sizes.push_back(d);
  return {without_padding_gradient(c, ids, w.gather(1, index).view(sizes))};
}

// ------------------------------------------------------------------------------ registration

Target target() {
  Target t;
  t.name = "embedding";
  t.family = "embedding";
  t.summary = "Table lookup, own table and own indices per model";
  t.formula = "y = W[ids],  NBT, NVD -> NBTD";
  t.source = "torch.nn.Embedding";
  t.network = network;
  t.axes = {{"B", "samples"},
            {"T", "indices of a sample"},
            {"V", "rows of the table"},
            {"D", "features of a row"},
            {"padding_idx", "a row without a gradient; -1: none", -1}};
  t.sweeps["quick"] = {quick_n(), {"B=8 T=128 V=1000 D=256"}};
  t.sweeps["full"] = {full_n(), grid({{"B", {4, 8, 16, 32}},
                                      {"T", {64, 128, 256}},
                                      {"V", {1000, 10000, 50000}},
                                      {"D", {128, 256, 512}}})};
  t.sweeps["ci"] = {{4, 16}, {"B=4 T=64 V=1000 D=128"}};
  t.flops = [](const Shape&) { return 0.0; };
  t.tolerance = {{at::kFloat, 1e-7}, {at::kDouble, 1e-12}};
  t.tolerance_reason = "rows are copied";
  t.odd_shapes = {"B=3 T=1 V=5 D=3 padding_idx=2"};
  t.refusals = {{"B=1 T=1 V=4 D=2 padding_idx=4",
                 "[embedding] padding_idx: got 4, expected less than V=4; try padding_idx=0"}};
  t.oracle = "y = load(nn.Embedding(a.V, a.D))(t['ids'])";
  t.claims = {{"aten::embedding", claim}};
  t.strategies = {
      strategy<EmbeddingConfig>("rows", "rows copied from every model's own table", rows,
                                plain_gradient, {"wide::lookup"}),
      strategy<EmbeddingConfig>("indexed", "one lookup in the tables joined to one", indexed),
      strategy<EmbeddingConfig>("gather", "a gather along every model's own table", gather,
                                plain_gradient)};
  t.parameter_inputs = {false, true};
  return t;
}

WIDE_TARGET(target);

}  // namespace
}  // namespace wide::embedding_target
