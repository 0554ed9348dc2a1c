#pragma once
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"

namespace wide {

/// A dialog that changes options in the command of a stored training run. The user copies the new
/// command and runs it in a terminal.
class ChangedRun {
 public:
  void ask(const std::string& command);
  bool is_open() const { return open_; }
  /// True if the command was copied in this frame.
  bool draw(Ui& ui);

 private:
  struct Option {
    std::string name, label, tip, value, was;
  };
  std::string command() const;

  bool open_ = false;
  std::string command_;
  std::vector<Option> options_;
};

}  // namespace wide
