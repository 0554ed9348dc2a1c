#include "app/results/keeper.h"

#include <poll.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "app/results/stored_tuning.h"
#include "data/store/store.h"

namespace wide {
namespace {

std::unique_ptr<Keeper>& current() {
  static std::unique_ptr<Keeper> keeper = std::make_unique<Keeper>();
  return keeper;
}

/// Whether standard output is a pipe whose other end is closed.
bool nobody_reads() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace

Keeper::Keeper() = default;

Keeper::~Keeper() = default;

void Keeper::open(const std::string& db) {
  store_ = std::make_unique<Store>(Store::create(db));
  use_stored_tuning(db);
}

void Keeper::add(const nlohmann::ordered_json& fusion) { store_->add_fuse(fusion); }

std::string Keeper::begin_run(const nlohmann::ordered_json& document, const std::string& run,
                              int64_t step) {
  return store_->begin_run(document, run, step);
}

void Keeper::tell_run(const nlohmann::ordered_json& rows) { store_->add_run_rows(rows); }

std::vector<RunRequest> Keeper::take_requests(const std::string& run, int64_t step, bool waits) {
  std::vector<RunRequest> all = store_->take_requests(run, step);
  if (all.empty() && waits && nobody_reads()) all.emplace_back().what = "stop";
  return all;
}

void Keeper::end_run(const std::string& run, const nlohmann::ordered_json& document) {
  store_->end_run(run, document);
}

Keeper& keeper() { return *current(); }

void set_keeper(std::unique_ptr<Keeper> keeper) { current() = std::move(keeper); }

}  // namespace wide
