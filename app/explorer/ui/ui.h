#pragma once
#include <imgui.h>

#include <functional>
#include <string>
#include <vector>

#include "app/explorer/ui/input.h"
#include "app/explorer/ui/items.h"
#include "app/explorer/ui/theme.h"

struct ImGuiWindow;

namespace wide {

enum class Look { plain, primary, quiet, danger };

/// This program's widgets, which note what they draw in `items`. One per ImGui context, which it
/// owns. A label may end in "##id", which is not shown; so one that begins with a user's text must.
class Ui {
 public:
  Ui();
  ~Ui();
  Ui(const Ui&) = delete;
  Ui& operator=(const Ui&) = delete;

  /// Sets colours and sizes from the next frame on. `scale`: pixels per unit.
  void set_look(bool dark, float scale);
  const Theme& theme() const { return wide::theme(dark_); }
  const Fonts& fonts() const { return fonts_; }
  float scale() const { return scale_; }
  float px(float units) const { return units * scale_; }
  /// Increases when the fonts' texture must be made again.
  int font_version() const { return font_version_; }

  void begin_frame(Input& input, float width, float height, float seconds);
  void end_frame();  // ImGui holds the draw data afterwards

  // ---- the record of what is on the screen ----
  Items items;
  void note(ItemKind kind, const std::string& label, ImVec2 from, ImVec2 to, bool enabled = true,
            bool on = false);
  /// Notes ImGui's last item.
  void note_last(ItemKind kind, const std::string& label, bool enabled = true, bool on = false);
  void enter(const std::string& inside) { inside_ = inside; }
  /// The label of the item with the focus; "" unless the keyboard has moved the focus.
  const std::string& focused() const { return focused_; }

  // ---- text ----
  void text(const std::string& text);
  void muted(const std::string& text);
  /// Muted text at the height of the controls beside it. `column`: where in the line the next
  /// control begins, in units.
  void label(const std::string& text, float column = 0);
  /// Such text beside the last item, as by `beside`.
  void next_label(const std::string& text, const std::string& tip);
  void small(const std::string& text);  // muted too
  void bold(const std::string& text);
  void title(const std::string& text);
  void tinted(const std::string& text, uint32_t rgb);
  void wrapped(const std::string& text, bool is_muted = true);
  /// Text cut to `width` pixels with an ellipsis; the full text is shown on hover.
  void fitted(const std::string& text, float width, bool is_muted = false);
  /// The same in the rest of the line, or of a table's cell.
  void fitted(const std::string& text, bool is_muted = false);
  std::string fit(const std::string& text, float width) const;
  float text_width(const std::string& text) const;
  /// Text for an empty panel: what is missing, and what to do next.
  void empty(const std::string& what, const std::string& next);
  std::string unreadable;  // why the store cannot be read; "" if it can
  /// True if there is something to show (`any`). Else draws a text: why the store cannot be read,
  /// that it is being read, or what is missing and what to do next.
  bool filled(bool any, bool reading, const std::string& what, const std::string& next);

