#include "engine/model/dynamic_portable.h"

#include <algorithm>

#include "engine/check/check.h"
#include "engine/error.h"
#include "engine/widen/target.h"

namespace wide {
namespace {

/// Three batch sizes to compare, `batch` first if it is one of them. Not 1, at which operators
/// broadcast and layouts are ambiguous; primes rather than small numbers, which other sizes of the
/// network may equal by chance.
std::vector<int64_t> sizes_to_compare(int64_t batch, const BatchRange& range) {
  std::vector<int64_t> wanted{batch, 7, 11, 13, 5, 3, 2};
  for (int64_t more = 0; more < 3; ++more)
    wanted.push_back(std::max<int64_t>(range.least, 2) + more);
  std::vector<int64_t> chosen;
  for (const int64_t size : wanted)
    if (size >= 2 && range.has(size) && chosen.size() < 3 &&
        std::ranges::find(chosen, size) == chosen.end())
      chosen.push_back(size);
  return chosen;
}

/// Whether `portable`, made from larger batches, gives the same for a batch of one as the program
/// that `at` makes for it.
bool right_for_one(const Portable& portable, const std::function<Portable(int64_t batch)>& at) {
  try {
    const Portable one = at(1);
    Portable same = one;
    same.program = program_at(portable, 1);
    const Tensors got = run(same, one.sample), expected = run(one, one.sample);
    const auto random = [](const Node& node) { return node.is_random(); };
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i].sizes() != expected[i].sizes()) return false;
    if (std::ranges::any_of(same.program.nodes, random)) return true;
    for (size_t i = 0; i < got.size(); ++i) {
      const double most = 2 * Target{}.tolerance_for(expected[i].scalar_type());
      if (!(max_relative_error({got[i]}, {expected[i]}) <= most)) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Portable dynamic_portable(int64_t batch, const std::optional<BatchRange>& range,
                          const std::function<Portable(int64_t batch)>& at) {
  Portable first = at(batch);
  if (!range) return first;
  const auto other = [&](int64_t size) {
    try {
      return at(size);
    } catch (const std::exception& e) {
      fail("those of {} fail: {}", size, first_line(e));
    }
  };
  try {
    const std::vector<int64_t> sizes = sizes_to_compare(batch, *range);
    if (sizes.size() < 3) fail("it takes too few sizes of batches to compare");
    std::vector<Portable> made;
    for (const int64_t size : sizes) made.push_back(size == batch ? first : other(size));
    std::vector<const Program*> programs;
    for (const Portable& portable : made) programs.push_back(&portable.program);
    DynamicBatch found = batch_formulas(programs, sizes);
    found.range = *range;
    Portable dynamic = std::move(made.front());
    dynamic.batch = std::move(found);
    const std::function<Portable(int64_t)> made_for_one = [&](int64_t) { return first; };
    if (range->has(1) && !right_for_one(dynamic, batch == 1 ? made_for_one : at)) {
      if (batch == 1) fail("larger ones are computed in another way");
      dynamic.batch->range.least = 2;
    }
    return dynamic;
  } catch (const std::exception& e) {
    first.fixed_because = first_line(e);
    return first;
  }
}

Program program_at(const Portable& portable, int64_t batch) {
  WIDE_ASSERT(portable.batch && portable.batch->range.has(batch));
  return at_batch(portable.program, *portable.batch, batch);
}

std::string batch_text(const Portable& portable, int64_t batch) {
  if (!portable.batch) {
    const std::string why = portable.fixed_because;
    return fmt::format("batches of {}{}", batch, why.empty() ? "" : " alone: " + why);
  }
  const BatchRange& range = portable.batch->range;
  if (range.most) return fmt::format("batches of {} to {}", range.least, *range.most);
  return range.least == 1 ? "any batch" : fmt::format("batches of {} or more", range.least);
}

}  // namespace wide
