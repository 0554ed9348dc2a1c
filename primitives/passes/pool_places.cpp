// Max pooling and its gradient by kernels of our own: these store the index in the window as a
// byte, while ATen's find indices of eight bytes, slowly, and read all of x again.
#include <c10/core/MemoryFormat.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/passes/pass.h"
#include "engine/widen/capabilities.h"

namespace wide::pool_places_pass {
namespace {

constexpr int64_t kMostElements = 255;

bool channels_last(const Value& v) {
  return v.sizes.size() == 4 && v.strides == Sizes(c10::get_channels_last_strides_2d(v.sizes));
}

/// Whether all images have the same layout, contiguous or channels last, and a dtype of the kernel.
bool in_one_layout(const std::vector<const Value*>& images) {
  const auto all = [&](auto is) {
    return std::ranges::all_of(images, [&](const Value* v) { return is(*v); });
  };
  return all([](const Value& v) {
           return v.sizes.size() == 4 && takes("wide::max_pool_places", v);
         }) &&
         (all([](const Value& v) { return v.contiguous(); }) || all(channels_last));
}

/// A list of one number or two; the kernel size if a stride is not given.
std::vector<int64_t> two(const Node& node, size_t argument) {
  const std::vector<int64_t> list = node.arguments[argument].constant.toIntVector();
  if (list.empty()) return two(node, 1);
  return {list.front(), list.back()};
}

class Pairs {
 public:
  explicit Pairs(Program& program) : program_(program), uses_(program.uses()) {}

  std::string run() {
    std::map<ValueId, std::vector<size_t>> gradients;
    for (size_t i = 0; i < program_.nodes.size(); ++i)
      if (const Node& node = program_.nodes[i]; is_gradient(node))
        gradients[node.arguments[7].values[0]].push_back(i);
    int64_t replaced = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].name() != "aten::max_pool2d_with_indices") continue;
      const ValueId indices = program_.nodes[i].results[1].values[0];
      const auto readers = gradients.find(indices);
      if (readers == gradients.end() || !replaceable(program_.nodes[i], readers->second)) continue;
      replace(program_.nodes[i], readers->second);
      ++replaced;
    }
    return replaced ? fmt::format("replaced {} max pools and their gradients", replaced)
                    : "replaced nothing";
  }

 private:
  static bool is_gradient(const Node& node) {
    return node.name() == "aten::max_pool2d_with_indices_backward" &&
           node.arguments[7].kind == Argument::Kind::value;
  }

  bool replaceable(const Node& pool, const std::vector<size_t>& gradients) const {
    const ValueId x = pool.arguments[0].values[0], y = pool.results[0].values[0],
                  indices = pool.results[1].values[0];
    const std::vector<int64_t> kernel = two(pool, 1), dilation = two(pool, 4);
    std::vector<const Value*> images{&program_.value(x), &program_.value(y)};
    if (dilation != std::vector<int64_t>{1, 1} || kernel[0] * kernel[1] > kMostElements)
      return false;
    if (uses_[indices] != static_cast<int32_t>(gradients.size())) return false;
    for (const size_t i : gradients) {
      const Node& node = program_.nodes[i];
      if (node.arguments[1].values[0] != x ||
          !takes("wide::max_pool_backward", program_.value(node.arguments[0].values[0])))
        return false;
      images.push_back(&program_.value(node.results[0].values[0]));
    }
    return in_one_layout(images);
  }

  void replace(Node& pool, const std::vector<size_t>& gradients) {
    const auto find = [](const char* name) {
      return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    };
    const Argument kernel = Argument::of(two(pool, 1)), stride = Argument::of(two(pool, 2)),
                   padding = Argument::of(two(pool, 3));
    Value& places = program_.value(pool.results[1].values[0]);
    places.dtype = at::kByte;
    const Value& x = program_.value(pool.arguments[0].values[0]);
    const Argument sizes = Argument::of(x.sizes), last = Argument::of(!x.contiguous());
    for (const size_t i : gradients) {
      Node& node = program_.nodes[i];
      node.op = find("wide::max_pool_backward");
      node.arguments = {node.arguments[0], node.arguments[7], sizes, kernel, stride, padding, last};
    }
    pool.op = find("wide::max_pool_places");
    pool.arguments = {pool.arguments[0], kernel, stride, padding, pool.arguments[5]};
  }

  Program& program_;
  const ByValue<int32_t> uses_;
};

[[maybe_unused]] const bool registered =
    add_pass({"pool-places", "max pools whose gradient is asked for remember places as bytes",
              Stage::program, 94, [](Program& program) { return Pairs(program).run(); }});

}  // namespace
}  // namespace wide::pool_places_pass