  // ---- controls ----
  bool button(const std::string& label, Look look = Look::plain, bool enabled = true,
              const std::string& tip = "");
  bool toggle(const std::string& label, bool on, const std::string& tip = "");
  /// A button beside the last item, as by `beside`.
  bool next_button(const std::string& label, bool enabled, const std::string& tip,
                   Look look = Look::plain);
  bool checkbox(const std::string& label, bool* on, const std::string& tip = "");
  /// A text field; true if it was edited. `name` is for scripts and screen readers; `width` below
  /// 0: the rest of the line.
  bool field(const std::string& name, std::string* text, const std::string& hint, float width,
             const std::string& tip, bool* done = nullptr);
  /// A drop-down list; true if the choice changed. A long list has a search field.
  bool choice(const std::string& name, int* index, const std::vector<std::string>& options,
              float width, const std::string& tip);
  /// The same for values, of which `shown(value)` is the text. The first one is shown if `*chosen`
  /// is none of them.
  template <class Value, class Values, class Shown>
  bool choose(const std::string& name, Value* chosen, const Values& values, const Shown& shown,
              float width, const std::string& tip) {
    std::vector<std::string> texts;
    int at = 0;
    for (const Value& value : values) {
      if (value == *chosen) at = static_cast<int>(texts.size());
      texts.push_back(shown(value));
    }
    if (!choice(name, &at, texts, width, tip)) return false;
    *chosen = values[static_cast<size_t>(at)];
    return true;
  }
  bool row(const std::string& label, bool selected, bool* twice = nullptr);
  /// The tooltip of the last item, noted with it.
  void tip(const std::string& text);
  /// The size of a scrolling table: the rest of the panel, at least `least` units high, beyond
  /// which the panel scrolls too.
  ImVec2 room(float least) const;
  /// The head of a sortable column, in the current cell. Scripts find it by its title.
  void table_head(const std::string& title, const std::string& tip);
  /// Draws a sortable table's first row: `head(column)` calls `table_head` for a column in sight.
  template <class Head>
  void sort_heads(const Head& head) const {
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    ImGui::PushFont(fonts_.small_bold);
    for (int c = 0; c < ImGui::TableGetColumnCount(); ++c)
      if (ImGui::TableSetColumnIndex(c)) head(static_cast<size_t>(c));
    ImGui::PopFont();
  }
  /// Draws the current table's first row, the columns' names. `tips` by column; may be fewer.
  void table_heads(const std::vector<std::string>& tips = {});
  /// A column of a table: its name, its width in units (0: what the others leave), its tooltip.
  struct Column {
    std::string name;
    float width = 0;
    std::string tip = {};
  };
  /// Begins a table that scrolls below its columns' names, and with ImGuiTableFlags_ScrollX beside
  /// its first column; false if it is out of sight. If true, end it with ImGui::EndTable.
  bool begin_table(const char* name, const std::vector<Column>& columns, ImVec2 size,
                   ImGuiTableFlags flags);
  /// Calls `draw(line)` for those of a table's `count` lines that are in sight.
  template <class Draw>
  static void table_lines(size_t count, const Draw& draw) {
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(count));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) draw(static_cast<size_t>(i));
  }
  /// Text in a column of the current line, cut to its width.
  void cell(int column, const std::string& text, bool is_muted = false);
  /// Text in the current cell, cut to its width; at its right end if `right`.
  void cell_text(const std::string& text, uint32_t rgb, bool right);
  /// Makes the whole current line one row, on which the cells lie; true if it was clicked.
  bool whole_line(const std::string& label, bool selected, const std::string& tip);
  void bar(double share, const std::string& text, float width);
  /// Places the next item beside the last one if it fits, else on a new line.
  void beside(float width);
  /// The same of a button or toggle with this label.
  void beside(const std::string& label);

  std::function<void(const std::string&)> set_clipboard;  // empty: the text is kept in this object
  std::function<std::string()> get_clipboard;
  std::string clipboard;

 private:
  /// A control that Tab comes to.
  struct Stop {
    ImGuiID id = 0;
    ImGuiWindow* window = nullptr;
    int layer = 0;
    ItemKind kind = ItemKind::button;
    std::string label;
  };
  void add_stop(ItemKind kind, const std::string& label);
  void move_focus(int step);

  ImGuiContext* context_;
  Fonts fonts_;
  bool dark_ = false, stale_ = true;
  float scale_ = 1;
  int font_version_ = 0;
  std::string inside_, clipboard_text_, search_, focused_;
  std::vector<Stop> stops_;  // of this frame
  ImGuiID scroll_to_ = 0;    // the newly focused item, to be scrolled into view
  int tabs_ = 0;             // -1, 1: Tab was pressed in this frame, with or without Shift
};

}  // namespace wide
