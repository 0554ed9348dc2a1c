#include "engine/widen/target.h"

#include <algorithm>
#include <deque>
#include <sstream>

#include "engine/error.h"
#include "engine/widen/describe.h"

namespace wide {

namespace {

std::deque<Target>& all() {
  static std::deque<Target> targets;
  return targets;
}

}  // namespace

const char* to_string(Kind kind) {
  constexpr const char* kNames[] = {"primitive", "block", "model"};
  return kNames[static_cast<size_t>(kind)];
}

Shape::Shape(const char* text) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t sign = word.find('=');
    WIDE_ASSERT(sign != std::string::npos, "{} in {}", word, text);
    axes_.emplace_back(word.substr(0, sign), std::stoll(word.substr(sign + 1)));
  }
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
  return std::ranges::any_of(axes_, [&](const auto& a) { return a.first == axis; });
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

double Target::tolerance_for(at::ScalarType dtype) const {
  auto it = tolerance.find(dtype);
  if (it != tolerance.end()) return it->second;
  return dtype == at::kBFloat16 ? 4e-2 : dtype == at::kHalf ? 5e-3 : 2e-4;
}

bool add_target(Target target, const char* file) {
  target.file = file;
  for (auto* network : {&target.network, &target.optimised})
    if (*network)
      *network = [name = target.name, axes = target.axes, of = *network](const Shape& shape) {
        for (const Axis& axis : axes)
          if (axis.required()) at_least(name, shape, axis.name, axis.least);
        return of(shape);
      };
  const Target& kept = all().emplace_back(std::move(target));
  if (!kept.claims.empty() || !kept.patterns.empty()) add_claimant(kept);
  return true;
}

const std::vector<const Target*>& targets() {
  static const std::vector<const Target*> sorted = [] {
    std::vector<const Target*> found;
    for (const Target& t : all()) found.push_back(&t);
    std::ranges::sort(found, [](const Target* a, const Target* b) {
      return a->kind != b->kind ? a->kind < b->kind : a->name < b->name;
    });
    return found;
  }();
  return sorted;
}

const Target& find_target(const std::string& name) {
  std::vector<std::string> names;
  for (const Target* t : targets()) {
    if (t->name == name) return *t;
    names.push_back(t->name);
  }
  fail("[{}] name: got an unknown target, expected a registered one; try {}", name,
       nearest(name, names, "`workbench list`"));
}

}  // namespace wide
