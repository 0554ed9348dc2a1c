#include "engine/lower/compile_options.h"

#include "engine/error.h"

namespace wide {

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::eager:
      return "eager";
    case Mode::default_:
      return "default";
    case Mode::reduce_overhead:
      return "reduce-overhead";
    case Mode::max_autotune:
      return "max-autotune";
  }
  return "?";
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
