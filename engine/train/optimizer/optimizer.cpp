#include "engine/train/optimizer/optimizer.h"

#include <algorithm>

#include "engine/error.h"

namespace wide {
namespace {

std::vector<Optimizer>& known_optimizers() {
  static std::vector<Optimizer> all;
  return all;
}

}  // namespace

int64_t Optimizer::index(const std::string& hyperparameter) const {
  for (size_t i = 0; i < hyperparameters.size(); ++i)
    if (hyperparameters[i].name == hyperparameter) return static_cast<int64_t>(i);
  return -1;
}

bool add_optimizer(Optimizer optimizer, const char* file) {
  WIDE_ASSERT(optimizer.index("lr") == 0 && optimizer.index("weight_decay") > 0,
              "{} lacks lr or weight_decay", optimizer.name);
  optimizer.file = file;
  known_optimizers().push_back(std::move(optimizer));
  return true;
}

const std::vector<const Optimizer*>& optimizers() {
  static const std::vector<const Optimizer*> sorted = [] {
    std::vector<const Optimizer*> all;
    for (const Optimizer& o : known_optimizers()) all.push_back(&o);
    std::sort(all.begin(), all.end(),
              [](const auto* a, const auto* b) { return a->name < b->name; });
    return all;
  }();
  return sorted;
}

const Optimizer& optimizer(const std::string& name) {
  std::vector<std::string> names;
  for (const Optimizer* o : optimizers()) {
    if (o->name == name) return *o;
    names.push_back(o->name);
  }
  const std::string near = nearest(name, names);
  fail("[train] optimizer: got {}, expected one of {}; try {}", name, fmt::join(names, ", "),
       near.empty() ? default_optimizer(DefaultOf::training).name : near);
}

const Optimizer& default_optimizer(DefaultOf use) {
  const Optimizer* found = nullptr;
  for (const Optimizer* o : optimizers()) {
    if (o->default_of != use) continue;
    WIDE_ASSERT(!found, "{} and {} are both the default", found->name, o->name);
    found = o;
  }
  WIDE_ASSERT(found, "no optimiser is registered as the default");
  return *found;
}

}  // namespace wide
