#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

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
  /// Describes the chosen paths, such as "64 checkpoints"; may throw.
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
  std::string replaced_;  // the file that the user was asked about: whether to replace it
  std::vector<Entry> entries_;
  size_t others_ = 0;             // number of hidden files with other endings
  std::set<std::string> chosen_;  // files selected by clicks
  size_t last_ = 0;               // last clicked entry, the start of a Shift-click's range
};

}  // namespace wide
