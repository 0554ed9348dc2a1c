#include "engine/train/optimizer/optimizer.h"

#include <algorithm>

#include "engine/error.h"
#include "engine/program/registry.h"

namespace wide {
int64_t Optimizer::index(const std::string& hyperparameter) const {
  for (size_t i = 0; i < hyperparameters.size(); ++i)
    if (hyperparameters[i].name == hyperparameter) return static_cast<int64_t>(i);
  return -1;
}

int64_t Optimizer::counted_with() const {
  const bool one = std::ranges::all_of(
      state, [&](const OptimizerState& s) { return s.only_with == state.front().only_with; });
  return one && !state.empty() ? index(state.front().only_with) : -1;
}

bool add_optimizer(Optimizer optimizer, const char* file) {
  WIDE_ASSERT(optimizer.index("lr") == 0 && optimizer.index("weight_decay") > 0,
              "{} lacks lr or weight_decay", optimizer.name);
  optimizer.file = file;
  return enter(std::move(optimizer), &Optimizer::name);
}

const std::vector<Optimizer>& optimizers() { return registry<Optimizer>(); }

const Optimizer& optimizer(const std::string& name) {
  for (const Optimizer& o : optimizers())
    if (o.name == name) return o;
  const std::vector<std::string> names = names_of(optimizers());
  fail("[train] optimizer: got {}, expected one of {}; try {}", name, fmt::join(names, ", "),
       nearest(name, names, default_optimizer(DefaultOf::training).name));
}

const Optimizer& default_optimizer(DefaultOf use) {
  const Optimizer* found = nullptr;
  for (const Optimizer& o : optimizers()) {
    if (o.default_of != use) continue;
    WIDE_ASSERT(!found, "{} and {} are both the default", found->name, o.name);
    found = &o;
  }
  WIDE_ASSERT(found, "no optimiser is registered as the default");
  return *found;
}

}  // namespace wide
