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

std::string Keeper::begin_run(const nlohmann::ordered_json& document, const std::string& run,
                              int64_t step) {
  return store_->begin_run(document, run, step);
}

void Keeper::tell_run(const nlohmann::ordered_json& rows) { store_->add_run_rows(rows); }

std::vector<int64_t> Keeper::take_stops(const std::string& run) { return store_->take_stops(run); }

void Keeper::end_run(const std::string& run, const nlohmann::ordered_json& document) {
  store_->end_run(run, document);
}

Keeper& keeper() { return *current(); }

void set_keeper(std::unique_ptr<Keeper> keeper) { current() = std::move(keeper); }

}  // namespace wide
