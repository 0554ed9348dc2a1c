#include "app/sweep/user_network.h"

#include <deque>
#include <filesystem>
#include <mutex>

#include "data/checkpoints/checkpoint_search.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

struct UserTarget {
  PresetNetwork network;
  Target target;
};

struct UserTargets {
  std::mutex mutex;
  std::deque<UserTarget> all;  // a deque, since cases point to its elements
};

UserTargets& user_targets() {
  static UserTargets targets;
  return targets;
}

Target made_of(const PresetNetwork& network) {
  Target t;
  t.kind = Kind::model;
  t.name = std::filesystem::path(network.file).filename().string();
  t.network = [name = t.name](const Shape&) -> Network {
    fail("[{}] network: got a file, which is opened where the case runs, expected a registered one",
         printable(name));
  };
  const auto files = static_cast<int64_t>(
      network.weights.empty() ? 0 : find_checkpoints(network.weights).files.size());
  for (const char* sweep : {"quick", "full", "ci", "suite"})
    t.sweeps[sweep] = {files > 0 ? std::vector{files} : std::vector<int64_t>{4, 16, 64}, {Shape{}}};
  return t;
}

}  // namespace

const Target& user_target(const PresetNetwork& network) {
  UserTargets& known = user_targets();
  const std::lock_guard lock(known.mutex);
  for (const UserTarget& t : known.all)
    if (t.network == network) return t.target;
  return known.all.emplace_back(UserTarget{network, made_of(network)}).target;
}

const PresetNetwork* user_network(const Target& target) {
  UserTargets& known = user_targets();
  const std::lock_guard lock(known.mutex);
  for (const UserTarget& t : known.all)
    if (&t.target == &target) return &t.network;
  return nullptr;
}

const Target& find_sweep_target(const std::string& name) {
  {
    UserTargets& known = user_targets();
    const std::lock_guard lock(known.mutex);
    for (auto t = known.all.rbegin(); t != known.all.rend(); ++t)
      if (t->target.name == name) return t->target;
  }
  return find_target(name);
}

}  // namespace wide
