#include "app/train/inputs/embedding_check.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

bool looks_up(const Node& node) {
  const std::string name = node.name();
  return name == "aten::embedding" || name.starts_with("aten::_embedding_bag") ||
         name.starts_with("aten::embedding_bag");
}

/// The indices of one lookup as a program of their own.
struct Lookup {
  Program indices;
  std::vector<size_t> inputs;  // of forward that they are computed from
  bool of_buffers = false;
  int64_t rows = 0;  // of the table
  std::string table;
};

class Lookups {
 public:
  Lookups(const TrainNetwork& network, const Network& form)
      : network_(network), form_(form), program_(network.recorded(form)) {
    for (const Node& node : program_.nodes)
      if (looks_up(node)) add(node);
  }

  void check(const DataParts& parts, bool known_buffers) const {
    for (const Lookup& lookup : all_)
      if (!lookup.of_buffers || known_buffers) check(lookup, parts);
  }

 private:
  void add(const Node& node) {
    const ValueId table = node.arguments.at(0).values.at(0);
    const ValueId indices = node.arguments.at(1).values.at(0);
    Lookup lookup;
    lookup.rows = program_.value(table).sizes.at(0);
    lookup.table = program_.value(table).name;
    ByValue<bool> needed(static_cast<size_t>(program_.values.size()), false);
    needed[indices] = true;
    std::vector<bool> keep(program_.nodes.size(), false);
    for (size_t i = program_.nodes.size(); i-- > 0;) {
      const Node& maker = program_.nodes[i];
      for_each_value(maker.results, [&](ValueId id) {
        if (needed[id]) keep[i] = true;
      });
      if (!keep[i]) continue;
      if (maker.is_random()) return;
      for_each_value(maker.arguments, [&](ValueId id) { needed[id] = true; });
    }
    const std::vector<size_t> inputs = form_.indices(true);
    for (size_t i = 0; i < program_.bound.size(); ++i) {
      if (!needed[program_.bound[i]]) continue;
      const Role role = program_.value(program_.bound[i]).role;
      if (role == Role::parameter) return;
      if (role == Role::buffer) lookup.of_buffers = true;
      const auto at = std::find(inputs.begin(), inputs.end(), i);
      if (at != inputs.end()) lookup.inputs.push_back(static_cast<size_t>(at - inputs.begin()));
    }
    if (lookup.inputs.empty()) return;
    lookup.indices = program_;
    lookup.indices.outputs = {indices};
    lookup.indices.updates.clear();
    lookup.indices.keep_nodes(keep);
    all_.push_back(std::move(lookup));
  }

  void check(const Lookup& lookup, const DataParts& parts) const {
    int64_t models = 1;
    for (const size_t input : lookup.inputs)
      if (parts.inputs[input].own) models = parts.inputs[input].values.size(0);
    if (lookup.indices.nodes.empty()) {  // the input itself
      const Tensor values = parts.inputs[lookup.inputs[0]].values;
      if (values.numel() == 0) return;
      const auto [least, most] = at::aminmax(values);
      if (least.item<int64_t>() >= 0 && most.item<int64_t>() < lookup.rows) return;
    }
    for (int64_t model = 0; model < models; ++model)
      for (int64_t begin = 0; begin < parts.rows; begin += network_.batch())
        check_batch(lookup, parts, model, begin);
  }

  void check_batch(const Lookup& lookup, const DataParts& parts, int64_t model,
                   int64_t begin) const {
    // The last batch is filled up by repeating its last row.
    const Tensor rows =
        at::arange(network_.batch(), at::kLong).add(begin).clamp_max(parts.rows - 1);
    std::optional<int64_t> bad = bad_index(lookup, parts, model, rows);
    if (!bad) return;
    // Which row it is: batches that consist of one row tell, wherever the network puts its indices.
    int64_t row = begin;
    for (int64_t r = begin; r < std::min(begin + network_.batch(), parts.rows); ++r)
      if (const auto own = bad_index(lookup, parts, model, at::full_like(rows, r))) {
        bad = own;
        row = r;
        break;
      }
    fail(
        "[{}] column {}: got index {} in row {}, expected 0 to {}, as {} has {} rows; try other "
        "data, or a larger embedding",
        parts.file, parts.inputs[lookup.inputs[0]].columns, *bad, row, lookup.rows - 1,
        lookup.table.empty() ? "the embedding" : printable(lookup.table), lookup.rows);
  }

  /// The first index of a batch of these rows that the table lacks.
  std::optional<int64_t> bad_index(const Lookup& lookup, const DataParts& parts, int64_t model,
                                   const Tensor& rows) const {
    const Tensor indices = interpret(lookup.indices, bound(lookup, parts, model, rows))[0];
    const Tensor bad = indices.lt(0).logical_or(indices.ge(lookup.rows));
    if (!bad.any().item<bool>()) return std::nullopt;
    return indices.masked_select(bad)[0].item<int64_t>();
  }

  Tensors bound(const Lookup& lookup, const DataParts& parts, int64_t model,
                const Tensor& rows) const {
    const std::vector<size_t> inputs = form_.indices(true), weights = form_.indices(false);
    Tensors bound(form_.tensors.size());
    for (const size_t i : lookup.inputs) {
      const DataPart& part = parts.inputs[i];
      const Tensor values = part.own ? part.values[model] : part.values;
      const Value& value = lookup.indices.value(lookup.indices.bound[inputs[i]]);
      bound[inputs[i]] = values.index_select(0, rows).to(value.dtype).view(value.sizes);
    }
    for (size_t k = 0; k < form_.initial.size(); ++k) bound[weights[k]] = form_.initial[k];
    for (size_t i = 0; i < bound.size(); ++i) {
      const Value& value = lookup.indices.value(lookup.indices.bound[i]);
      if (!bound[i].defined()) bound[i] = at::zeros({1}, value.dtype).expand(value.sizes);
    }
    return bound;
  }

  const TrainNetwork& network_;
  const Network& form_;
  const Program program_;
  std::vector<Lookup> all_;
};

}  // namespace

void check_embeddings(const TrainNetwork& network, const Network& form, const DataParts& parts,
                      bool known_buffers) {
  const at::NoGradGuard no_grad;
  Lookups(network, form).check(parts, known_buffers);
}

}  // namespace wide
