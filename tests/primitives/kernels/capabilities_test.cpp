// What the operators of this project say that they can be called with is true: what is declared
// runs and agrees with float64, anything else is refused, with a reason made of the declaration.
#include "engine/widen/capabilities.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "primitives/kernels/registration.h"
#include "tests/primitives/kernels/operator_calls.h"

namespace wide::capabilities_test {
namespace {

using at::ScalarType;
using ::wide::testing::CallsOf;
using ::wide::testing::OperatorCall;
using Names = std::vector<std::string>;

const std::map<ScalarType, double>& tolerances() {
  static const std::map<ScalarType, double> all{
      {at::kDouble, 1e-9}, {at::kFloat, 2e-4}, {at::kHalf, 4e-3}, {at::kBFloat16, 3e-2}};
  return all;
}

bool among(const std::vector<ScalarType>& dtypes, ScalarType dtype) {
  return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
}

c10::OperatorHandle find(const CallsOf& calls) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(calls.op.c_str(), calls.overload.c_str());
}

Tensors tensors_of(const OperatorCall& call) {
  Tensors all;
  for (const IValue& v : call.stack) {
    if (v.isTensor()) all.push_back(v.toTensor());
    if (v.isTensorList())
      for (const Tensor& t : v.toTensorVector()) all.push_back(t);
  }
  return all;
}

Tensors real_tensors_of(const OperatorCall& call) {
  Tensors real;
  for (const Tensor& t : tensors_of(call))
    if (t.is_floating_point()) real.push_back(t);
  return real;
}

/// Largest difference by the largest number; infinite where the call does not run.
double error_of(const CallsOf& calls, const OperatorCall& call) {
  const at::NoGradGuard guard;
  try {
    Stack stack = call.stack;
    find(calls).callBoxed(&stack);
    const Tensor made = call.read ? call.read(stack[0].toTensor()) : stack[0].toTensor();
    const Tensor known = call.expected;
    return ((made.to(at::kDouble) - known).abs().max() / known.abs().max()).item<double>();
  } catch (const std::exception&) {
    return INFINITY;
  }
}

bool differentiates(const CallsOf& calls, OperatorCall call) {
  try {
    Tensor leaf;
    for (IValue& v : call.stack)
      if (!leaf.defined() && v.isTensor() && v.toTensor().is_floating_point())
        v = leaf = v.toTensor().detach().requires_grad_();
    if (!leaf.defined())  // in a list
      for (IValue& v : call.stack)
        if (v.isTensorList()) {
          Tensors list = v.toTensorVector();
          leaf = list.back() = list.back().detach().requires_grad_();
          v = list;
        }
    find(calls).callBoxed(&call.stack);
    call.stack[0].toTensor().sum().backward();
    return leaf.grad().defined();
  } catch (const std::exception&) {
    return false;
  }
}

/// What is wrong with the declaration of one operator.
Names wrong(const CallsOf& calls) {
  const at::NoGradGuard guard;
  Names found;
  const Capabilities& able = capabilities(calls.op);
  const std::string all = text_of(able);
  const Capabilities::Form* form = able.form_for(c10::kCPU);
  if (!form || form->dtypes.empty()) return found;  // a processor without instructions for it
  const auto say = [&](const std::string& text) { found.push_back(calls.op + ": " + text); };
  for (const Capabilities::Form& one : able.forms)
    if (!find(calls).hasKernelForDispatchKey(
            c10::computeDispatchKey(std::nullopt, std::nullopt, one.device)))
      say(fmt::format("no kernel for {}", c10::DeviceTypeName(one.device)));
  const ScalarType own = form->dtypes.front();
  const ScalarType mask = able.others.empty() ? at::kBool : able.others.front();
  at::manual_seed(3);
  for (const auto& [dtype, tolerance] : tolerances()) {
    const OperatorCall call = calls.make(dtype, mask);
    const double error = error_of(calls, call);
    const auto lack = lacks(calls.op, real_tensors_of(call));
    if (among(form->dtypes, dtype)) {
      if (!(error < tolerance)) say(fmt::format("{} is off by {}", c10::toString(dtype), error));
      if (lack) say(fmt::format("{} is refused", c10::toString(dtype)));
    } else {
      if (std::isfinite(error)) say(fmt::format("{} runs", c10::toString(dtype)));
      const bool asked = !real_tensors_of(call).empty();  // else a dtype is an argument
      if (asked && (!lack || lack->expected != all))
        say(fmt::format("{} has no reason", c10::toString(dtype)));
    }
  }
  const bool has_others =
      real_tensors_of(calls.make(own, mask)).size() != tensors_of(calls.make(own, mask)).size() &&
      !able.others.empty();
  for (const ScalarType other : {at::kBool, at::kByte, at::kShort, at::kInt, at::kLong}) {
    if (!has_others) continue;
    const bool declared = among(able.others, other);
    const OperatorCall call = calls.make(own, other);
    if (declared != (error_of(calls, call) < tolerances().at(own)))
      say(fmt::format("{} {}", c10::toString(other), declared ? "does not run" : "runs"));
    if (declared != takes(calls.op, tensors_of(call)))
      say(fmt::format("{} is {}", c10::toString(other), declared ? "refused" : "taken"));
  }
  // Elsewhere than on the CPU, without elements, and where a gradient is wanted.
  const OperatorCall call = calls.make(own, mask);
  for (const Tensor& t : tensors_of(call)) {
    const auto lack = lacks(calls.op, {t.to(at::kMeta)});
    if (!able.form_for(c10::kMeta) && (!lack || !lack->got.ends_with(" on a meta device")))
      say("another device has no reason");
    if (!lacks(calls.op, {t.flatten().slice(0, 0, 0)})) say("no elements have no reason");
  }
  const at::AutoGradMode with_gradients(true);
  const Tensors real = real_tensors_of(call);
  if (real.empty()) return found;
  if (differentiates(calls, call) != able.gradients)
    say(able.gradients ? "has no gradient" : "has a gradient");
  const auto lack = lacks(calls.op, {real[0].detach().requires_grad_()});
  if (lack.has_value() == able.gradients) say("a gradient is refused where there is one");
  return found;
}

TEST(Capabilities, AreTrueOfEveryOperator) {
  for (const CallsOf& calls : testing::operator_calls())
    EXPECT_EQ(wrong(calls), Names()) << calls.op;
}

TEST(Capabilities, AreStatedAndTestedForEveryOperator) {
  std::set<std::string> tested;
  for (const CallsOf& calls : testing::operator_calls()) tested.insert(calls.op);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("wide::")) continue;
    const auto op = c10::Dispatcher::singleton().findOp(name);
    if (op && op->debug().find("/fixtures/") != std::string::npos) continue;  // where it registers
    EXPECT_TRUE(tested.count(name.name)) << name << " has no row in operator_calls.cpp";
    EXPECT_NO_THROW(capabilities(name.name)) << name;
  }
  for (const std::string& op : tested) EXPECT_NO_THROW(capabilities(op)) << op;
}

