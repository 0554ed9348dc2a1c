// A fusion is a contest with one candidate.
#include "app/fuse/fuse.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "app/fuse/text.h"
#include "data/tensors.h"
#include "engine/check/check.h"
#include "tests/scratch.h"

namespace wide::fuse_test {
namespace {

/// How many matrix products in float64 `work` calls.
int64_t products_in_double(const std::function<void()>& work) {
  static int64_t count;
  count = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& call)
                                     -> std::unique_ptr<at::ObserverContext> {
        const std::string name = call.name();
        const bool product = name == "aten::addmm" || name == "aten::mm" || name == "aten::linear";
        for (const c10::IValue& v : call.inputs())
          if (product && v.isTensor() && v.toTensor().scalar_type() == at::kDouble) {
            ++count;
            break;
          }
        return nullptr;
      }).needsInputs(true));
  work();
  at::removeCallback(handle);
  return count;
}

TEST(FuseText, WithoutALoopNoBaselineIsSaidToBeFasterThanIt) {
  const auto timing = [](const char* name, double ns) {
    Timing t;
    t.name = name;
    t.kind = "baseline";
    t.samples_ns = {ns, ns, ns};
    summarise(t);
    return t;
  };
  FuseResult r;
  r.results = {timing("threads", 100), timing("vmap", 50)};
  EXPECT_EQ(fuse_text({}, r, 0).find("2.00x"), std::string::npos);
  r.results.insert(r.results.begin(), timing("loop", 400));
  EXPECT_NE(fuse_text({}, r, 0).find("8.00x"), std::string::npos);
}

TEST(FuseRun, TheRunInDoubleIsMadeOnce) {
  SubjectOptions asked;
  asked.model = "linear";
  asked.n = "3";
  Subject subject(asked);
  const Program& single = subject.single();
  const int64_t once =
      products_in_double([&] { in_double(single, subject.ensemble(subject.ns().back())); });
  EXPECT_GE(once, 3);
  FuseOptions options;
  options.budget_s = 0.001;
  fuse(subject, 3, options);  // which may have to measure the machine first
  EXPECT_EQ(products_in_double([&] { fuse(subject, 3, options); }), once);
}

TEST(FuseSubject, SharedWeightsTakeMemoryOnce) {
  const Scratch scratch;
  SubjectOptions asked;
  asked.model = "resnet18";
  asked.n = "1";
  const Subject one(asked);
  const Ensemble e = one.ensemble(1);
  const auto save = [&](const std::string& name, double factor) {
    std::vector<std::pair<std::string, Tensor>> named;
    for (const size_t i : one.network().indices(false))
      named.emplace_back(one.network().tensors[i].name, e.tensors[i][0] * factor);
    save_tensors(scratch / name, named);
    return scratch / name;
  };
  const std::string first = save("a.safetensors", 1), other = save("b.safetensors", 1.5);
  asked.n.clear();
  const auto largest = [&](const std::string& second, bool share) {
    asked.weights = {first, second};
    asked.share_weights = share;
    return static_cast<double>(Subject(asked).largest_n());
  };
  const double apart = largest(first, false);
  EXPECT_GT(largest(first, true), 1.5 * apart);
  EXPECT_NEAR(largest(other, true), apart, 0.2 * apart);
}

}  // namespace
}  // namespace wide::fuse_test
