#pragma once
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/report.h"

namespace wide {

struct FigureOptions {
  bool over_loop = false;  // instead of over the best baseline
  Measure measure = Measure::speedup;
  bool published = false;  // with what others published as a dashed reference
};

/// One figure for cases that differ in N, mode and strategy only, in the report's order. The
/// crossover is always against the best baseline.
std::vector<Figure> figures_of(const std::vector<Case>& cases, const FigureOptions& options);

/// What was published for a target elsewhere, or none.
std::optional<PublishedLine> published_line(const std::string& target);

/// The figures below each other, split where they hold too many curves, as one SVG document: alone
/// (with the style sheet and `title` above) or as elements of a page.
std::string svg_document(const std::vector<Figure>& figures, const std::string& title,
                         const std::string& footer);
std::string svg_element(const Figure& figure);

}  // namespace wide
