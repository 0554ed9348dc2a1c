#pragma once
#include <functional>
#include <map>
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

/// The whole of the explorer but the window: what is stored, what runs, and the panels.
class Explorer {
 public:
  Explorer(std::string db, Settings settings);
  ~Explorer();

  Jobs jobs;
  Library library;
  RunModel run;
  TrainingModel training;
  Settings settings;
  ActionPalette palette;
  KeySheet keys;
  FileBrowser files;

  /// Draws everything. `whole` false: only the panel that is shown in the middle.
  void draw(Ui& ui, bool whole = true);
  /// Before each frame: hands over what jobs have found out. True when something changed.
  bool update();
  /// Whether other programs have done something to the store that `update` will tell.
  bool look_at_store();
  /// Whether a panel is seen that shows what other processes do at this time.
  bool watching() const { return watching_; }

  /// Shows a panel by its name; false where there is none.
  bool show(const std::string& panel);
  const std::string& shown(Place place) { return shown_[place]; }

  /// One line at the bottom; `is_error`: something went wrong.
  void say(const std::string& line, bool is_error = false);
  const std::string& said() const { return said_; }

  /// Asks for a file to write, then does it. `kind`: "SVG".
  void save_as(const std::string& kind, const std::string& name,
               std::function<void(const std::string& path)> write);
  /// Makes a file's text elsewhere and writes it.
  void write_later(const std::string& path, std::function<std::string()> text);
  /// Two entries of an open menu: the plot in `box` as PNG, and `figure` as SVG, with `footer`
  /// saying where its numbers are from.
  void plot_entries(Ui& ui, const Figure& figure, const Box& box, const std::string& name,
                    const std::string& footer);
  /// Files that were dropped on the window: the first panel that takes them gets them.
  void drop(const std::vector<std::string>& paths);
  /// The next frame is written as a picture, cut to `box` in pixels (empty: all of it).
  void take_picture(const std::string& path, const Box& box);

  struct Picture {
    std::string path;
    Box box;
  };
  std::vector<Picture> pictures;  // for whoever shows frames
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
  uint64_t stored_ = 0;
  StoreWatch watch_;
  StoreChange change_ = StoreChange::none;  // seen, and not told yet
};

}  // namespace wide
