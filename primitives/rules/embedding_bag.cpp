// Rule for embedding bags: sums, means or maxima of table rows over bags of indices. functorch has
// no batching rule. The models' tables cannot be joined to one, as padding_idx is one row of it.
#include <ATen/ATen.h>

#include "engine/widen/describe.h"

namespace wide::embedding_bag_rules {
namespace {

enum class Pick { sum, mean, max };  // LibTorch's numbers: 0, 1, 2

struct BagConfig {
  Pick pick = Pick::sum;
  bool closed = false;  // include_last_offset: the last offset is the end of the last bag
  int64_t padding = -1;
  std::string text() const {
    return fmt::format("mode={} include_last_offset={} padding_idx={}", static_cast<int>(pick),
                       closed ? 1 : 0, padding);
  }
};

// weight, indices, offsets, scale by frequency, mode, sparse, per sample weights, include last
// offset, padding -> rows, offset2bag, bag_size, max_indices
std::optional<Claimed> claim(const CallView& call) {
  if (!call.is_tensor(0) || !call.is_tensor(1) || !call.is_tensor(2) || call.flag(3) ||
      call.flag(5) || call.value(1).sizes.size() != 1)
    return std::nullopt;
  const int64_t rows = call.value(0).sizes[0];
  auto padding = static_cast<int64_t>(call.number(8, -1));
  if (padding < -1) padding += rows;
  BagConfig c{static_cast<Pick>(static_cast<int>(call.number(4, 0))), call.flag(7), padding};
  return Claimed{c, {call.id(1), call.id(0), call.id(2), call.id(6)}, {0, -1, -1, -1}};
}

/// Every row is looked up, then collected into its bag.
Tensors collected(const BagConfig& c, const WideCall& call) {
  const Tensor &table = call.inputs[1], &scale = call.inputs[3];
  const Tensor ids = call.inputs[0].to(at::kLong);
  Tensor offsets = call.inputs[2].to(at::kLong).contiguous();
  if (c.closed) offsets = offsets.slice(1, 0, offsets.size(1) - 1).contiguous();
  const int64_t bags = offsets.size(1), width = table.size(2);
  const Tensor place = at::arange(ids.size(1), ids.options()).expand_as(ids).contiguous();
  const Tensor bag = at::searchsorted(offsets, place, false, true) - 1;  // [N, M]
  const auto wide_index = [&](const Tensor& t) {
    return t.unsqueeze(2).expand({call.n, ids.size(1), width});
  };
  Tensor rows = table.gather(1, wide_index(ids));
  if (scale.defined()) rows = rows * scale.unsqueeze(2);
  const Tensor padded = ids.eq(c.padding);
  const Tensor nothing = at::zeros({call.n, bags, width}, table.options());
  if (c.pick == Pick::max) {
    if (c.padding >= 0) rows = rows.masked_fill(padded.unsqueeze(2), -INFINITY);
    const Tensor most = nothing.scatter_reduce(1, wide_index(bag), rows, "amax", false);
    return {most.masked_fill(most.eq(-INFINITY), 0)};  // bags that hold padding only are zero
  }
  if (c.padding >= 0) rows = rows.masked_fill(padded.unsqueeze(2), 0);
  const Tensor sums = nothing.scatter_add(1, wide_index(bag), rows);
  if (c.pick == Pick::sum) return {sums};
  const Tensor count = at::zeros({call.n, bags}, table.options())
                           .scatter_add(1, bag, padded.logical_not().to(table.scalar_type()));
  return {sums / count.clamp_min(1).unsqueeze(2)};
}

WIDE_RULES(
    // M: indices of all bags, B: bags; ids NM, W NVD, offsets NB, scale NM -> NBD
    {.name = "embedding_bag",
     .summary = "Sums, means or maxima of table rows over bags of indices",
     .claims = {{"aten::_embedding_bag", claim}, {"aten::_embedding_bag_forward_only", claim}},
     .strategies = {strategy<BagConfig>("wide", "rows looked up, then collected", collected)},
     .parameter_inputs = {false, true}});

}  // namespace
}  // namespace wide::embedding_bag_rules
