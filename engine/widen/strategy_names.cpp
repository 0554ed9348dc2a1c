#include "engine/widen/strategy_names.h"

#include <algorithm>
#include <vector>

#include "engine/error.h"
#include "engine/widen/rule.h"

namespace wide {

void check_strategy_names(const std::map<std::string, std::string>& strategies) {
  for (const auto& [name, strategy] : strategies) {
    std::vector<std::string> names{"*"}, ways;
    for (const Rule* rule : claimants()) {
      names.push_back(rule->name);
      if (rule->name != name) continue;
      for (const Strategy& s : rule->strategies) ways.push_back(s.name);
    }
    if (std::ranges::find(names, name) == names.end())
      fail("[strategies] primitive: got {}, expected a registered one; try {}", name,
           nearest(name, names, "workbench list primitives"));
    ways.insert(ways.end(), {"vmap", "per_model"});
    if (std::ranges::find(ways, strategy) == ways.end())
      fail("[strategies] {}: got {}, expected one of {}; try {}", name, strategy,
           fmt::join(ways, ", "), ways.front());
  }
}

}  // namespace wide
