#include "data/store/sweeps/part.h"

#include <fmt/format.h>

#include "data/text.h"
#include "engine/error.h"

namespace wide {

std::string Part::text() const { return fmt::format("{}/{}", number, count); }

Part parse_part(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string_view all = text;
  Part part{0, 0};
  if (slash != std::string::npos)
    part = {whole_number(all.substr(0, slash)).value_or(0),
            whole_number(all.substr(slash + 1)).value_or(0)};
  if (part.number < 1 || part.number > part.count)
    fail("[--part] part: got {}, expected K/N with K from 1 to N; try 1/4",
         text.empty() ? "nothing" : printable(text));
  return part;
}

}  // namespace wide
