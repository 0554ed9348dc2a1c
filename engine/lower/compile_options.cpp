#include "engine/lower/compile_options.h"

#include "engine/error.h"

namespace wide {

const char* to_string(Mode mode) {
  constexpr const char* kNames[] = {"eager", "default", "reduce-overhead", "max-autotune"};
  return kNames[static_cast<size_t>(mode)];
}

Mode parse_mode(const std::string& name) {
  for (const Mode m : kModes)
    if (name == to_string(m)) return m;
  fail(
      "[--mode] name: got {}, expected eager, default, reduce-overhead or max-autotune; "
      "try default",
      name);
}

}  // namespace wide
