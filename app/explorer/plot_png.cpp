#include "app/explorer/plot_png.h"

#include <cmath>

#include "app/explorer/ui/draw_canvas.h"
#include "app/explorer/window/png.h"
#include "app/explorer/window/raster.h"
#include "data/plot/svg_document.h"

namespace wide {
namespace {

constexpr float kScale = 1.5;  // pixels a unit
constexpr float kTall = 1e6;   // units: taller than any document

}  // namespace

std::string plot_png(const std::vector<Figure>& figures, const std::string& title,
                     const std::string& footer) {
  Ui ui;
  ui.set_look(false, kScale);
  Input input;
  const auto width = std::round(ui.px(static_cast<float>(kDocumentWidth)));
  // The first pass measures the height of the document; the second draws it in an image of that.
  float height = ui.px(kTall);
  for (int pass = 0; pass < 2; ++pass) {
    ui.begin_frame(input, width, height, 1);
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({width, height});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 0);
    ImGui::Begin("plots", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoBackground |
                     ImGuiWindowFlags_NoInputs | ImGuiWindowFlags_NoSavedSettings);
    ImGui::PopStyleVar(2);
    DrawCanvas canvas(ui, *ImGui::GetWindowDrawList(), {0, 0});
    height = std::ceil(ui.px(static_cast<float>(draw_document(canvas, figures, title, footer))));
    ImGui::End();
    ui.end_frame();
  }
  return png_bytes(rasterise(*ImGui::GetDrawData(), colour4(ui.theme().plot.paper)));
}

}  // namespace wide
