#pragma once
#include <string>
#include <vector>

#include "data/plot/figure.h"

namespace wide {

inline constexpr double kDocumentWidth = 800;

/// Draws title, figures below each other (split if they have too many curves) and footer; returns
/// the height. Called for SVG files and for the explorer's PNGs.
double draw_document(Canvas& canvas, const std::vector<Figure>& figures, const std::string& title,
                     const std::string& footer);

/// The figures as an SVG file with its style sheet; or one figure as an element of an HTML report.
std::string svg_document(const std::vector<Figure>& figures, const std::string& title,
                         const std::string& footer);
std::string svg_element(const Figure& figure);

}  // namespace wide
