#pragma once
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

/// `text` in lines not wider than `width`.
std::vector<std::string> wrap(const Canvas& canvas, const std::string& text, const TextStyle& style,
                              double width);
/// `text`, or its beginning and an ellipsis.
std::string shorten(const Canvas& canvas, const std::string& text, const TextStyle& style,
                    double width);

}  // namespace wide
