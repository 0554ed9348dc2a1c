#pragma once
#include <string>
#include <vector>

#include "data/plot/figure.h"

namespace wide {

/// The same plots as `svg_document`, in light colours, as the bytes of a PNG file. Needs neither a
/// display nor OpenGL.
std::string plot_png(const std::vector<Figure>& figures, const std::string& title,
                     const std::string& footer);

}  // namespace wide
