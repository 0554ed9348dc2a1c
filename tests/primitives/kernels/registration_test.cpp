// How the engine's own operators are registered: schema, out-form, refusal of gradients.
#include "primitives/kernels/registration.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace wide::registration_test {
namespace {

std::tuple<at::Tensor, at::Tensor> halves_out(const at::Tensor& x, double p, at::Tensor& low,
                                              at::Tensor& high) {
  low.copy_(x * p);
  high.copy_(x * (1 - p));
  return {low, high};
}

std::tuple<at::Tensor, at::Tensor> halves(const at::Tensor& x, double p) {
  at::Tensor low = at::empty_like(x), high = at::empty_like(x);
  return halves_out(x, p, low, high);
}

at::Tensor doubled(const at::Tensor& x) { return x * 2; }

TORCH_LIBRARY_FRAGMENT(registration_test, m) {
  kernels::add_operator(m, "halves", "Tensor x, float p", halves, halves_out,
                        {.results = {"low", "high"}, .tags = {at::Tag::nondeterministic_seeded}});
  kernels::add_operator(m, "doubled", "Tensor x", doubled);
}

c10::OperatorHandle find(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

std::string schema(const char* name, const char* overload = "") {
  std::ostringstream text;
  text << find(name, overload).schema();
  return text.str();
}

TEST(KernelRegistration, SchemasNameEveryResult) {
  EXPECT_EQ(schema("registration_test::halves"),
            "registration_test::halves(Tensor x, float p) -> (Tensor, Tensor)");
  EXPECT_EQ(schema("registration_test::halves", "out"),
            "registration_test::halves.out(Tensor x, float p, *, Tensor(a!) low, Tensor(b!) high) "
            "-> (Tensor(a!), Tensor(b!))");
  EXPECT_EQ(schema("registration_test::doubled"), "registration_test::doubled(Tensor x) -> Tensor");
  EXPECT_FALSE(c10::Dispatcher::singleton().findSchema({"registration_test::doubled", "out"}));
  for (const char* overload : {"", "out"})
    EXPECT_TRUE(
        find("registration_test::halves", overload).hasTag(at::Tag::nondeterministic_seeded));
}

TEST(KernelRegistration, ValuesAreTheKernelsAndAGradientIsRefused) {
  const at::Tensor x = at::arange(5, at::kFloat);
  std::vector<c10::IValue> stack{x, 0.25};
  find("registration_test::halves").callBoxed(&stack);
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_TRUE(at::equal(stack[0].toTensor(), x * 0.25));
  EXPECT_TRUE(at::equal(stack[1].toTensor(), x * 0.75));

  stack = {x.clone().set_requires_grad(true)};
  find("registration_test::doubled").callBoxed(&stack);
  try {
    stack[0].toTensor().sum().backward();
    FAIL() << "the gradient was computed";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("derivative for registration_test::doubled is not"),
              std::string::npos)
        << e.what();
  }
}

TEST(KernelRegistration, EveryKernelSaysWhatAutogradShallDo) {
  int kernels = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("wide::") || name.overload_name.ends_with("out")) continue;
    if (name.name == "wide::optimizer_step") continue;  // called where no gradient is recorded
    ++kernels;
    EXPECT_TRUE(c10::Dispatcher::singleton().findOp(name)->hasKernelForDispatchKey(
        c10::DispatchKey::Autograd))
        << name;
  }
  EXPECT_GE(kernels, 25);
}

}  // namespace
}  // namespace wide::registration_test
