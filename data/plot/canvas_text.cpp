#include "data/plot/canvas_text.h"

namespace wide {
namespace {

/// The position behind the UTF-8 character at `at`, so that text is cut between characters.
size_t next_character(const std::string& text, size_t at) {
  ++at;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

std::vector<std::string> wrap(const Canvas& canvas, const std::string& text, const TextStyle& style,
                              double width) {
  std::vector<std::string> lines;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && canvas.text_width(longer, style) > width) {
      lines.push_back(line);
      line = word;
    } else {
      line = longer;
    }
    // A word wider than a line is broken inside.
    while (canvas.text_width(line, style) > width) {
      size_t fits = next_character(line, 0);
      for (size_t next = fits; next < line.size(); next = next_character(line, next)) {
        if (canvas.text_width(line.substr(0, next), style) > width) break;
        fits = next;
      }
      if (fits >= line.size()) break;
      lines.push_back(line.substr(0, fits));
      line.erase(0, fits);
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string shorten(const Canvas& canvas, const std::string& text, const TextStyle& style,
                    double width) {
  if (canvas.text_width(text, style) <= width) return text;
  size_t fits = 0;
  for (size_t next = next_character(text, 0); next < text.size(); next = next_character(text, next))
    if (canvas.text_width(text.substr(0, next) + "...", style) <= width)
      fits = next;
    else
      break;
  return text.substr(0, fits) + "...";
}

}  // namespace wide
