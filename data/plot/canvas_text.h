#pragma once
#include <string>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

/// Breaks `text` into lines that are not wider than `width`.
std::vector<std::string> wrap(const Canvas& canvas, const std::string& text, const TextStyle& style,
                              double width);
/// `text`, shortened with an ellipsis if it is too wide.
std::string shorten(const Canvas& canvas, const std::string& text, const TextStyle& style,
                    double width);

}  // namespace wide
