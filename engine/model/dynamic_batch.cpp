#include "engine/model/dynamic_batch.h"

#include <ATen/ops/equal.h>

#include <bit>

#include "engine/error.h"

namespace wide {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 30;  // only networks without a limit take this batch

bool is_wrapped_number(const Tensor& t) { return t.unsafeGetTensorImpl()->is_wrapped_number(); }

bool same_tensor(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         is_wrapped_number(a) == is_wrapped_number(b) && at::equal(a, b);
}

bool same_constant(const IValue& a, const IValue& b) {
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isTensor()) return !a.toTensor().defined() && !b.toTensor().defined();
  if (a.isDouble())  // bitwise, so that NaN equals itself
    return std::bit_cast<int64_t>(a.toDouble()) == std::bit_cast<int64_t>(b.toDouble());
  if (a.isList()) {
    const auto x = a.toListRef(), y = b.toListRef();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same_constant(x[i], y[i])) return false;
    return true;
  }
  return a == b;
}

/// The integers of an int or of a list of ints; nullopt for anything else.
std::optional<Sizes> integers(const IValue& v) {
  if (v.isInt()) return Sizes{v.toInt()};
  if (v.isIntList()) return v.toIntVector();
  if (!v.isList()) return std::nullopt;
  Sizes all;
  for (const IValue& e : v.toListRef()) {
    if (!e.isInt()) return std::nullopt;
    all.push_back(e.toInt());
  }
  return all;
}

/// Whether the operator declares the argument as possibly symbolic (SymInt).
bool may_be_symbolic(const c10::Argument& declared) {
  c10::TypePtr type = declared.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>()) type = list->getElementType();
  return type->kind() == c10::TypeKind::SymIntType || type->kind() == c10::TypeKind::NumberType;
}

class Comparison {
 public:
  Comparison(const std::vector<const Program*>& programs, const std::vector<int64_t>& batches)
      : programs_(programs), batches_(batches) {
    for (size_t k = 0; k < programs.size(); ++k)
      partner_.emplace_back(programs[0]->values.size(), kNone);
  }

  DynamicBatch formulas() {
    const Program& base = *programs_[0];
    for (size_t k = 1; k < programs_.size(); ++k) {
      const Program& other = *programs_[k];
      if (base.bound.size() != other.bound.size() || base.nodes.size() != other.nodes.size() ||
          base.outputs.size() != other.outputs.size() ||
          base.updates.size() != other.updates.size())
        fail("batches of {} take {} operators, those of {} take {}", batches_[0], base.nodes.size(),
             batches_[k], other.nodes.size());
      pair_ids(k, base.bound, other.bound, "its inputs");
    }
    for (size_t i = 0; i < base.nodes.size(); ++i) compare_node(i);
    for (size_t k = 1; k < programs_.size(); ++k) {
      pair_ids(k, base.outputs, programs_[k]->outputs, "its outputs");
      for (size_t u = 0; u < base.updates.size(); ++u) {
        const Update &a = base.updates[u], &b = programs_[k]->updates[u];
        pair_ids(k, {a.target, a.value}, {b.target, b.value}, "its updates");
      }
    }
    for (ValueId id = 0; id < partner_[1].size(); ++id)
      if (partner_[1][id] != kNone) compare_value(id);
    find_input();
    return std::move(found_);
  }

 private:
  /// Pairs values of program `k` with those of the first program, each always with the same one.
  void pair_ids(size_t k, const std::vector<ValueId>& base, const std::vector<ValueId>& other,
                const std::string& where) {
    bool same = base.size() == other.size();
    for (size_t i = 0; same && i < base.size(); ++i) {
      if (base[i] == kNone || other[i] == kNone) {
        same = base[i] == other[i];
        continue;
      }
      ValueId known = partner_[k][base[i]];
      if (known == kNone) partner_[k][base[i]] = known = other[i];
      same = known == other[i];
    }
    if (!same)
      fail("{} uses other tensors in batches of {} than in those of {}", where, batches_[k],
           batches_[0]);
  }

  /// The formula of a number from its values at all sizes; nullopt if it is not linear.
  std::optional<BatchFormula> formula(const Sizes& seen) const {
    const int64_t step = batches_[1] - batches_[0], rise = seen[1] - seen[0];
    if (rise % step != 0) return std::nullopt;
    const int64_t slope = rise / step;
    const BatchFormula found{slope, seen[0] - slope * batches_[0]};
    for (size_t k = 0; k < seen.size(); ++k)
      if (found.at(batches_[k]) != seen[k]) return std::nullopt;
    return found;
  }

  /// `lists`: the same integers at every size. Returns nothing if all are equal at every size.
  std::vector<BatchFormula> formulas_of(const std::vector<Sizes>& lists,
                                        const std::string& where) const {
    std::vector<BatchFormula> all;
    bool depends = false;
    for (size_t i = 0; i < lists[0].size(); ++i) {
      Sizes seen;
      for (const Sizes& list : lists) {
        if (list.size() != lists[0].size())
          fail("{} has another length in batches of another size", where);
        seen.push_back(list[i]);
      }
      const auto one = formula(seen);
      if (!one)
        fail("{} is {} in batches of {}", where, fmt::join(seen, ", "), fmt::join(batches_, ", "));
      depends |= one->slope != 0;
      all.push_back(*one);
    }
    if (!depends) all.clear();
    return all;
  }

