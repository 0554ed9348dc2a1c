#include "engine/widen/registry.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/error.h"

namespace wide {

namespace {

std::vector<std::unique_ptr<Target>>& all() {
  static std::vector<std::unique_ptr<Target>> targets;
  return targets;
}

std::vector<const Target*> select(bool with_network) {
  std::vector<const Target*> out;
  for (const auto& t : all())
    if (with_network ? static_cast<bool>(t->network) : !t->claims.empty() || !t->patterns.empty())
      out.push_back(t.get());
  std::sort(out.begin(), out.end(), [](const Target* a, const Target* b) {
    return a->kind != b->kind ? a->kind < b->kind : a->name < b->name;
  });
  return out;
}

}  // namespace

const char* to_string(Kind kind) {
  switch (kind) {
    case Kind::primitive:
      return "primitive";
    case Kind::block:
      return "block";
    case Kind::model:
      return "model";
  }
  return "?";
}

bool CallView::is_tensor(size_t i) const {
  return i < arguments_.size() && arguments_[i].kind == Argument::Kind::value;
}
ValueId CallView::id(size_t i) const { return is_tensor(i) ? arguments_[i].values[0] : kNone; }
const Value& CallView::value(size_t i) const {
  WIDE_ASSERT(is_tensor(i), "argument {} is no tensor", i);
  return meta(arguments_[i].values[0]);
}
const IValue& CallView::constant(size_t i) const { return arguments_.at(i).constant; }
std::vector<ValueId> CallView::list(size_t i) const { return arguments_.at(i).values; }
Sizes CallView::ints(size_t i) const {
  const IValue& v = arguments_.at(i).constant;
  if (v.isInt()) return {v.toInt()};
  return v.isIntList() ? v.toIntVector() : Sizes{};
}
bool CallView::flag(size_t i) const {
  return arguments_.at(i).constant.isBool() && arguments_[i].constant.toBool();
}
double CallView::number(size_t i, double otherwise) const {
  const IValue& v = arguments_.at(i).constant;
  return v.isDouble() ? v.toDouble() : v.isInt() ? static_cast<double>(v.toInt()) : otherwise;
}

std::optional<size_t> PatternView::made_by(ValueId id, const std::string& op) const {
  const int32_t by = id == kNone ? -1 : made_by_[id];
  if (by < 0) return std::nullopt;
  const Node& maker = node(static_cast<size_t>(by));
  if (maker.op.schema().operator_name().name != op || maker.results[0].values.size() != 1 ||
      maker.results[0].values[0] != id)
    return std::nullopt;
  return static_cast<size_t>(by);
}

std::optional<double> PatternView::number(size_t at, size_t i) const {
  if (i >= node(at).arguments.size()) return std::nullopt;
  const Argument& a = node(at).arguments[i];
  if (a.kind == Argument::Kind::value) {
    const Value& v = meta(a.values[0]);
    if (v.role != Role::constant || v.numel() != 1) return std::nullopt;
    return v.constant.item().toDouble();
  }
  if (a.constant.isDouble()) return a.constant.toDouble();
  if (a.constant.isInt()) return static_cast<double>(a.constant.toInt());
  return std::nullopt;
}

int64_t Shape::operator[](const std::string& axis) const {
  for (const auto& [name, size] : axes_)
    if (name == axis) return size;
  fail("[shape] axis {}: got {}, expected it to be given; try adding {}", axis,
       axes_.empty() ? "no axes" : text(), axis);
}
int64_t Shape::get(const std::string& axis, int64_t otherwise) const {
  return has(axis) ? (*this)[axis] : otherwise;
}
bool Shape::has(const std::string& axis) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const auto& a) { return a.first == axis; });
}
Shape& Shape::set(const std::string& axis, int64_t size) {
  for (auto& [name, value] : axes_)
    if (name == axis) {
      value = size;
      return *this;
    }
  axes_.emplace_back(axis, size);
  return *this;
}
std::string Shape::text() const {
  std::string out;
  for (const auto& [name, size] : axes_)
    out += fmt::format("{}{}{}", out.empty() ? "" : " ", name, size);
  return out;
}

const Strategy* Target::strategy(const std::string& wanted) const {
  for (const Strategy& s : strategies)
    if (s.name == wanted) return &s;
  return nullptr;
}

double Target::tolerance_for(at::ScalarType dtype) const {
  auto it = tolerance.find(dtype);
  if (it != tolerance.end()) return it->second;
  return dtype == at::kBFloat16 ? 4e-2 : dtype == at::kHalf ? 5e-3 : 2e-4;
}

bool add_target(Target target, const char* file) {
  target.file = file;
  all().push_back(std::make_unique<Target>(std::move(target)));
  return true;
}

const std::vector<const Target*>& targets() {
  static const std::vector<const Target*> sorted = select(true);
  return sorted;
}

const std::vector<const Target*>& claimants() {
  static const std::vector<const Target*> sorted = select(false);
  return sorted;
}

const Target& find_target(const std::string& name) {
  std::vector<std::string> names;
  for (const Target* t : targets()) {
    if (t->name == name) return *t;
    names.push_back(t->name);
  }
  const std::string near = nearest(name, names);
  fail("[{}] name: got an unknown target, expected a registered one; try {}", name,
       near.empty() ? "`workbench list`" : near);
}

namespace {
std::vector<Fold>& all_folds() {
  static std::vector<Fold> folds;
  return folds;
}
}  // namespace

bool add_fold(Fold fold) {
  all_folds().push_back(std::move(fold));
  return true;
}

const std::vector<Fold>& folds() { return all_folds(); }

std::string reason(const std::string& thing, const std::string& what, const std::string& got,
                   const std::string& expected, const std::string& advice) {
  return fmt::format("[{}] {}: got {}, expected {}; try {}", thing, what, got, expected, advice);
}

}  // namespace wide
