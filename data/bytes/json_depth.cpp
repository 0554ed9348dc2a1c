#include "data/bytes/json_depth.h"

#include "engine/error.h"

namespace wide {

void check_json_depth(std::string_view text, const std::string& file) {
  constexpr int kDeepest = 100;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > kDeepest)
      fail(
          "[{}] JSON: got more than {} levels, expected fewer; try a file that the workbench wrote",
          file, kDeepest);
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
}

}  // namespace wide
