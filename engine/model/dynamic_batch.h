#pragma once
#include <map>
#include <optional>

#include "engine/program.h"

namespace wide {

/// An integer of a program as a function of the batch size: `slope * batch + constant`.
struct BatchFormula {
  int64_t slope = 0, constant = 0;

  int64_t at(int64_t batch) const { return slope * batch + constant; }
  auto operator<=>(const BatchFormula&) const = default;
};

/// The batch sizes that a network accepts.
struct BatchRange {
  int64_t least = 1;
  std::optional<int64_t> most;  // nullopt: no limit

  bool has(int64_t batch) const { return batch >= least && !(most && batch > *most); }
};

/// The size nearest to `bad` that `takes` accepts, by bisection: it accepts `good` and not `bad`,
/// and between them it changes once.
int64_t last_taken(int64_t good, int64_t bad, const std::function<bool(int64_t)>& takes);

/// The sizes around `batch` for which `takes` is true, which are assumed to have no gaps; nullopt
/// if `batch` is the only one.
std::optional<BatchRange> range_around(int64_t batch, const std::function<bool(int64_t)>& takes);

/// One formula for each size and each stride of a value.
struct ValueFormulas {
  std::vector<BatchFormula> sizes, strides;
};

/// Which integers of a program depend on the batch size; all others are the same at every size.
struct DynamicBatch {
  BatchRange range;
  ValueId input = kNone;  // the input whose size in `dimension` is the batch size
  int64_t dimension = 0;
  std::map<ValueId, ValueFormulas> values;
  /// By node and argument: one formula for an int, or one for each element of an int list.
  std::map<std::pair<size_t, size_t>, std::vector<BatchFormula>> arguments;

  const std::vector<BatchFormula>* argument(size_t node, size_t argument) const;
  const ValueFormulas* value(ValueId id) const;
};

/// The formulas of `programs[0]`, from the same program recorded at three different batch sizes:
/// computed from the first two and checked with the third. Throws Error with a reason if the
/// programs differ in more than such integers.
DynamicBatch batch_formulas(const std::vector<const Program*>& programs,
                            const std::vector<int64_t>& batches);

/// `program` with the sizes and arguments for another batch size.
Program at_batch(Program program, const DynamicBatch& dynamic, int64_t batch);

}  // namespace wide
