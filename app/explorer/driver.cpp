#include "app/explorer/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "data/text.h"
#include "engine/error.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

int key_of(const std::string& name) {
  static const std::map<std::string, int> names = {
      {"Enter", key::kEnter},   {"Escape", key::kEscape},
      {"Tab", key::kTab},       {"Backspace", key::kBackspace},
      {"Delete", key::kDelete}, {"Up", key::kUp},
      {"Down", key::kDown},     {"Left", key::kLeft},
      {"Right", key::kRight},   {"F5", key::kF5},
      {"Home", key::kHome},     {"End", key::kEnd},
      {"Ctrl", key::kControl},  {"Shift", key::kShift},
      {"Alt", key::kAlt},       {"+", key::kEqual},
      {"-", key::kMinus},       {"PageDown", key::kPageDown},
      {"PageUp", key::kPageUp}, {"Space", key::kSpace}};
  const auto it = names.find(name);
  if (it != names.end()) return it->second;
  if (name.size() == 1) return std::toupper(static_cast<unsigned char>(name[0]));
  fail("[script] key: got {}, expected one such as Enter or Ctrl+P; try Enter", printable(name));
}

}  // namespace

void Driver::frames(int count) {
  for (int i = 0; i < count; ++i) {
    // Reads and drops the desktop's events: only the script acts.
    Input real;
    screen_.platform().wait(real, 0);
    screen_.frame();
  }
}

void Driver::missing(const std::string& label) const {
  std::set<std::string> labels;
  for (const ScreenItem& i : screen_.ui().items.last())
    if (i.kind != ItemKind::text) labels.insert(i.label);
  const std::vector<std::string> all(labels.begin(), labels.end());
  fail("[script] label: got {}, expected one of {}; try another", printable(label),
       listing(all, 60));
}

void Driver::hover(const std::string& label) {
  Items& items = screen_.ui().items;
  const ScreenItem* item = items.find(label);
  for (int i = 0; i < 20 && !item; ++i) {
    screen_.frame();
    item = items.find(label);
  }
  if (!item) missing(label);
  // The middle of the visible part: a row may be wider than its region.
  const auto middle = [](const ScreenItem& i) {
    const double left = std::max(i.box.x, i.clip.x),
                 right = std::min(i.box.right(), i.clip.right());
    return Point{(left + right) / 2, i.box.y + i.box.height / 2};
  };
  const auto out = [&](const ScreenItem& i) {
    const Point at = middle(i);
    return at.y < i.clip.y || at.y > i.clip.bottom() || at.x > i.clip.right() || at.x < i.clip.x;
  };
  if (out(*item)) {
    items.wanted = label;
    frames(4);
    items.wanted.clear();
    item = items.find(label);
    if (!item) missing(label);
    if (out(*item))
      fail("[script] {}: got it out of sight, expected it to be seen; try a larger window",
           printable(label));
  }
  screen_.input.x = static_cast<float>(middle(*item).x);
  screen_.input.y = static_cast<float>(middle(*item).y);
  frames(2);
}

void Driver::click(const std::string& label, int button, bool twice) {
  hover(label);
  const ScreenItem* item = screen_.ui().items.find(label);
  if (item && !item->enabled)
    fail("[script] {}: got a disabled one, expected it to be ready; try later", printable(label));
  const double begun = now_s();
  for (int i = 0; i < (twice ? 2 : 1); ++i) {
    screen_.input.down[button] = screen_.input.pressed[button] = true;
    screen_.frame();
    screen_.input.down[button] = false;
    screen_.frame();
  }
  answered_ms = 1e3 * (now_s() - begun);
  frames(2);
}

void Driver::type(const std::string& text) {
  // Decodes UTF-8 to characters.
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const int more = c < 0x80 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    char32_t code = more == 0 ? c : c & (0x3F >> more);
    for (int k = 1; k <= more && i + static_cast<size_t>(k) < text.size(); ++k)
      code = code << 6 | (static_cast<unsigned char>(text[i + static_cast<size_t>(k)]) & 0x3F);
    screen_.input.characters += code;
    i += static_cast<size_t>(more) + 1;
    screen_.frame();
  }
  frames(1);
}

void Driver::hold(const std::string& keys, bool down) {
  std::string rest = keys;
  for (size_t plus; (plus = rest.find('+')) != std::string::npos && plus > 0;) {
    screen_.input.keys[static_cast<size_t>(key_of(rest.substr(0, plus)))] = down;
    rest.erase(0, plus + 1);
  }
  screen_.input.keys[static_cast<size_t>(key_of(rest))] = down;
}

void Driver::press(const std::string& keys) {
  if (keys == "?") return type("?");
  hold(keys, true);
  screen_.frame();
  hold(keys, false);
  frames(2);
}

