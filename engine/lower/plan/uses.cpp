#include "engine/lower/plan/uses.h"

#include <c10/util/strides.h>

#include <algorithm>

namespace wide {

namespace {

/// Whether the node is a view with pending conjugation or negation: its elements differ from
/// memory.
bool reckons(const Node& node) {
  const std::string name = node.name();
  return name == "aten::_conj" || name == "aten::_neg_view";
}

}  // namespace

Uses::Uses(const Program& program, const std::vector<size_t>& main)
    : program_(program),
      main_(main),
      last_(program.values.size(), 0),
      reads_(program.values.size(), 0),
      last_reader_(program.values.size(), 0),
      reckoned_(program.values.size(), false) {
  for (size_t i = 0; i < last_.size(); ++i) root_.push_back(static_cast<ValueId>(i));
  for (size_t p = 0; p < main_.size(); ++p) {
    const Node& node = program_.nodes[main_[p]];
    if (node.is_view())
      for_each_value(node.results, [&](ValueId id) {
        const ValueId from = node.arguments[0].values[0];
        root_[static_cast<size_t>(id)] = root(from);
        reckoned_[static_cast<size_t>(id)] = reckons(node) || reckoned_[static_cast<size_t>(from)];
      });
    for_each_value(node.arguments, [&](ValueId id) {
      const auto r = static_cast<size_t>(root(id));
      last_[r] = p;
      if (node.is_view()) return;
      ++reads_[r];
      last_reader_[r] = p;
    });
  }
  last_node_ = last_;
  for (ValueId id : program.results()) last_[static_cast<size_t>(root(id))] = main_.size();
}

bool Uses::covers_root(ValueId id) const {
  const Value &value = program_.value(id), &whole = program_.value(root(id));
  return value.numel() == whole.numel() && value.dtype == whole.dtype &&
         !reckoned_[static_cast<size_t>(id)];
}

std::optional<size_t> Uses::reader_of_all(ValueId made, size_t argument) const {
  const auto r = static_cast<size_t>(made);
  if (reads_[r] != 1 || last(made) >= main_.size()) return std::nullopt;
  const Node& node = program_.nodes[main_[last_reader_[r]]];
  if (argument >= node.arguments.size()) return std::nullopt;
  const Argument& in = node.arguments[argument];
  if (in.kind != Argument::Kind::value || node.results[0].kind != Argument::Kind::value ||
      root(in.values[0]) != made || !covers_root(in.values[0]))
    return std::nullopt;
  return last_reader_[r];
}

std::optional<size_t> Uses::only_reader(ValueId made, size_t argument) const {
  const std::optional<size_t> reader = reader_of_all(made, argument);
  if (!reader) return std::nullopt;
  const Node& node = program_.nodes[main_[*reader]];
  const bool alike = same_layout(program_.value(node.arguments[argument].values[0]),
                                 program_.value(node.results[0].values[0]));
  return alike ? reader : std::nullopt;
}

void Uses::merge(ValueId root, ValueId other) {
  std::ranges::replace(root_, other, root);
  last_[static_cast<size_t>(root)] = std::max(last(root), last(other));
  last_node_[static_cast<size_t>(root)] = std::max(last_node(root), last_node(other));
  const auto from = static_cast<size_t>(other), to = static_cast<size_t>(root);
  reads_[to] += reads_[from];
  last_reader_[to] = std::max(last_reader_[to], last_reader_[from]);
}

std::vector<size_t> main_of(const Program& program) {
  std::vector<size_t> main;
  for (size_t i = 0; i < program.nodes.size(); ++i)
    if (program.nodes[i].phase == Phase::main) main.push_back(i);
  return main;
}

bool dense(const Value& value) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < value.sizes.size(); ++i)
    if (value.sizes[i] != 1) dims.emplace_back(value.strides[i], value.sizes[i]);
  std::ranges::sort(dims);
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

void make_contiguous(Value& value) {
  const c10::DimVector strides = c10::contiguous_strides(value.sizes);
  value.strides.assign(strides.begin(), strides.end());
}

}  // namespace wide
