#include "engine/lower/plan/epilogue.h"

#include <algorithm>

#include "engine/lower/plan/operator_traits.h"

namespace wide {

namespace {

/// Position in main of the node that makes a value or a view of it; -1 for values from outside.
int64_t made_at(const Program& program, const std::vector<size_t>& main, ValueId id) {
  for (size_t p = 0; p < main.size(); ++p) {
    bool here = false;
    for_each_value(program.nodes[main[p]].results, [&](ValueId made) { here |= made == id; });
    if (here) return static_cast<int64_t>(p);
  }
  return -1;
}

bool absorbs(const OperatorTraits& traits, const std::string& text) {
  return !text.empty() && std::ranges::count(traits.absorbs, text.substr(0, text.find(' '))) > 0;
}

ValueId result_at(const Program& program, const std::vector<size_t>& main, size_t position) {
  return program.nodes[main[position]].results[0].values[0];
}

}  // namespace

std::vector<size_t> Epilogue::readers() const {
  std::vector<size_t> all;
  for (const auto& reader : {sum, activation, pool, last})
    if (reader) all.push_back(*reader);
  return all;
}

void Epilogue::merge(const Program& program, const std::vector<size_t>& main, size_t position,
                     Uses& uses) const {
  for (const auto& reader : {sum, activation})
    if (reader) uses.merge(result_at(program, main, position), result_at(program, main, *reader));
  if (last) uses.merge(result_at(program, main, *pool), result_at(program, main, *last));
}

Epilogue epilogue_of(const Program& program, const std::vector<size_t>& main, const Uses& uses,
                     size_t position, const std::set<ValueId>& apart) {
  Epilogue found;
  const auto node = [&](size_t p) -> const Node& { return program.nodes[main[p]]; };
  const auto is_apart = [&](size_t p) { return apart.count(node(p).results[0].values[0]) > 0; };
  const OperatorTraits& traits = operator_traits(node(position).op);
  if (traits.absorbs.empty() && !traits.adds) return found;
  ValueId made = result_at(program, main, position);
  for (size_t argument = 0; traits.adds && argument < 2 && !found.sum; ++argument) {
    const std::optional<size_t> reader = uses.only_reader(made, argument);
    if (!reader || node(*reader).name() != "aten::add.Tensor" || is_apart(*reader)) continue;
    const std::vector<Argument>& terms = node(*reader).arguments;
    const Argument& other = terms[1 - argument];
    const Value& seen = program.value(terms[argument].values[0]);
    if (other.kind != Argument::Kind::value || terms[2].kind != Argument::Kind::constant ||
        !terms[2].constant.isScalar() || !terms[2].constant.toScalar().equal(1) ||
        !same_layout(program.value(other.values[0]), seen))
      continue;
    const ValueId added =
        uses.covers_root(other.values[0]) ? uses.root(other.values[0]) : other.values[0];
    // The added value must exist before the operator runs.
    if (made_at(program, main, added) >= static_cast<int64_t>(position)) continue;
    found.sum = reader;
    found.residual = added;
    made = result_at(program, main, *reader);
  }
  const auto find_activation = [&](std::optional<size_t>& activation, std::string& words) {
    const std::optional<size_t> reader = uses.only_reader(made);
    const std::string text = reader && !is_apart(*reader) ? activation_text(node(*reader)) : "";
    if (!absorbs(traits, text)) return;
    activation = reader;
    words = text;
    made = result_at(program, main, *reader);
  };
  find_activation(found.activation, found.text);
  const std::optional<size_t> pool = traits.pools ? uses.reader_of_all(made) : std::nullopt;
  if (!pool || is_apart(*pool) || !operator_traits(node(*pool).op).pool_text) return found;
  const std::string text = operator_traits(node(*pool).op).pool_text(program, node(*pool));
  if (text.empty() || !traits.pools(text, program.value(result_at(program, main, position))))
    return found;
  found.pool = pool;
  found.pool_text = text;
  made = result_at(program, main, *pool);
  if (!found.activation) find_activation(found.last, found.last_text);
  return found;
}

}  // namespace wide