void Driver::click_with(const std::string& keys, const std::string& label) {
  hold(keys, true);
  click(label);
  hold(keys, false);
  frames(1);
}

void Driver::drag(const std::string& label, float x, float y, int button) {
  hover(label);
  screen_.input.down[button] = screen_.input.pressed[button] = true;
  screen_.frame();
  for (int i = 0; i < 5; ++i) {
    screen_.input.x += x / 5;
    screen_.input.y += y / 5;
    screen_.frame();
  }
  screen_.input.down[button] = false;
  frames(2);
}

void Driver::wheel(const std::string& label, float steps) {
  hover(label);
  screen_.input.wheel_y = steps;
  frames(2);
}

void Driver::settle(double seconds) {
  const double end = now_s() + seconds;
  for (int calm = 0; calm < 3;) {
    screen_.frame();
    calm = screen_.explorer().jobs.busy() ? 0 : calm + 1;
    if (calm == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (now_s() > end) fail("[script] settle: got work after {:.3g} s, expected none", seconds);
  }
}

bool Driver::sees(const std::string& text) const {
  const auto& items = screen_.ui().items.last();
  return std::any_of(items.begin(), items.end(), [&](const ScreenItem& i) {
    return i.label.find(text) != std::string::npos || i.value.find(text) != std::string::npos;
  });
}

void Driver::await(const std::string& text, double seconds) {
  const double end = now_s() + seconds;
  do {
    screen_.frame();
    if (sees(text)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (now_s() < end);
  std::string seen;
  for (const ScreenItem& i : screen_.ui().items.last())
    if (!i.label.empty())
      seen += (seen.empty() ? "" : " | ") + i.label + (i.value.empty() ? "" : "=" + i.value);
  fail("[script] await: got no {} in {:.3g} s, expected it; there is {}", printable(text), seconds,
       printable(seen, 3000));
}

std::string Driver::expanded(const std::string& label) const {
  if (!label.ends_with('*')) return label;
  const std::string prefix = label.substr(0, label.size() - 1);
  for (const ScreenItem& i : screen_.ui().items.last())
    if (i.kind != ItemKind::text && i.label.starts_with(prefix)) return i.label;
  return label;
}

void Driver::run_line(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string what = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (what.empty() || what[0] == '#') return;
  Explorer& explorer = screen_.explorer();
  if (what == "click") return click(expanded(rest));
  if (what == "double-click") return click(rest, 0, true);
  if (what == "ctrl-click") return click_with("Ctrl", rest);
  if (what == "shift-click") return click_with("Shift", rest);
  if (what == "hover") return hover(rest);
  if (what == "type") return type(rest);
  if (what == "press") return press(rest);
  if (what == "await") return await(rest, 60);
  if (what == "await-long") return await(rest, 500);
  if (what == "settle") return settle();
  if (what == "wheel") return wheel("plot", std::stof(rest));
  if (what == "show") {
    explorer.show(rest);
    return settle();
  }
  if (what == "expect") {
    settle();
    if (!sees(rest)) await(rest, 0);
    return;
  }
  if (what == "resize") {
    int width = 0, height = 0;
    if (std::sscanf(rest.c_str(), "%dx%d", &width, &height) != 2 || width < 100 || height < 100)
      fail("[script] resize: got {}, expected WIDTHxHEIGHT in pixels; try 1280x800",
           printable(rest));
    screen_.platform().resize(width, height);
    return frames(4);
  }
  if (what == "drop") return explorer.drop({rest});
  if (what == "picture") {
    explorer.take_picture(rest, {});
    return frames(4);
  }
  if (what == "clipboard") {
    std::ofstream(rest) << screen_.ui().clipboard;
    return;
  }
  if (what == "report") {
    std::ofstream(rest) << fmt::format(
        "{{\"frames\": {}, \"worst_ms\": {:.2f}, \"p99_ms\": {:.2f}, \"median_ms\": {:.2f}, "
        "\"gl_errors\": {}, \"answered_ms\": {:.2f}}}\n",
        screen_.times.work_ms.size(), screen_.times.worst_ms(), screen_.times.percentile_ms(0.99),
        screen_.times.percentile_ms(0.5), screen_.platform().gl_errors(), answered_ms);
    return;
  }
  if (what == "reset-times") {
    screen_.times = {};
    return;
  }
  if (what == "faults") {
    std::ofstream out(rest);
    for (const std::string& fault : layout_faults(
             screen_.ui().items.last(), screen_.platform().width(), screen_.platform().height()))
      out << fault << "\n";
    return;
  }
  fail(
      "[script] line: got {}, expected click, double-click, ctrl-click, shift-click, hover, type, "
      "press, await, settle, "
      "wheel, resize, show, expect, drop, picture, clipboard, report or faults; try click Start",
      printable(line));
}

void Driver::run_script(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) run_line(line);
}

}  // namespace wide
