#include "engine/record/checks/storage_access.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/check/check.h"
#include "engine/compile.h"
#include "engine/error.h"

namespace wide::storage_access_test {
namespace {

struct Case {
  const char* name;
  std::function<Tensors(const Tensors&)> forward;  // of x [4, 6] and w [6, 5]
};

/// Places are counted in the storage of the tensor whose view is taken.
const Case kCases[] = {
    {"read, default offset",
     [](const Tensors& t) {
       return Tensors{at::mm(t[0], t[1]).as_strided({3, 4}, {5, 2})};
     }},
    {"read, absolute offset",
     [](const Tensors& t) {
       return Tensors{at::mm(t[0], t[1]).as_strided({3, 2}, {1, 5}, 4)};
     }},
    {"read of an input",
     [](const Tensors& t) {
       return Tensors{t[0].as_strided({7, 3}, {3, 1}, 1)};
     }},
    {"neighbours alone",
     [](const Tensors& t) {
       return Tensors{t[0].as_strided({2, 6}, {6, 1}, 6)};
     }},
    {"through a view with an offset",
     [](const Tensors& t) {
       const Tensor view = at::mm(t[0], t[1]).slice(0, 1).slice(1, 2);
       return Tensors{view.as_strided({2, 2}, {5, 1}), view.as_strided({2, 2}, {5, 1}, 8)};
     }},
    {"outside of the view, inside of what it looks at",
     [](const Tensors& t) {
       return Tensors{t[0].slice(0, 2).as_strided({4, 6}, {6, 1}, 0) * 2};
     }},
    {"of a transposed tensor",
     [](const Tensors& t) {
       return Tensors{t[0].t().as_strided({5, 3}, {1, 6}, 2)};
     }},
    {"of what is one already",
     [](const Tensors& t) {
       return Tensors{t[0].as_strided({3, 4}, {6, 1}, 1).as_strided({2, 3}, {1, 2}, 9)};
     }},
    {"a copy",
     [](const Tensors& t) {
       return Tensors{at::as_strided_copy(t[0], {3, 3}, {6, 2}, 3)};
     }},
    {"written through",
     [](const Tensors& t) {
       Tensor y = at::mm(t[0], t[1]);
       y.as_strided({4}, {6}, 1).mul_(3);
       y.as_strided({2, 2}, {5, 1}, 7).add_(t[0].slice(0, 0, 2).slice(1, 0, 2));
       return Tensors{y, y.sum(0)};
     }},
    {"in place",
     [](const Tensors& t) {
       Tensor y = at::mm(t[0], t[1]);
       y.as_strided_({5, 3}, {4, 1}, 1);
       return Tensors{y * 2};
     }},
    {"scattered",
     [](const Tensors& t) {
       const Tensor y = at::mm(t[0], t[1]);
       return Tensors{
           at::as_strided_scatter(y, t[0].slice(0, 0, 3).slice(1, 0, 2), {3, 2}, {5, 2}, 3),
           at::as_strided_scatter(t[0], y.select(0, 1), {5}, {4})};
     }},
    {"scattered into a view",
     [](const Tensors& t) {
       const Tensor view = at::mm(t[0], t[1]).slice(0, 1).slice(1, 1);
       return Tensors{
           at::as_strided_scatter(view, t[0].slice(0, 0, 2).slice(1, 0, 2), {2, 2}, {5, 1}, 12)};
     }},
    {"scattered beside the view",
     [](const Tensors& t) {
       return Tensors{at::as_strided_scatter(t[0].slice(1, 3), t[0].select(1, 0), {4}, {5}, 2)};
     }},
};

Network network(const Case& c) {
  Network net;
  net.name = c.name;
  net.tensors = {{"x", Role::input, {4, 6}}, {"w", Role::parameter, {6, 5}}};
  net.forward = c.forward;
  return net;
}

/// Every model by itself, on tensors of its own.
Tensors separate(const Case& c, const Ensemble& ensemble) {
  std::vector<Tensors> each;
  for (int64_t i = 0; i < ensemble.n; ++i) {
    Tensors own;
    for (const Tensor& t : ensemble.model(i)) own.push_back(t.clone());
    each.push_back(c.forward(own));
  }
  Tensors out;
  for (size_t k = 0; k < each[0].size(); ++k) {
    Tensors parts;
    for (const Tensors& one : each) parts.push_back(one[k]);
    out.push_back(at::stack(parts));
  }
  return out;
}

TEST(StorageAccess, EveryModelReadsAndWritesItsOwnMemory) {
  at::NoGradGuard no_grad;
  for (const Case& c : kCases)
    for (const int64_t n : {1, 3, 5})
      for (const std::string way : {"", "vmap", "per_model"}) {
        const Network net = network(c);
        const Ensemble ensemble = generate(net, n, at::kFloat, at::kCPU, 7);
        CompileOptions options;
        options.tune = false;
        options.verify = true;
        if (!way.empty()) options.widen.force["*"] = way;
        auto model = compile(net, ensemble, options);
        const Tensors expected = separate(c, ensemble);
        EXPECT_LT(max_relative_error(model->run({ensemble.tensors[0]}), expected), 1e-6)
            << c.name << ", N=" << n << " " << way;
        EXPECT_LT(max_relative_error(in_double(model->single(), ensemble), expected), 1e-6)
            << c.name;
        for (const Node& node : model->single().nodes)
          EXPECT_EQ(node.name().find("as_strided"), std::string::npos) << c.name;
      }
}

TEST(StorageAccess, InputsMayLieAnywhereInTheirMemory) {
  at::NoGradGuard no_grad;
  for (const Case& c : kCases) {
    const Network net = network(c);
    Ensemble ensemble = generate(net, 3, at::kFloat, at::kCPU, 8);
    Ensemble shared = ensemble;
    for (Tensor& t : ensemble.tensors) t = at::cat({at::randn_like(t), t}).narrow(0, 3, 3);
    EXPECT_GT(ensemble.tensors[0].storage_offset(), 0);
    CompileOptions options;
    options.tune = false;
    options.ranges = 3;
    EXPECT_LT(max_relative_error(compile(net, ensemble, options)->run({ensemble.tensors[0]}),
                                 separate(c, ensemble)),
              1e-6)
        << c.name;
    shared.tensors[0] = ensemble.tensors[0].select(0, 1);
    shared.shared[0] = true;
    EXPECT_LT(max_relative_error(compile(net, shared, options)->run({shared.tensors[0]}),
                                 separate(c, shared)),
              1e-6)
        << c.name << ", one input for all";
  }
}

TEST(StorageAccess, WholeNumbersAreNotRaisedAndStillTheirOwn) {
  at::NoGradGuard no_grad;
  Network net;
  net.tensors = {{"x", Role::input, {9}, at::kLong, Fill::integers, 100}};
  net.forward = [](const Tensors& t) {
    return Tensors{t[0].as_strided({4, 3}, {2, 1}, 0),
                   at::as_strided_scatter(t[0], t[0].slice(0, 5), {4}, {2}, 1)};
  };
  const Ensemble ensemble = generate(net, 5, at::kFloat, at::kCPU, 9);
  const Tensors expected = separate({"", net.forward}, ensemble);
  auto model = compile(net, ensemble, {});
  const Tensors got = model->run(ensemble.tensors), exact = in_double(model->single(), ensemble);
  for (size_t k = 0; k < expected.size(); ++k) {
    EXPECT_TRUE(got[k].equal(expected[k]));
    EXPECT_TRUE(exact[k].equal(expected[k]));
  }
}

TEST(StorageAccess, PlacesThatNobodyHoldsAreRefused) {
  at::NoGradGuard no_grad;
  const Tensor x = at::randn({4, 6});
  try {
    // LibTorch lets a tensor's memory be longer than the tensor.
    const Tensor longer = at::randn({40});
    record({{"x", Role::input, longer.narrow(0, 0, 24)}},
           [](const Tensors& t) { return Tensors{t[0].as_strided({3}, {1}, 30)}; });
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "[aten::as_strided] places in memory: got some outside of the tensor that is read, "
        "expected those of its elements; try sizes, strides and an offset that stay inside");
  }
}

TEST(StorageAccess, ElementsAreNumberedRowByRow) {
  const Tensor x = at::arange(12).view({3, 4}), view = x.t().slice(0, 1, 3);
  const auto list = [](const Tensor& t) {
    return std::vector<int64_t>(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
  };
  EXPECT_EQ(list(elements_at(x, {{2, 2}, {4, 3}, 1})), (std::vector<int64_t>{1, 4, 5, 8}));
  // Of the view [[1, 5, 9], [2, 6, 10]].
  EXPECT_EQ(list(elements_at(view, {{4}, {3}, 0})), (std::vector<int64_t>{-1, -1, 4, 2}));
  EXPECT_EQ(list(elements_at(x, {{2}, {1}, 11})), (std::vector<int64_t>{11, -1}));
  EXPECT_TRUE(has_all(x, {{0, 3}, {1, 1}, 99}));
}

}  // namespace
}  // namespace wide::storage_access_test
