#include "app/explorer/screen.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "app/explorer/window/png.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

double thread_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// While a trial is being timed the window redraws by itself at most this often.
constexpr double kTimedPeriod_s = 0.25;
/// An idle window wakes up this often, to see what other processes have stored.
constexpr double kWatching_s = 1;

}  // namespace

double FrameTimes::percentile_ms(double share) const {
  if (work_ms.empty()) return 0;
  std::vector<double> sorted = work_ms;
  const auto at = static_cast<ptrdiff_t>(share * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
  return sorted[static_cast<size_t>(at)];
}

Screen::Screen(std::unique_ptr<Platform> platform, std::string db, Settings settings,
               std::optional<Place> only)
    : platform_(std::move(platform)),
      explorer_(std::move(db), std::move(settings)),
      only_(only),
      last_s_(now_s()) {
  if (!explorer_.settings.tables.empty())
    ImGui::LoadIniSettingsFromMemory(explorer_.settings.tables.data(),
                                     explorer_.settings.tables.size());
  explorer_.jobs.set_wake([this] { platform_->wake(); });
  explorer_.run.wake = [this] { platform_->wake(); };
  ui_.set_clipboard = [this](const std::string& text) { platform_->set_clipboard(text); };
  ui_.get_clipboard = [this] {
    const std::string text = platform_->get_clipboard();
    return text.empty() ? ui_.clipboard : text;
  };
}

void Screen::frame() {
  constexpr float kLeast = 100;  // pixels: a smaller window is minimised
  if (platform_->width() < kLeast || platform_->height() < kLeast) return;
  const double begun = now_s(), busy = thread_s();
  explorer_.update();
  const double user = explorer_.settings.scale;
  ui_.set_look(explorer_.settings.dark,
               static_cast<float>(user > 0 ? user : platform_->monitor_scale()));
  if (!input.dropped.empty()) explorer_.drop(input.dropped);
  ui_.begin_frame(input, platform_->width(), platform_->height(),
                  static_cast<float>(std::min(begun - last_s_, 0.5)));
  last_s_ = begun;
  explorer_.draw(ui_, only_);
  const ImGuiMouseCursor cursor = ImGui::GetMouseCursor();
  ui_.end_frame();
  platform_->set_cursor(cursor);
  platform_->draw(ImGui::GetDrawData(), ui_.font_version(), colour4(ui_.theme().window));
  times.work_ms.push_back(1e3 * (now_s() - begun));
  times.cpu_ms.push_back(1e3 * (thread_s() - busy));
  ++explorer_.run.frames;
  pictures();
  platform_->present();
}

void Screen::pictures() {
  if (explorer_.pictures.empty()) return;
  // Waits for frames without the dialog that asked for the picture.
  if (++picture_waited_ < 3) return;
  picture_waited_ = 0;
  const Pixels all = platform_->pixels();
  for (const Explorer::Picture& p : explorer_.pictures) {
    if (all.width == 0) {
      explorer_.say("there is no picture without a window; try SVG", true);
      break;
    }
    Pixels part = all;
    if (p.box.width > 0) {
      const int x = std::clamp(static_cast<int>(p.box.x), 0, all.width - 1);
      const int y = std::clamp(static_cast<int>(p.box.y), 0, all.height - 1);
      part.width = std::clamp(static_cast<int>(p.box.width), 1, all.width - x);
      part.height = std::clamp(static_cast<int>(p.box.height), 1, all.height - y);
      part.rgb.clear();
      for (int line = y; line < y + part.height; ++line) {
        const auto from = all.rgb.begin() + 3 * (line * all.width + x);
        part.rgb.insert(part.rgb.end(), from, from + 3 * part.width);
      }
    }
    try {
      write_png(p.path, part);
      explorer_.say("wrote " + p.path);
    } catch (const std::exception& e) {
      explorer_.say(e.what(), true);
    }
  }
  explorer_.pictures.clear();
}

void Screen::loop() {
  // ImGui's animations take a few frames after the last input.
  int restless = 3;
  double shown = 0;
  while (!platform_->closing() && !explorer_.quit) {
    const RunProgress progress = explorer_.run.progress();
    const bool timing = progress.timing, active = explorer_.run.active();
    double wait_s = restless > 0 ? 0 : kWatching_s;
    if (timing) wait_s = kTimedPeriod_s;
    if (!input.queue.empty() && !timing) wait_s = 0;
    const double waited_from = now_s();
    const bool acted = platform_->wait(input, wait_s);
    const bool woken = now_s() - waited_from < 0.9 * wait_s;  // by another thread
    // While a trial is timed, a mouse that only moves draws no frame before the period is over.
    const bool moved_only =
        !input.down[0] && !input.queue.empty() &&
        std::all_of(input.queue.begin(), input.queue.end(),
                    [](const InputEvent& e) { return e.kind == InputEvent::Kind::move; });
    const bool quiet = !acted && !woken && restless == 0 && input.queue.empty() && !timing &&
                       !active && !explorer_.watching() && !explorer_.jobs.busy();
    if (quiet && !explorer_.look_at_store()) continue;
    if (timing && (!acted || moved_only) && now_s() - shown < kTimedPeriod_s) continue;
    restless =
        acted || explorer_.jobs.busy() || !input.queue.empty() ? 3 : std::max(0, restless - 1);
    frame();
    shown = now_s();
  }
  remember();
}

void Screen::remember() {
  const float units = platform_->monitor_scale();
  explorer_.settings.width = static_cast<int>(std::lround(platform_->width() / units));
  explorer_.settings.height = static_cast<int>(std::lround(platform_->height() / units));
  size_t size = 0;
  const char* tables = ImGui::SaveIniSettingsToMemory(&size);
  explorer_.settings.tables.assign(tables, size);
}

}  // namespace wide
