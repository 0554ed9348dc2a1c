// Random operators of a network in training, drawn by counter: a model's random numbers depend on
// its seed, the step and the call's site, not on a shared generator. Formulas are PyTorch's.
#include <ATen/ATen.h>

#include "engine/record/draws.h"
#include "engine/record/record.h"
#include "engine/widen/describe.h"
#include "primitives/kernels/pointwise/counter_draws.h"

namespace wide::draws_rules {
namespace {

using In = c10::ArrayRef<IValue>;

constexpr int64_t kAll = 1 << 20;  // more dimensions than any: each element has its own draw

// ----------------------------------------------------------------------------- draws by counter

DrawsByCounter& draws() { return *draws_by_counter(); }

Tensor uniform(c10::IntArrayRef size, at::ScalarType dtype) {
  return counter_uniform(draws().seed, draws().step, draws().sites++, size, dtype);
}

Tensor normal(c10::IntArrayRef size, at::ScalarType dtype) {
  return counter_normal(draws().seed, draws().step, draws().sites++, size, dtype);
}

Tensor drop(const Tensor& x, double p, int64_t drawn) {
  return counter_dropout(x, draws().seed, draws().step, draws().dropout, p, draws().sites++, drawn);
}

/// As at::alpha_dropout: dropped elements become SELU's lower limit; mean and variance are kept.
Tensor alpha_drop(const Tensor& x, double p, int64_t drawn) {
  constexpr double kAlpha = 1.7580993408473766;
  const Tensor asked = draws().dropout.to(x.scalar_type());
  const Tensor own = at::where(asked < 0, at::full_like(asked, p), asked);
  const Tensor keep = drop(at::ones_like(x), p, drawn) * (1 - own);
  const Tensor a = at::rsqrt((kAlpha * kAlpha * own + 1) * (1 - own));
  return x * (keep * a) + ((keep - 1) * (kAlpha * a) + kAlpha * a * own);
}

// -------------------------------------------------------------------------- what they replace

/// A random operator that is replaced if `takes` its arguments. `made` computes its result, which
/// an in-place operator, whose name ends with `_`, writes to self.
struct Row {
  const char* op;
  size_t arguments;  // their number, which tells overloads apart
  bool (*takes)(In in);
  Tensor (*made)(In in);
  bool in_place_too = false;  // there is also `op` with `_`
};

bool trains(In in) { return in[2].toBool(); }
bool real(In in) { return in[0].isTensor() && in[0].toTensor().is_floating_point(); }
bool by_number(In in) { return real(in) && in[1].isScalar(); }

Tensor dropped(In in) { return drop(in[0].toTensor(), in[1].toDouble(), kAll); }
Tensor feature_dropped(In in) { return drop(in[0].toTensor(), in[1].toDouble(), 2); }
Tensor alpha_dropped(In in) { return alpha_drop(in[0].toTensor(), in[1].toDouble(), kAll); }
Tensor feature_alpha_dropped(In in) { return alpha_drop(in[0].toTensor(), in[1].toDouble(), 2); }

/// Numbers with self's sizes and dtype.
Tensor like(In in, decltype(uniform)& drawn) {
  const Tensor x = in[0].toTensor();
  return drawn(x.sizes(), x.scalar_type());
}

// Arguments: self, dtype, ...
at::ScalarType type_like(In in) {
  return in[1].isNone() ? in[0].toTensor().scalar_type() : in[1].toScalarType();
}
bool real_like(In in) { return at::isFloatingType(type_like(in)); }
Tensor uniform_like(In in) { return uniform(in[0].toTensor().sizes(), type_like(in)); }
Tensor normal_like(In in) { return normal(in[0].toTensor().sizes(), type_like(in)); }

// Arguments: size, dtype, ...
at::ScalarType dtype_of(In in) {
  return in[1].isNone() ? c10::get_default_dtype_as_scalartype() : in[1].toScalarType();
}
bool sized(In in) { return in[0].isIntList() && at::isFloatingType(dtype_of(in)); }
Tensor new_uniform(In in) { return uniform(in[0].toIntVector(), dtype_of(in)); }
Tensor new_normal(In in) { return normal(in[0].toIntVector(), dtype_of(in)); }

Tensor between(In in) {  // self, from, to
  const double from = in[1].toDouble(), to = in[2].toDouble();
  return like(in, uniform) * (to - from) + from;
}
Tensor around(In in) {  // self, mean, std
  return like(in, normal) * in[2].toDouble() + in[1].toDouble();
}
Tensor decaying(In in) {  // self, lambda
  return -at::log1p(-like(in, uniform)) / in[1].toDouble();
}

/// Factors of rrelu: random slopes in [lower, upper] where x <= 0, else 1.
Tensor slopes(const Tensor& x, const IValue& lower, const IValue& upper) {
  const double from = lower.toScalar().toDouble(), to = upper.toScalar().toDouble();
  return at::where(x <= 0, uniform(x.sizes(), x.scalar_type()) * (to - from) + from, 1.0);
}
bool trains_slopes(In in) { return in[3].toBool(); }
Tensor randomly_leaky(In in) { return in[0].toTensor() * slopes(in[0].toTensor(), in[1], in[2]); }

Tensor kept(const Tensor& like, const Tensor& drawn, const IValue& p) {
  const Tensor yes =
      p.isTensor() ? drawn < p.toTensor().to(drawn.scalar_type()) : drawn < p.toScalar().toDouble();
  return yes.to(like.scalar_type());
}
at::ScalarType real_type(const Tensor& t) {
  return t.is_floating_point() ? t.scalar_type() : at::kFloat;
}
Tensor by_chance(In in) {  // self, p, generator; or self, which is p, and generator
  const Tensor x = in[0].toTensor();
  return kept(x, uniform(x.sizes(), real_type(x)), in[in.size() - 2]);
}
bool any(In) { return true; }

constexpr Row kRows[] = {
    {"aten::dropout", 3, trains, dropped, true},
    {"aten::feature_dropout", 3, trains, feature_dropped, true},
    {"aten::alpha_dropout", 3, trains, alpha_dropped, true},
    {"aten::feature_alpha_dropout", 3, trains, feature_alpha_dropped, true},
    {"aten::rrelu", 5, trains_slopes, randomly_leaky, true},
    {"aten::rand_like", 6, real_like, uniform_like},
    {"aten::randn_like", 6, real_like, normal_like},
    {"aten::rand", 5, sized, new_uniform},
    {"aten::randn", 5, sized, new_normal},
    {"aten::uniform", 4, real, between, true},
    {"aten::normal_functional", 4, by_number, around},
    {"aten::normal_", 4, by_number, around},
    {"aten::exponential", 3, real, decaying, true},
    {"aten::bernoulli", 2, any, by_chance},
    {"aten::bernoulli", 3, any, by_chance, true},
};

// input, p, train -> output, mask
Stack native_dropout(In in) {
  const Tensor x = in[0].toTensor();
  const Tensor mask = drop(at::ones_like(x), in[1].toDouble(), kAll);
  return {x * mask, mask.ne(0)};
}

// self, noise, lower, upper, training, generator -> output, the slopes as noise
Stack rrelu_with_noise(In in) {
  const Tensor drawn = slopes(in[0].toTensor(), in[2], in[3]);
  return {in[0].toTensor() * drawn, drawn};
}

// query, key, value, mask, dropout_p, causal, scale, grouped queries
Stack attention(In in) {
  Tensor q = in[0].toTensor(), k = in[1].toTensor(), v = in[2].toTensor();
  if (in[7].toBool()) {
    k = k.repeat_interleave(q.size(-3) / k.size(-3), -3);
    v = v.repeat_interleave(q.size(-3) / v.size(-3), -3);
  }
  const double scale =
      in[6].isNone() ? 1 / std::sqrt(double(q.size(-1))) : in[6].toScalar().toDouble();
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Tensor scores = at::matmul(q * scale, k.transpose(-2, -1));
  if (in[5].toBool()) {
    const Tensor before = at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).tril();
    scores = scores.masked_fill(before.logical_not(), kNever);
  }
  if (!in[3].isNone() && in[3].toTensor().defined()) {
    const Tensor mask = in[3].toTensor();
    scores = mask.scalar_type() == at::kBool ? scores.masked_fill(mask.logical_not(), kNever)
                                             : scores + mask;
  }
  return {at::matmul(drop(at::softmax(scores, -1), in[4].toDouble(), kAll), v)};
}

bool register_all() {
  const char* why = "a model in training draws by its own counter";
  const auto add = [why](const std::string& op, const Row& row) {
    add_decomposition({op, why,
                       [&row](In in) {
                         return draws_by_counter() && in.size() == row.arguments && row.takes(in);
                       },
                       [&row, in_place = op.ends_with('_')](In in) {
                         const Tensor made = row.made(in);
                         return Stack{in_place ? in[0].toTensor().copy_(made) : made};
                       }});
  };
  for (const Row& row : kRows) {
    add(row.op, row);
    if (row.in_place_too) add(std::string(row.op) + "_", row);
  }
  add_decomposition({"aten::native_dropout", why,
                     [](In in) { return draws_by_counter() && (in[2].isNone() || in[2].toBool()); },
                     native_dropout});
  add_decomposition({"aten::rrelu_with_noise_functional", why,
                     [](In in) { return draws_by_counter() && in[4].toBool(); }, rrelu_with_noise});
  add_decomposition({"aten::scaled_dot_product_attention", why,
                     [](In in) { return draws_by_counter() && in[4].toDouble() > 0; }, attention});
  return true;
}

[[maybe_unused]] const bool registered = register_all();

// ------------------------------------------------------------------------------- made wide

struct DropConfig {
  double otherwise = 0;
  int64_t site = 0, drawn = 0;
  std::string text() const { return fmt::format("p={} site={} drawn={}", otherwise, site, drawn); }
};

// x, seed, step, p, otherwise, site, drawn
std::optional<Claimed> claim_drop(const CallView& call) {
  DropConfig c{call.constant(4).toDouble(), call.constant(5).toInt(), call.constant(6).toInt()};
  return Claimed{c, {call.id(0), call.id(1), call.id(2), call.id(3)}, {0}};
}

Tensors drop_wide(const DropConfig& c, const WideCall& call) {
  return {counter_dropout(call.inputs[0].contiguous(), call.inputs[1], call.inputs[2],
                          call.inputs[3], c.otherwise, c.site, c.drawn)};
}

struct DrawConfig {
  int64_t site = 0;
  Sizes size;
  at::ScalarType dtype = at::kFloat;
  std::string text() const {
    return fmt::format("site={} size={} {}", site, list_text(size), c10::toString(dtype));
  }
};

// Arguments: seed, step, site, size, dtype.
std::optional<Claimed> claim_draw(const CallView& call) {
  DrawConfig c{call.constant(2).toInt(), call.ints(3), call.constant(4).toScalarType()};
  return Claimed{c, {call.id(0), call.id(1)}, {0}};
}

template <auto draw>
Tensors draw_wide(const DrawConfig& c, const WideCall& call) {
  return {draw(call.inputs[0], call.inputs[1], c.site, c.size, c.dtype)};
}

// x N.., seed N, step N, p N -> N..;  seed N, step N -> N size
WIDE_RULES({.name = "counter_dropout",
            .summary = "Dropout by counter, every model's own mask",
            .claims = {{"wide::counter_dropout", claim_drop}},
            .strategies = {strategy<DropConfig>("wide", "all models in one call", drop_wide)}},
           {.name = "counter_uniform",
            .summary = "Uniform numbers by counter, every model's own",
            .claims = {{"wide::counter_uniform", claim_draw}},
            .strategies = {strategy<DrawConfig>("wide", "all models in one call",
                                                draw_wide<counter_uniform>)}},
           {.name = "counter_normal",
            .summary = "Normal numbers by counter, every model's own",
            .claims = {{"wide::counter_normal", claim_draw}},
            .strategies = {strategy<DrawConfig>("wide", "all models in one call",
                                                draw_wide<counter_normal>)}});

}  // namespace
}  // namespace wide::draws_rules
