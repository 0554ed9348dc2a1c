#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/explorer/models/jobs.h"
#include "app/explorer/ui/ui.h"

namespace wide {

/// A request for one or several files.
struct FileRequest {
  std::string title;
  std::string folder;                   // the folder to start in; "": the last one
  std::string name;                     // proposed
  std::vector<std::string> extensions;  // only files with these endings are shown; empty: all
  bool to_write = false;                // one file; asks first if it would replace one
  std::string store;                    // to write: the results store, which no file replaces
  bool several = false;                 // several files, or a pattern such as "w*.safetensors"
  /// Called with the chosen paths or pattern. An exception is shown and keeps the dialog open.
  std::function<void(const std::vector<std::string>& paths)> take;
  /// Describes the chosen paths, such as "64 checkpoints"; called by jobs. If it throws, the paths
  /// are not taken, and the exception is shown.
  std::function<std::string(const std::vector<std::string>& paths)> count;
};

/// A dialog that asks for a file, or for several.
class FileBrowser {
 public:
  explicit FileBrowser(Jobs& jobs) : jobs_(jobs) {}
  void ask(FileRequest request);
  bool is_open() const { return open_; }
  void draw(Ui& ui);

 private:
  struct Entry {
    std::string name;
    bool folder = false, chosen = false;  // chosen: by a click
  };
  struct Folder {
    std::vector<Entry> entries;
    size_t others = 0;  // number of hidden files with other endings
  };

  static Folder read(const std::string& path, const std::vector<std::string>& extensions);
  void go(const std::string& folder);
  void entries(Ui& ui);
  void choose(size_t index);
  void choose_none();
  void changed();
  void accept();
  void take(const std::vector<std::string>& paths);
  bool any_chosen() const;
  std::vector<std::string> paths() const;

  Jobs& jobs_;
  FileRequest request_;
  bool open_ = false, fresh_ = false, preselect_ = false;
  std::string folder_, name_, error_, count_;
  std::string replaced_;  // the file that the user was asked about: whether to replace it
  Folder shown_;          // what `folder_` holds, once a job has read it
  size_t last_ = 0;       // last clicked entry, the start of a Shift-click's range
  uint64_t choice_ = 0;   // increases when other paths are chosen
};

}  // namespace wide
