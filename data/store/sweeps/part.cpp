#include "data/store/sweeps/part.h"

#include <fmt/format.h>

#include <charconv>

#include "data/text.h"
#include "engine/error.h"

namespace wide {

std::string Part::text() const { return fmt::format("{}/{}", number, count); }

Part parse_part(const std::string& text) {
  const auto whole = [](std::string_view digits) {
    int64_t number = 0;
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, number);
    return error == std::errc() && at == end ? number : 0;
  };
  const size_t slash = text.find('/');
  const std::string_view all = text;
  Part part{0, 0};
  if (slash != std::string::npos)
    part = {whole(all.substr(0, slash)), whole(all.substr(slash + 1))};
  if (part.number < 1 || part.number > part.count)
    fail("[--part] part: got {}, expected K/N with K from 1 to N; try 1/4",
         text.empty() ? "nothing" : printable(text));
  return part;
}

}  // namespace wide
