#pragma once
#include <functional>
#include <string>
#include <vector>

#include "app/explorer/ui/ui.h"

namespace wide {

/// An action that a user can start by name or keys.
struct Action {
  std::string name, keys;  // keys: "Ctrl+P", or ""
  std::function<void()> run;
  int key = 0;           // the last of its keys; 0: none, or `press_keys` treats it apart
  bool of_text = false;  // while a text field has the focus the key belongs to it
};

/// A searchable list of all actions.
class ActionPalette {
 public:
  void show() { open_ = fresh_ = true; }
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  void draw(Ui& ui, const std::vector<Action>& actions);

 private:
  bool open_ = false, fresh_ = false;
  std::string text_;
  int at_ = 0;
};

/// A sheet of all key bindings.
class KeySheet {
 public:
  void show() { open_ = true; }
  bool is_open() const { return open_; }
  void draw(Ui& ui, const std::vector<Action>& actions);

 private:
  bool open_ = false;
};

}  // namespace wide
