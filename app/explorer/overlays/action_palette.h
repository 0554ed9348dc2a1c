#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"

namespace wide {

/// Something a person can do by name or by keys.
struct Action {
  std::string name, keys;  // keys: "Ctrl+P", or ""
  std::function<void()> run;
};

/// Everything that can be done, found by typing a part of its name.
class ActionPalette {
 public:
  void show();
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  void draw(Ui& ui, const std::vector<Action>& actions);

 private:
  bool open_ = false, fresh_ = false;
  std::string text_;
  int at_ = 0;
};

/// Which keys do what.
class KeySheet {
 public:
  void show() { open_ = true; }
  bool is_open() const { return open_; }
  void draw(Ui& ui, const std::vector<Action>& actions);

 private:
  bool open_ = false;
};

}  // namespace wide
