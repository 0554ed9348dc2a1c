#include "app/results/keeper.h"

#include <nlohmann/json.hpp>

#include "app/results/stored_tuning.h"
#include "data/store/store.h"

namespace wide {
namespace {

std::unique_ptr<Keeper>& current() {
  static std::unique_ptr<Keeper> keeper = std::make_unique<Keeper>();
  return keeper;
}

}  // namespace

Keeper::Keeper() = default;

Keeper::~Keeper() = default;

void Keeper::open(const std::string& db) {
  store_ = std::make_unique<Store>(Store::create(db));
  use_stored_tuning(db);
}

void Keeper::add(const nlohmann::ordered_json& fusion) { store_->add_fuse_document(fusion); }

Keeper& keeper() { return *current(); }

void set_keeper(std::unique_ptr<Keeper> keeper) { current() = std::move(keeper); }

}  // namespace wide