// --------------------------------------------------------------------- declarations that are wrong

Tensor tripled(const Tensor& x) {
  Tensor y = at::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    y.mutable_data_ptr<float>()[i] = 3 * x.const_data_ptr<float>()[i];
  return y;
}
Tensor tripled_by_aten(const Tensor& x) { return x * 3; }
Tensor& tripled_out(const Tensor& x, Tensor& out) { return out.copy_(x * 3); }
Tensor tripled_roughly(const Tensor& x) { return x * 3.01; }
Tensor picked(const Tensor& x, const Tensor& which) {
  return x.index_select(0, which.to(at::kLong));
}

TORCH_LIBRARY_FRAGMENT(planted_capabilities, m) {
  kernels::add_operator(m, "honest", "Tensor x", tripled);
  kernels::add_operator(m, "claims_double", "Tensor x", tripled,
                        {.dtypes = {at::kFloat, at::kDouble}});
  kernels::add_operator(m, "hides_double", "Tensor x", tripled_by_aten,
                        {.dtypes = {at::kFloat, at::kHalf, at::kBFloat16}});
  kernels::add_operator(m, "is_rough", "Tensor x", tripled_roughly,
                        {.dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}});
  kernels::add_operator(m, "claims_gradients", "Tensor x", tripled, {.gradients = true});
  kernels::add_operator(m, "hides_indices", "Tensor x, Tensor which", picked,
                        {.dtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16},
                         .others = {at::kLong, at::kByte, at::kShort, at::kBool}});
  kernels::add_operator(m, "elsewhere", "Tensor x", tripled, tripled_out);
  kernels::add_form(m, "elsewhere", c10::kMeta, {at::kFloat, at::kDouble}, tripled_by_aten,
                    tripled_out);
}

