#include "data/reports/apart.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace wide {

Apart::Apart(const std::vector<Case>& cases) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string, std::string,
                      int64_t>,
           std::string>
      machine_of;
  std::vector<std::string> machines;
  for (const Case& c : cases) {
    machines.push_back(c.machine);
    if (c.machine.empty()) continue;
    const auto [at, fresh] = machine_of.try_emplace(
        {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n}, c.machine);
    each_ |= at->second != c.machine;
  }
  take(machines);
}

Apart::Apart(const std::vector<std::string>& machines, bool each) : each_(each) { take(machines); }

void Apart::take(const std::vector<std::string>& machines) {
  bool unknown = false;
  for (const std::string& machine : machines) {
    unknown |= machine.empty();
    const std::string name = each_ ? machine : hardware_of(machine);
    if (!name.empty() && std::find(names_.begin(), names_.end(), name) == names_.end())
      names_.push_back(name);
  }
  // A case of unknown machine belongs to the only machine, if there is one only.
  if (names_.empty() || (unknown && names_.size() > 1)) names_.emplace_back();
}

size_t Apart::number(const std::string& machine) const {
  if (names_.size() == 1) return 0;
  const auto at = std::find(names_.begin(), names_.end(), each_ ? machine : hardware_of(machine));
  return at == names_.end() ? 0 : static_cast<size_t>(at - names_.begin());
}

}  // namespace wide