  void compare_node(size_t i) {
    const Node& node = programs_[0]->nodes[i];
    for (size_t k = 1; k < programs_.size(); ++k) {
      const Node& other = programs_[k]->nodes[i];
      if (node.op != other.op || node.arguments.size() != other.arguments.size() ||
          node.results.size() != other.results.size())
        fail("operator {} is {} in batches of {}, {} in those of {}", i, node.name(), batches_[0],
             other.name(), batches_[k]);
      for (size_t r = 0; r < node.results.size(); ++r)
        pair_ids(k, node.results[r].values, other.results[r].values,
                 fmt::format("result {} of {}", r, node.name()));
    }
    for (size_t a = 0; a < node.arguments.size(); ++a) compare_argument(node, i, a);
  }

  void compare_argument(const Node& node, size_t i, size_t a) {
    const c10::Argument& declared = node.op.schema().arguments()[a];
    const std::string where = fmt::format("argument {} of {}", declared.name(), node.name());
    const Argument& own = node.arguments[a];
    bool same = true;
    std::vector<Sizes> numbers;
    for (const Program* program : programs_) {
      const Argument& other = program->nodes[i].arguments[a];
      if (own.kind != other.kind) fail("{} has another kind in batches of another size", where);
      same &= own.kind != Argument::Kind::constant || same_constant(own.constant, other.constant);
      if (const auto list = integers(other.constant)) numbers.push_back(*list);
    }
    for (size_t k = 1; k < programs_.size(); ++k)
      pair_ids(k, own.values, programs_[k]->nodes[i].arguments[a].values, where);
    if (same) return;
    if (numbers.size() != programs_.size() || !may_be_symbolic(declared))
      fail("{} depends on the size of the batch", where);
    found_.arguments[{i, a}] = formulas_of(numbers, where);
  }

  void compare_value(ValueId id) {
    const Value& base = programs_[0]->value(id);
    const std::string where =
        base.name.empty() ? fmt::format("a tensor {}", base.shape_text()) : base.name;
    std::vector<Sizes> sizes, strides;
    for (size_t k = 0; k < programs_.size(); ++k) {
      const Value& v = programs_[k]->value(k == 0 ? id : partner_[k][id]);
      if (v.role != base.role || v.dtype != base.dtype || v.strided != base.strided)
        fail("{} has another type in batches of another size", where);
      if (v.role == Role::constant && !same_tensor(base.constant, v.constant))
        fail("the constant {} depends on the size of the batch", base.shape_text());
      sizes.push_back(v.sizes);
      strides.push_back(v.strides);
    }
    ValueFormulas formulas{formulas_of(sizes, "the size of " + where),
                           formulas_of(strides, "the stride of " + where)};
    if (formulas.sizes.empty() && formulas.strides.empty()) return;
    const bool bound = base.role == Role::parameter || base.role == Role::buffer;
    if (bound) fail("{} depends on the size of the batch", where);
    const auto fill = [](std::vector<BatchFormula>* all, const Sizes& fixed) {
      for (size_t i = all->size(); i < fixed.size(); ++i) all->push_back({0, fixed[i]});
    };
    fill(&formulas.sizes, base.sizes);
    fill(&formulas.strides, base.strides);
    found_.values[id] = std::move(formulas);
  }

  void find_input() {
    for (const ValueId id : programs_[0]->bound) {
      const ValueFormulas* v = found_.value(id);
      for (size_t d = 0; v && d < v->sizes.size(); ++d)
        if (v->sizes[d] == BatchFormula{1, 0}) {
          found_.input = id;
          found_.dimension = static_cast<int64_t>(d);
          return;
        }
    }
    fail("no input has the size of the batch");
  }

  const std::vector<const Program*>& programs_;
  const std::vector<int64_t>& batches_;
  std::vector<ByValue<ValueId>> partner_;  // by program, then by value of the first program
  DynamicBatch found_;
};

}  // namespace

int64_t last_taken(int64_t good, int64_t bad, const std::function<bool(int64_t)>& takes) {
  while (std::abs(bad - good) > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (takes(middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<BatchRange> range_around(int64_t batch, const std::function<bool(int64_t)>& takes) {
  BatchRange range;
  range.least = last_taken(batch, 0, takes);
  if (!takes(kNoLimit)) range.most = last_taken(batch, kNoLimit, takes);
  if (range.most == range.least) return std::nullopt;
  return range;
}

const std::vector<BatchFormula>* DynamicBatch::argument(size_t node, size_t argument) const {
  const auto it = arguments.find({node, argument});
  return it == arguments.end() ? nullptr : &it->second;
}

const ValueFormulas* DynamicBatch::value(ValueId id) const {
  const auto it = values.find(id);
  return it == values.end() ? nullptr : &it->second;
}

DynamicBatch batch_formulas(const std::vector<const Program*>& programs,
                            const std::vector<int64_t>& batches) {
  WIDE_ASSERT(programs.size() == 3 && batches.size() == 3);
  return Comparison(programs, batches).formulas();
}

Program at_batch(Program program, const DynamicBatch& dynamic, int64_t batch) {
  const auto numbers = [&](const std::vector<BatchFormula>& formulas) {
    Sizes all;
    for (const BatchFormula& f : formulas) all.push_back(f.at(batch));
    return all;
  };
  for (const auto& [id, formulas] : dynamic.values) {
    program.value(id).sizes = numbers(formulas.sizes);
    program.value(id).strides = numbers(formulas.strides);
  }
  for (const auto& [place, formulas] : dynamic.arguments) {
    IValue& constant = program.nodes[place.first].arguments[place.second].constant;
    if (constant.isInt())
      constant = formulas[0].at(batch);
    else
      constant = numbers(formulas);
  }
  return program;
}

}  // namespace wide
