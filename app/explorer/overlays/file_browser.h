#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"

namespace wide {

/// What somebody is asked for.
struct FileRequest {
  std::string title;
  std::string folder;                   // to begin in; "": where it was last
  std::string name;                     // proposed
  std::vector<std::string> extensions;  // only files that end so are shown; empty: all
  bool to_write = false;
  bool several = false;  // or a pattern such as "w*.safetensors"
  /// Gets what was chosen, a pattern as it stands. What it throws is shown, and nothing closes.
  std::function<void(const std::vector<std::string>& paths)> take;
  /// What these paths stand for, such as "64 checkpoints"; may throw.
  std::function<std::string(const std::vector<std::string>& paths)> count;
};

/// A dialog that asks for a file, or for several.
class FileBrowser {
 public:
  void ask(FileRequest request);
  bool is_open() const { return open_; }
  void draw(Ui& ui);

 private:
  struct Entry {
    std::string name;
    bool folder = false;
  };

  void go(const std::string& folder);
  void entries(Ui& ui);
  void choose(size_t index);
  void changed();
  void accept();
  std::vector<std::string> paths() const;

  FileRequest request_;
  bool open_ = false, fresh_ = false, preselect_ = false;
  std::string folder_, name_, error_, count_;
  std::vector<Entry> entries_;
  size_t others_ = 0;             // files that do not fit
  std::set<std::string> chosen_;  // of several, by clicks
  size_t last_ = 0;               // clicked, for a click with Shift
};

}  // namespace wide
