#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>

#include "app/cli.h"
#include "app/explorer/driver.h"
#include "app/explorer/window/png.h"
#include "app/explorer/window/raster.h"
#include "app/explorer/window/window.h"
#include "app/results/results.h"
#include "app/sandbox/output_files.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::explorer_command {
namespace {

/// `workbench explorer`: opens the window, writes a picture of one view (`--screenshot`), or runs a
/// test script. Exit codes: 2 for an unknown view, sweep or target, 6 where there is no display.
class ExplorerCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
    app.add_option("--screenshot", screenshot_, "write a PNG of one view; needs no display");
    app.add_option("--view", view_, "which: " + listing(views(), 99));
    app.add_option("--open", open_, "the sweep to show: a number, a name or last");
    app.add_option("--targets", target_, "the target to plot");
    app.add_option("--size", size_, "of the window or picture, in pixels")->capture_default_str();
    app.add_option("--scale", scale_, "size of text and all else: 0.75 to 2")
        ->check(CLI::Range(0.75, 2.0));
    app.add_flag("--dark", dark_, "dark colours");
    app.add_option("--script", script_, "for tests: clicks and keys, one a line; then it ends")
        ->group("");
  }

  int run() override {
    check_apart({{"--screenshot", screenshot_}}, {}, db_);
    open_devices({"auto"});
    const auto [width, height] = size();
    const std::optional<Place> place = place_of_view();
    const bool picture = !screenshot_.empty();
    const std::string remembered = picture ? "" : settings_path();
    Settings settings = load_settings(remembered);
    if (!size_.empty()) {
      settings.width = width;
      settings.height = height;
    }
    if (dark_) settings.dark = true;
    if (scale_ > 0) settings.scale = scale_;
    auto platform = picture ? picture_platform(settings.width, settings.height)
                            : window_platform(settings.width, settings.height, size_.empty());
    Screen screen(std::move(platform), Store::path(db_), std::move(settings),
                  picture ? place : std::nullopt);
    if (place) screen.explorer().show(view_);
    Driver driver(screen);
    choose(screen, driver);
    if (picture) {
      driver.settle();
      if (const std::string& why = screen.explorer().library.unreadable(); !why.empty())
        throw Error(why, 1);
      write_png(screenshot_, screen.platform().pixels());
      return 0;
    }
    if (!script_.empty()) {
      std::ifstream file(script_);
      if (!file) fail("[{}] script: got no such file, expected one", printable(script_));
      driver.run_script(std::string(std::istreambuf_iterator<char>(file), {}));
      screen.remember();
    } else {
      screen.loop();
    }
    save_settings(remembered, screen.explorer().settings);
    return 0;
  }

 private:
  static std::vector<std::string> views() {
    std::vector<std::string> names = {"window"};
    for (const PanelInfo& info : panels()) names.push_back(info.name);
    return names;
  }

  /// Where the panel of `--view` is shown; nullopt for the whole window.
  std::optional<Place> place_of_view() const {
    if (view_.empty() || view_ == "window") return std::nullopt;
    for (const PanelInfo& info : panels())
      if (info.name == view_) return info.place;
    const std::vector<std::string> known = views();
    fail("[--view] view: got {}, expected one of {}; try --view {}", printable(view_),
         listing(known, 99), nearest(view_, known, "plot"));
  }

  std::pair<int, int> size() const {
    if (size_.empty()) return {1280, 800};
    int width = 0, height = 0;
    char rest = 0;
    if (std::sscanf(size_.c_str(), "%dx%d%c", &width, &height, &rest) != 2 || width < 320 ||
        height < 200 || width > 16384 || height > 16384)
      fail("[--size] size: got {}, expected WIDTHxHEIGHT in pixels, at least 320x200; try 1280x800",
           printable(size_));
    return {width, height};
  }

  /// Opens the sweep of `--open` and selects the target of `--targets`.
  void choose(Screen& screen, Driver& driver) const {
    if (open_.empty() && target_.empty()) return;
    Library& library = screen.explorer().library;
    driver.settle();
    if (!open_.empty()) {
      Store store = Store::read(library.db());
      library.open_asked(find_stored(store, open_, library.db()));
      driver.settle();
    }
    if (target_.empty()) return;
    if (library.select_target(target_)) {
      if (view_.empty() || view_ == "window") screen.explorer().show("plot");
      return driver.settle();
    }
    std::vector<std::string> names;
    for (const Group& group : library.groups())
      if (names.empty() || names.back() != group.target) names.push_back(group.target);
    fail("[--targets] target: got {}, expected one of the sweep's, {}; try another --open",
         printable(target_), listing(names, 9));
  }

  std::string db_, screenshot_, view_, open_, target_, size_, script_;
  double scale_ = 0;
  bool dark_ = false;
};

const bool registered =
    add_command<ExplorerCommand>("explorer", "the desktop explorer; the same as no command");

}  // namespace
}  // namespace wide::explorer_command
