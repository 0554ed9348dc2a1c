#include "engine/widen/axes.h"

#include <map>

namespace wide {

namespace {

std::map<std::string, std::vector<OptionalAxis>>& all() {
  static std::map<std::string, std::vector<OptionalAxis>> axes;
  return axes;
}

}  // namespace

bool add_axes(const std::string& target, std::vector<OptionalAxis> axes) {
  all()[target] = std::move(axes);
  return true;
}

const std::vector<OptionalAxis>& axes_of(const std::string& target) {
  static const std::vector<OptionalAxis> none;
  const auto at = all().find(target);
  return at == all().end() ? none : at->second;
}

}  // namespace wide
