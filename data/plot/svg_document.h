#pragma once
#include <string>
#include <vector>

#include "data/plot/figure.h"

namespace wide {

inline constexpr double kDocumentWidth = 800;

/// The figures below each other, split where they hold too many curves, and a line on where they
/// are from; returns the height taken.
double draw_document(Canvas& canvas, const std::vector<Figure>& figures, const std::string& title,
                     const std::string& footer);

/// That as one SVG document: alone (with the style sheet) or one figure as an element of a page.
std::string svg_document(const std::vector<Figure>& figures, const std::string& title,
                         const std::string& footer);
std::string svg_element(const Figure& figure);

}  // namespace wide
