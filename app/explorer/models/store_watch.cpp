#include "app/explorer/models/store_watch.h"

#include <sys/stat.h>

#include <utility>

namespace wide {
namespace {

constexpr double kLookAgain_s = 0.8;

}  // namespace

StoreWatch::StoreWatch(std::string path) : path_(std::move(path)), seen_(see()) {}

StoreWatch::Seen StoreWatch::see() const {
  Seen seen;
  struct stat file {};
  if (stat(path_.c_str(), &file) != 0) return seen;
  seen.there = true;
  seen.device = file.st_dev;
  seen.file = file.st_ino;
  const auto time_of = [](const struct stat& of) {
    return int64_t{of.st_mtim.tv_sec} * 1'000'000'000 + of.st_mtim.tv_nsec;
  };
  seen.state[0] = file.st_size;
  seen.state[1] = time_of(file);
  // Readers create an empty log too, which means no change.
  if (stat((path_ + "-wal").c_str(), &file) == 0 && file.st_size > 0) {
    seen.state[2] = file.st_size;
    seen.state[3] = time_of(file);
  }
  return seen;
}

StoreChange StoreWatch::look(double now_s) {
  if (now_s < next_s_) return StoreChange::none;
  next_s_ = now_s + kLookAgain_s;
  const Seen before = std::exchange(seen_, see());
  if (seen_ == before) return StoreChange::none;
  if (!seen_.there) return StoreChange::gone;
  if (!before.there) return StoreChange::appeared;
  return seen_.file != before.file || seen_.device != before.device ? StoreChange::replaced
                                                                    : StoreChange::written;
}

}  // namespace wide
