#include "engine/passes/pass.h"

#include <algorithm>

namespace wide {

namespace {
std::vector<Pass>& all() {
  static std::vector<Pass> passes;
  return passes;
}
}  // namespace

bool add_pass(Pass pass) {
  all().push_back(std::move(pass));
  return true;
}

std::vector<const Pass*> passes() {
  std::vector<const Pass*> sorted;
  for (const Pass& p : all()) sorted.push_back(&p);
  std::sort(sorted.begin(), sorted.end(), [](const Pass* a, const Pass* b) {
    return a->order != b->order ? a->order < b->order : a->name < b->name;
  });
  return sorted;
}

}  // namespace wide
