#include "data/plot/svg_document.h"

#include "data/plot/canvas_text.h"
#include "data/plot/figure_draw.h"
#include "data/plot/svg.h"

namespace wide {
namespace {

constexpr double kWidth = kDocumentWidth, kGap = 20;

double draw_all(Canvas& canvas, const Figure& figure, double y) {
  const Limits limits = limits_of(figure);
  for (const Figure& part : split(figure)) y += draw(canvas, part, limits, 0, y, kWidth) + kGap;
  return y;
}

}  // namespace

double draw_document(Canvas& canvas, const std::vector<Figure>& figures, const std::string& title,
                     const std::string& footer) {
  const TextStyle small{{Tone::muted}, 10.5};
  double y = 12;
  for (const Figure& figure : figures) y = draw_all(canvas, figure, y);
  canvas.line({10, y - 8}, {kWidth - 10, y - 8}, {{Tone::grid}, 1});
  for (const std::string& line : wrap(canvas, title + " · " + footer, small, kWidth - 20)) {
    canvas.text({10, y + 8}, line, small);
    y += 15;
  }
  return y + 12;
}

std::string svg_document(const std::vector<Figure>& figures, const std::string& title,
                         const std::string& footer) {
  SvgCanvas canvas(kWidth, 0);
  canvas.set_height(draw_document(canvas, figures, title, footer));
  return canvas.document(title);
}

std::string svg_element(const Figure& figure) {
  SvgCanvas canvas(kWidth, 0);
  canvas.set_height(draw_all(canvas, figure, 0) - kGap);
  return canvas.element(figure.title + " " + figure.subtitle);
}

}  // namespace wide
