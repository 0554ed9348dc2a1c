#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace wide {

enum class StoreChange {
  none,
  written,   // by any process
  replaced,  // another file is at its path
  gone,
  appeared
};

/// Notices changes of the store about once a second, by the file's size and time.
class StoreWatch {
 public:
  explicit StoreWatch(std::string path);
  /// The change since the last look; `none` also if it is too early for another look.
  StoreChange look(double now_s);

 private:
  struct Seen {
    bool there = false;
    uint64_t device = 0, file = 0;
    std::array<int64_t, 4> state{};  // size and time of the store and of its log
    bool operator==(const Seen&) const = default;
  };
  Seen see() const;

  std::string path_;
  Seen seen_;
  double next_s_ = 0;
};

}  // namespace wide