CallsOf tripling(const std::string& name) {
  return {"planted_capabilities::" + name, "", [](ScalarType dtype, ScalarType) {
            const Tensor x = at::randn({5, 7}).to(dtype);
            return OperatorCall{{x}, x.to(at::kDouble) * 3};
          }};
}

/// The first thing wrong, without the operator's name.
std::string first_wrong(const CallsOf& calls) {
  const Names found = wrong(calls);
  return found.empty() ? "" : found[0].substr(calls.op.size() + 2);
}

TEST(Capabilities, WrongOnesAreFound) {
  EXPECT_EQ(first_wrong(tripling("honest")), "");
  EXPECT_EQ(first_wrong(tripling("elsewhere")), "");
  EXPECT_EQ(first_wrong(tripling("claims_double")), "Double is off by inf");
  EXPECT_EQ(first_wrong(tripling("hides_double")), "Double runs");
  EXPECT_EQ(first_wrong(tripling("is_rough")).substr(0, 17), "Float is off by 0");
  EXPECT_EQ(first_wrong(tripling("claims_gradients")), "has no gradient");
  const CallsOf picks{
      "planted_capabilities::hides_indices", "", [](ScalarType dtype, ScalarType other) {
        const Tensor x = at::randn({2, 7}).to(dtype);
        const Tensor which = at::tensor({1, 0}, at::kLong);
        return OperatorCall{{x, which.to(other)}, x.to(at::kDouble).index_select(0, which)};
      }};
  EXPECT_EQ(first_wrong(picks), "Int runs");
}

// --------------------------------------------------------------------------------- as data

TEST(Capabilities, FormsOfOtherDevicesStandBesideThatOfTheCpu) {
  const at::NoGradGuard inference;
  const std::string op = "planted_capabilities::elsewhere";
  EXPECT_EQ(text_of(capabilities(op)),
            "float32 on the CPU, or float32 or float64 on a meta device");
  const Tensor x = at::ones({2}, at::kDouble);
  EXPECT_EQ(lacks(op, {x})->got, "float64 on the CPU");
  EXPECT_FALSE(lacks(op, {x.to(at::kMeta)}));
  EXPECT_FALSE(lacks(op, {x}, {at::kDouble})) << "the caller converts it";
  std::vector<IValue> stack{x.to(at::kMeta)};
  c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), "").callBoxed(&stack);
  EXPECT_TRUE(stack[0].toTensor().is_meta());
  EXPECT_THROW(add_capabilities(op, {{{c10::kCPU, {at::kDouble}}}}), std::logic_error);
  EXPECT_THROW(capabilities("wide::unknown"), std::logic_error);
}

TEST(Capabilities, ReasonsSayWhatIsLacking) {
  const auto text = [](const std::string& op, const Tensors& tensors) {
    const auto lack = lacks(op, tensors);
    return lack ? lack->got + ", expected " + lack->expected : "nothing";
  };
  const Tensor x = at::ones({2, 3, 5});
  EXPECT_EQ(text("wide::lookup", {x.to(at::kHalf)}),
            "float16 on the CPU, expected float32 on the CPU");
  EXPECT_EQ(text("wide::lookup", {x.to(at::kByte)}), "uint8 on the CPU, expected int64 or int32");
  EXPECT_EQ(text("wide::prelu", {x.to(at::kLong)}),
            "int64 on the CPU, expected float32 on the CPU");
  EXPECT_EQ(text("wide::prelu", {x.slice(0, 0, 0)}),
            "a tensor without elements, expected at least one element in each");
  // Its result may be used by what is differentiated.
  EXPECT_EQ(text("wide::prelu", {x}), "one that autograd records, expected inference");
  EXPECT_EQ(text("wide::blockwise_attention", {x.clone().requires_grad_()}), "nothing");
  const at::NoGradGuard guard;
  EXPECT_EQ(text("wide::prelu", {x, Tensor()}), "nothing");
  EXPECT_EQ(text("wide::prelu", {x.clone().requires_grad_()}), "nothing");
}

}  // namespace
}  // namespace wide::capabilities_test
