#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/explorer/models/library.h"
#include "app/explorer/models/store_watch.h"
#include "app/explorer/models/training/training.h"
#include "app/explorer/models/trials/run.h"
#include "app/explorer/overlays/action_palette.h"
#include "app/explorer/overlays/file_browser.h"
#include "app/explorer/panel.h"
#include "app/explorer/settings.h"
#include "app/explorer/ui/ui.h"

namespace wide {

/// The whole explorer except the window: stored results, running jobs, and the panels.
class Explorer {
 public:
  Explorer(std::string db, Settings settings);

  Jobs jobs;
  Library library;
  RunModel run;
  TrainingModel training;
  Settings settings;
  ActionPalette palette;
  KeySheet keys;
  FileBrowser files{jobs};

  /// Draws everything, or only the panel that is shown in one place.
  void draw(Ui& ui, std::optional<Place> only = {});
  /// Before each frame: delivers the results of jobs. True if something changed.
  bool update();
  /// Whether other programs changed the store; the next `update` handles it.
  bool look_at_store();
  /// Whether a visible panel shows other processes that go on.
  bool watching() const { return watching_; }

  /// Shows a panel by its name; false if there is no such panel.
  bool show(const std::string& panel);
  const std::string& shown(Place place) { return shown_[place]; }

  /// The scale that the last frame was drawn with.
  double scale() const { return scale_; }

  /// Shows a line at the bottom of the window.
  void say(const std::string& line, bool is_error = false);
  const std::string& said() const { return said_; }

  /// Asks for a file name, then writes the file. `kind`: such as "SVG".
  void save_as(const std::string& kind, const std::string& name,
               std::function<void(const std::string& path)> write);
  /// Makes a file's text in a job and writes it.
  void write_later(const std::string& path, std::function<std::string()> text);
  /// Adds two entries to an open menu: save the plot in `box` as PNG, and `figure` as SVG, with the
  /// source of its numbers as `footer`.
  void plot_entries(Ui& ui, const Figure& figure, const Box& box, const std::string& name,
                    const std::string& footer);
  /// Handles files dropped on the window: the first panel that accepts them gets them.
  void drop(const std::vector<std::string>& paths);
  /// Writes the next frame as a picture, cut to `box` in pixels (empty: all of it).
  void take_picture(const std::string& path, const Box& box);

  struct Picture {
    std::string path;
    Box box;
  };
  std::vector<Picture> pictures;  // pictures to write, for the screen
  bool quit = false;

 private:
  void header(Ui& ui);
  void header_sweep(Ui& ui, float room);
  void tell_store_change(StoreChange change);
  void place(Ui& ui, Place place, float x, float y, float width, float height);
  void tabs(Ui& ui, Place place, float width);
  void strip(Ui& ui, Place place, float x, float y, float width, float height);
  void fold(Place place, bool folded);
  void splitter(Ui& ui, const char* name, float x, float y, float width, float height, float shown,
                double* units, int sign);
  void footer(Ui& ui, float y, float width, float height);

  std::map<std::string, std::unique_ptr<Panel>> panels_;
  std::map<Place, std::string> shown_;
  std::string said_;
  bool said_error_ = false, watching_ = false, unfocus_ = false;
  double scale_ = 1;
  uint64_t stored_ = 0;
  StoreWatch watch_;
  StoreChange change_ = StoreChange::none;  // noticed, not yet handled by `update`
};

}  // namespace wide
