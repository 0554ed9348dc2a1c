#include "app/explorer/ui/samples.h"

#include <imgui.h>

#include <algorithm>

#include "app/explorer/ui/draw_canvas.h"

namespace wide {

Histogram histogram_of(const std::vector<double>& samples_ns, int bins) {
  Histogram h;
  if (samples_ns.empty() || bins < 1) return h;
  const auto [low, high] = std::minmax_element(samples_ns.begin(), samples_ns.end());
  h.low_ns = *low;
  h.high_ns = *high;
  h.counts.assign(static_cast<size_t>(bins), 0);
  const double step = (h.high_ns - h.low_ns) / bins;
  for (const double s : samples_ns) {
    const int bin = step > 0 ? static_cast<int>((s - h.low_ns) / step) : 0;
    ++h.counts[static_cast<size_t>(std::clamp(bin, 0, bins - 1))];
  }
  return h;
}

void draw_samples(Ui& ui, const Timing& t, float width, float height) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(at, {at.x + width, at.y + height}, colour(ui.theme().window), ui.px(4));
  const float strip = width * 0.66f, pad = ui.px(8);
  const Histogram h = histogram_of(t.samples_ns, 14);
  const double span = std::max(h.high_ns - h.low_ns, 1e-9 * h.high_ns);
  const auto y = [&](double ns) {
    return at.y + height - pad - static_cast<float>((ns - h.low_ns) / span) * (height - 2 * pad);
  };
  list.AddRectFilled({at.x + pad, y(t.q3_ns)}, {at.x + strip, y(t.q1_ns)},
                     colour(ui.theme().accent, 0.12));
  list.AddLine({at.x + pad, y(t.median_ns)}, {at.x + strip, y(t.median_ns)},
               colour(ui.theme().accent, 0.7), ui.px(1));
  constexpr size_t kMost = 2000;  // more than a strip has pixels
  const size_t step = std::max<size_t>(1, t.samples_ns.size() / kMost);
  for (size_t i = 0; i < t.samples_ns.size(); i += step) {
    const float x = at.x + pad +
                    (strip - 2 * pad) * static_cast<float>(i) /
                        static_cast<float>(std::max<size_t>(1, t.samples_ns.size() - 1));
    list.AddRectFilled({x - ui.px(1.2f), y(t.samples_ns[i]) - ui.px(1.2f)},
                       {x + ui.px(1.2f), y(t.samples_ns[i]) + ui.px(1.2f)},
                       colour(ui.theme().plot.series[0]));
  }
  const int most = *std::max_element(h.counts.begin(), h.counts.end());
  const float bin = (height - 2 * pad) / static_cast<float>(h.counts.size());
  for (size_t b = 0; b < h.counts.size(); ++b) {
    const float length =
        (width - strip - 2 * pad) * static_cast<float>(h.counts[b]) / static_cast<float>(most);
    const float bottom = at.y + height - pad - static_cast<float>(b) * bin;
    list.AddRectFilled({at.x + strip + pad, bottom - bin + 1},
                       {at.x + strip + pad + length, bottom},
                       colour(ui.theme().plot.series[0], 0.6));
  }
  ImGui::Dummy({width, height});
  ui.note_last(ItemKind::area, "samples");
}

}  // namespace wide
