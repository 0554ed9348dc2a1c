#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace wide {

enum class StoreChange {
  none,
  written,   // by whichever process
  replaced,  // another file has its name
  gone,
  appeared
};

/// Looks at the store's file about once a second, without opening it: what other programs do to it.
class StoreWatch {
 public:
  explicit StoreWatch(std::string path);
  /// What has happened since the last look; `none` too where it is too early for another one.
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
