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

/// One embedding's lookup.
struct Lookup {
  ValueId indices = kNone;
  std::vector<size_t> inputs;  // of forward that the indices are computed from
  int64_t rows = 0;            // of the table
  std::string table;
};

/// All lookups of a network, and the part of its program that computes their indices.
class Lookups {
 public:
  Lookups(const TrainNetwork& network, const Network& form, bool known_buffers)
      : inputs_(form.indices(true)), known_buffers_(known_buffers) {
    const Program whole = network.recorded(form);
    program_ = whole;
    program_.updates.clear();
    program_.outputs.clear();
    needed_.assign(whole.nodes.size(), false);
    for (const Node& node : whole.nodes)
      if (looks_up(node)) add(whole, node);
    program_.keep_nodes(needed_);
    const std::vector<size_t> weights = form.indices(false);
    zeros_.resize(form.tensors.size());
    for (size_t k = 0; k < form.initial.size(); ++k) zeros_[weights[k]] = form.initial[k];
    for (size_t i = 0; i < zeros_.size(); ++i) {
      const Value& value = program_.value(program_.bound[i]);
      if (!zeros_[i].defined()) zeros_[i] = at::zeros({1}, value.dtype).expand(value.sizes);
    }
  }

  void check(const DataParts& parts, int64_t batch) const {
    if (std::ranges::all_of(all_, [&](const Lookup& l) { return fits(l, parts); })) return;
    int64_t models = 1;
    for (const DataPart& part : parts.inputs)
      if (part.own) models = part.values.size(0);
    for (int64_t model = 0; model < models; ++model)
      for (int64_t begin = 0; begin < parts.rows; begin += batch)
        check_batch(parts, model, begin, batch);
  }

 private:
  struct Bad {
    const Lookup* lookup = nullptr;
    int64_t index = 0;
  };

  void add(const Program& whole, const Node& node) {
    const ValueId table = node.arguments.at(0).values.at(0);
    Lookup lookup;
    lookup.indices = node.arguments.at(1).values.at(0);
    lookup.rows = whole.value(table).sizes.at(0);
    lookup.table = whole.value(table).name;
    ByValue<bool> needed(whole.values.size(), false);
    needed[lookup.indices] = true;
    std::vector<bool> keep = needed_;
    for (size_t i = whole.nodes.size(); i-- > 0;) {
      const Node& maker = whole.nodes[i];
      bool makes = false;
      for_each_value(maker.results, [&](ValueId id) { makes = makes || needed[id]; });
      if (!makes) continue;
      if (maker.is_random()) return;
      keep[i] = true;
      for_each_value(maker.arguments, [&](ValueId id) { needed[id] = true; });
    }
    for (size_t i = 0; i < whole.bound.size(); ++i) {
      if (!needed[whole.bound[i]]) continue;
      const Role role = whole.value(whole.bound[i]).role;
      if (role == Role::parameter || (role == Role::buffer && !known_buffers_)) return;
      const auto at = std::ranges::find(inputs_, i);
      if (at != inputs_.end()) lookup.inputs.push_back(static_cast<size_t>(at - inputs_.begin()));
    }
    if (lookup.inputs.empty()) return;
    needed_ = std::move(keep);
    program_.outputs.push_back(lookup.indices);
    all_.push_back(std::move(lookup));
  }

  /// Whether a lookup by an input itself has all rows, without taking batches.
  bool fits(const Lookup& lookup, const DataParts& parts) const {
    const DataPart& part = parts.inputs[lookup.inputs[0]];
    if (program_.bound[inputs_[lookup.inputs[0]]] != lookup.indices) return false;
    if (part.values.numel() == 0) return true;
    const auto [least, most] = at::aminmax(part.values);
    return least.item<int64_t>() >= 0 && most.item<int64_t>() < lookup.rows;
  }

  void check_batch(const DataParts& parts, int64_t model, int64_t begin, int64_t batch) const {
    // The last batch is filled up by repeating its last row.
    const Tensor rows = at::arange(batch, at::kLong).add(begin).clamp_max(parts.rows - 1);
    std::optional<Bad> bad = first_bad(parts, model, rows);
    if (!bad) return;
    // Which row it is: batches that consist of one row tell, wherever the network puts its indices.
    int64_t row = begin;
    for (int64_t r = begin; r < std::min(begin + batch, parts.rows); ++r)
      if (const auto own = first_bad(parts, model, at::full_like(rows, r))) {
        bad = own;
        row = r;
        break;
      }
    const Lookup& lookup = *bad->lookup;
    fail(
        "[{}] column {}: got index {} in row {}, expected 0 to {}, as {} has {} rows; try other "
        "data, or a larger embedding",
        parts.file, parts.inputs[lookup.inputs[0]].columns, bad->index, row, lookup.rows - 1,
        lookup.table.empty() ? "the embedding" : printable(lookup.table), lookup.rows);
  }

  /// The first index of a batch of these rows that a table lacks.
  std::optional<Bad> first_bad(const DataParts& parts, int64_t model, const Tensor& rows) const {
    Tensors bound = zeros_;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const DataPart& part = parts.inputs[i];
      const Value& value = program_.value(program_.bound[inputs_[i]]);
      const bool read = std::ranges::any_of(
          all_, [&](const Lookup& l) { return std::ranges::find(l.inputs, i) != l.inputs.end(); });
      if (!read) continue;
      const Tensor values = part.own ? part.values[model] : part.values;
      bound[inputs_[i]] = values.index_select(0, rows).to(value.dtype).view(value.sizes);
    }
    const Tensors indices = interpret(program_, bound);
    for (size_t k = 0; k < all_.size(); ++k) {
      if (indices[k].numel() == 0) continue;
      const auto [least, most] = at::aminmax(indices[k]);
      if (least.item<int64_t>() < 0) return Bad{&all_[k], least.item<int64_t>()};
      if (most.item<int64_t>() >= all_[k].rows) return Bad{&all_[k], most.item<int64_t>()};
    }
    return std::nullopt;
  }

  const std::vector<size_t> inputs_;  // among the form's tensors
  const bool known_buffers_;
  Program program_;           // outputs: the indices of each lookup
  std::vector<bool> needed_;  // of the recorded nodes
  Tensors zeros_;             // bound values: the network's own, else zeros
  std::vector<Lookup> all_;
};

}  // namespace

void check_embeddings(const TrainNetwork& network, const Network& form, const DataParts& parts,
                      bool known_buffers) {
  const at::NoGradGuard no_grad;
  const bool whole_numbers = std::ranges::any_of(form.tensors, [](const TensorSpec& spec) {
    return spec.role == Role::input && !c10::isFloatingType(spec.dtype);
  });
  if (!whole_numbers) return;  // recording takes a forward pass
  Lookups(network, form, known_buffers).check(parts, network.batch());
}

}  // namespace wide
