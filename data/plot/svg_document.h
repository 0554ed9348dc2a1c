#pragma once
#include <string>
#include <vector>

#include "data/plot/figure.h"

namespace wide {

/// The figures below each other, split where they hold too many curves, as one SVG document: alone
/// (with the style sheet and `title` above) or as elements of a page.
std::string svg_document(const std::vector<Figure>& figures, const std::string& title,
                         const std::string& footer);
std::string svg_element(const Figure& figure);

}  // namespace wide
