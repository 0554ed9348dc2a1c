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

/// Whether indices behind the last offset are left out. LibTorch does so only in its fast kernels:
/// on the CPU, below double precision and without padding. All others take them to the last bag.
bool leaves_rest_out(const BagConfig& c, const Tensor& table) {
  return c.closed && c.pick != Pick::max && c.padding < 0 && table.is_cpu() &&
         table.scalar_type() != at::kDouble;
}

/// The rows of each bag, without padding; `bag` has the bag of every index.
Tensor counted(const Tensor& bag, const Tensor& padded, int64_t bags) {
  const Tensor ones = padded.defined() ? padded.logical_not().to(at::kLong) : at::ones_like(bag);
  return at::zeros({bag.size(0), bags}, bag.options()).scatter_add(1, bag, ones);
}

/// The largest of each bag's rows, feature by feature; zero for a bag without one.
Tensor largest(Tensor rows, const Tensor& bag, const Tensor& padded, int64_t bags) {
  const int64_t places = rows.size(1);
  if (padded.defined()) rows = rows.masked_fill(padded.unsqueeze(2), -INFINITY);
  const Tensor found = rows.detach(), index = bag.unsqueeze(2).expand_as(rows);
  const Tensor most = at::zeros({rows.size(0), bags, rows.size(2)}, found.options())
                          .scatter_reduce(1, index, found, "amax", false);
  if (!rows.requires_grad())
    return padded.defined() ? most.masked_fill(counted(bag, padded, bags).eq(0).unsqueeze(2), 0)
                            : most;
  // Of equal rows the first has the gradient, as in LibTorch; "amax" would share it out.
  Tensor is_most = found.eq(most.gather(1, index)).logical_or(found.isnan());
  if (padded.defined()) is_most = is_most.logical_and(padded.logical_not().unsqueeze(2));
  const Tensor place = at::arange(places, bag.options()).view({1, places, 1});
  const Tensor first = at::full(most.sizes(), places, bag.options())
                           .scatter_reduce(1, index, at::where(is_most, place, places), "amin");
  const Tensor zero = at::zeros({rows.size(0), 1, rows.size(2)}, found.options());
  return at::cat({rows, zero}, 1).gather(1, first);
}

/// Every row is looked up, then collected into its bag.
Tensors collected(const BagConfig& c, const WideCall& call) {
  const Tensor &table = call.inputs[1], &scale = call.inputs[3];
  const Tensor ids = call.inputs[0].to(at::kLong);
  Tensor offsets = call.inputs[2].to(at::kLong).contiguous();
  const int64_t bags = offsets.size(1) - (c.closed ? 1 : 0), width = table.size(2);
  const bool rest_left_out = leaves_rest_out(c, table);
  if (c.closed && !rest_left_out) offsets = offsets.slice(1, 0, bags).contiguous();
  const Tensor place = at::arange(ids.size(1), ids.options()).expand_as(ids).contiguous();
  const Tensor bag = at::searchsorted(offsets, place, false, true) - 1;  // [N, M]
  const Tensor index = bag.unsqueeze(2).expand({call.n, ids.size(1), width});
  Tensor rows = table.gather(1, ids.unsqueeze(2).expand_as(index));
  const Tensor padded = c.padding >= 0 ? ids.eq(c.padding) : Tensor();
  if (c.pick == Pick::max) return {largest(rows, bag, padded, bags)};
  if (scale.defined()) rows = rows * scale.unsqueeze(2);
  if (padded.defined()) rows = rows.masked_fill(padded.unsqueeze(2), 0);
  Tensor sums =
      at::zeros({call.n, offsets.size(1), width}, table.options()).scatter_add(1, index, rows);
  if (rest_left_out) sums = sums.slice(1, 0, bags);  // which has a bag of its own
  // LibTorch counts the rest in the last bag also where it leaves it out of the sum.
  if (c.pick == Pick::mean)
    sums = sums / counted(bag.clamp_max(bags - 1), padded, bags).clamp_min(1).unsqueeze(2);
  return {sums};
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
