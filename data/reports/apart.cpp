#include "data/reports/apart.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace wide {

Apart::Apart(const std::vector<Case>& cases) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string, std::string,
                      int64_t>,
           std::string>
      machines;
  bool unknown = false;
  for (const Case& c : cases) {
    unknown |= c.machine.empty();
    if (c.machine.empty()) continue;
    const auto [at, fresh] = machines.try_emplace(
        {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n}, c.machine);
    each_ |= at->second != c.machine;
  }
  for (const Case& c : cases) {
    const std::string name = each_ ? c.machine : hardware_of(c.machine);
    if (!name.empty() && std::find(names_.begin(), names_.end(), name) == names_.end())
      names_.push_back(name);
  }
  // One whose machine nobody noted is of the only one that there is.
  if (names_.empty() || (unknown && names_.size() > 1)) names_.emplace_back();
}

std::string Apart::of(const Case& c) const { return names_[number(c)]; }

size_t Apart::number(const Case& c) const {
  if (names_.size() == 1) return 0;
  const auto at =
      std::find(names_.begin(), names_.end(), each_ ? c.machine : hardware_of(c.machine));
  return at == names_.end() ? 0 : static_cast<size_t>(at - names_.begin());
}

}  // namespace wide
