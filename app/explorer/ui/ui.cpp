#include "app/explorer/ui/ui.h"

#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include <algorithm>

#include "data/text.h"

namespace wide {
namespace {

/// A label without its id, which begins at the last "##".
std::string shown(const std::string& label) { return label.substr(0, label.rfind("##")); }

/// ImGui's Selectable, but all of `text` is shown, whatever it holds.
bool selectable(const std::string& id, const std::string& text, bool selected,
                ImGuiSelectableFlags flags) {
  const ImGuiWindow* window = ImGui::GetCurrentWindow();
  const ImVec2 at = {window->DC.CursorPos.x,
                     window->DC.CursorPos.y + window->DC.CurrLineTextBaseOffset};
  const char *begin = text.data(), *end = text.data() + text.size();
  const bool clicked =
      ImGui::Selectable(("##" + id).c_str(), selected, flags | ImGuiSelectableFlags_SpanAvailWidth,
                        {ImGui::CalcTextSize(begin, end).x, 0});
  if (ImGui::IsItemVisible())
    window->DrawList->AddText(at, ImGui::GetColorU32(ImGuiCol_Text), begin, end);
  return clicked;
}

/// Whether the user can scroll this window along `axis`. ImGui computes ScrollMax of windows
/// without a scrollbar too.
bool scrolls(const ImGuiWindow& window, ImGuiAxis axis) {
  const bool bar = axis == ImGuiAxis_X ? (window.Flags & ImGuiWindowFlags_HorizontalScrollbar) != 0
                                       : (window.Flags & ImGuiWindowFlags_NoScrollbar) == 0;
  return bar && window.ScrollMax[axis] > 0;
}

/// Whether scrolling brings `box` into view: inside its window, then that window inside of those
/// around it.
bool scrolled_to(const ImGuiWindow* window, ImRect box, ImGuiAxis axis) {
  constexpr float kSlack = 1.5f;          // pixels, of rounding
  bool reached = scrolls(*window, axis);  // also below a table's fixed header
  for (const ImGuiWindow* w = window; w; w = w->ParentWindow) {
    const ImRect& room = w->InnerRect;
    if (box.Min[axis] < room.Min[axis] - kSlack || box.Max[axis] > room.Max[axis] + kSlack) {
      if (!scrolls(*w, axis)) return false;
      reached = true;
      box = room;
    }
    if (!(w->Flags & ImGuiWindowFlags_ChildWindow)) break;
  }
  return reached;
}

}  // namespace

Ui::Ui() : context_(ImGui::CreateContext()) {
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = io.LogFilename = nullptr;
  io.ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
  io.ConfigInputTextCursorBlink = false;                      // an idle window draws no frames
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;  // long curves need many vertices
  io.BackendPlatformName = io.BackendRendererName = "workbench";
  io.ClipboardUserData = this;
  io.GetClipboardTextFn = [](void* user) {
    Ui& ui = *static_cast<Ui*>(user);
    ui.clipboard_text_ = ui.get_clipboard ? ui.get_clipboard() : ui.clipboard;
    return ui.clipboard_text_.c_str();
  };
  io.SetClipboardTextFn = [](void* user, const char* text) {
    Ui& ui = *static_cast<Ui*>(user);
    ui.clipboard = text;
    if (ui.set_clipboard) ui.set_clipboard(text);
  };
  static constexpr std::pair<int, int> kKeys[] = {{ImGuiKey_LeftArrow, key::kLeft},
                                                  {ImGuiKey_RightArrow, key::kRight},
                                                  {ImGuiKey_UpArrow, key::kUp},
                                                  {ImGuiKey_DownArrow, key::kDown},
                                                  {ImGuiKey_PageUp, key::kPageUp},
                                                  {ImGuiKey_PageDown, key::kPageDown},
                                                  {ImGuiKey_Home, key::kHome},
                                                  {ImGuiKey_End, key::kEnd},
                                                  {ImGuiKey_Insert, key::kInsert},
                                                  {ImGuiKey_Delete, key::kDelete},
                                                  {ImGuiKey_Backspace, key::kBackspace},
                                                  {ImGuiKey_Space, key::kSpace},
                                                  {ImGuiKey_Enter, key::kEnter},
                                                  {ImGuiKey_Escape, key::kEscape},
                                                  {ImGuiKey_KeyPadEnter, key::kKeypadEnter},
                                                  {ImGuiKey_A, key::kA},
                                                  {ImGuiKey_C, key::kC},
                                                  {ImGuiKey_V, key::kV},
                                                  {ImGuiKey_X, key::kX},
                                                  {ImGuiKey_Y, key::kY},
                                                  {ImGuiKey_Z, key::kZ}};
  for (const auto& [ours, native] : kKeys) io.KeyMap[ours] = native;
  io.KeyMap[ImGuiKey_Tab] = -1;  // ImGui's Tab only reaches text fields; ours is move_focus
}

Ui::~Ui() { ImGui::DestroyContext(context_); }

void Ui::set_look(bool dark, float scale) {
  scale = std::clamp(scale, 0.5f, 4.0f);
  if (dark != dark_ || scale != scale_) stale_ = true;
  dark_ = dark;
  if (scale != scale_) fonts_ = {};
  scale_ = scale;
}

void Ui::begin_frame(Input& input, float width, float height, float seconds) {
  ImGui::SetCurrentContext(context_);
  input.take();
  if (stale_) apply_theme(theme(), scale_);
  stale_ = false;
  ImGuiIO& io = ImGui::GetIO();
  if (!fonts_.body) {
    fonts_ = load_fonts(scale_);
    io.FontDefault = fonts_.body;
    ++font_version_;
  }
  io.DisplaySize = {width, height};
  io.DeltaTime = std::max(1e-4f, seconds);
  io.MousePos = input.x < 0 ? ImVec2(-FLT_MAX, -FLT_MAX) : ImVec2(input.x, input.y);
  for (int i = 0; i < 3; ++i) io.MouseDown[i] = input.down[i] || input.pressed[i];
  io.MouseWheel = input.wheel_y;
  io.MouseWheelH = input.wheel_x;
  for (size_t i = 0; i < input.keys.size(); ++i) io.KeysDown[i] = input.keys[i];
  io.KeyCtrl = input.keys[key::kControl] || input.keys[key::kRightControl];
  io.KeyShift = input.keys[key::kShift] || input.keys[key::kRightShift];
  io.KeyAlt = input.keys[key::kAlt] || input.keys[key::kRightAlt];
  for (const char32_t c : input.characters) io.AddInputCharacter(c);
  input.next();
  stops_.clear();
  ImGui::NewFrame();
  tabs_ = ImGui::IsKeyPressed(key::kTab, true) && !io.KeyCtrl && !io.KeyAlt ? (io.KeyShift ? -1 : 1)
                                                                            : 0;
}

void Ui::end_frame() {
  if (tabs_ != 0) move_focus(tabs_);
  ImGui::Render();
  items.begin();
}

// ------------------------------------------------------------- the record of what is on the screen

void Ui::note(ItemKind kind, const std::string& label, ImVec2 from, ImVec2 to, bool enabled,
              bool on) {
  const ImGuiWindow* window = ImGui::GetCurrentWindow();
  const ImRect& clip = window->ClipRect;
  ScreenItem item;
  item.kind = kind;
  item.label = kind == ItemKind::text ? label : shown(label);
  item.box = {from.x, from.y, to.x - from.x, to.y - from.y};
  item.clip = {clip.Min.x, clip.Min.y, clip.GetWidth(), clip.GetHeight()};
  item.inside = inside_;
  item.enabled = enabled;
  item.on = on;
  const ImRect box(from, to);
  item.scrolls_x = scrolled_to(window, box, ImGuiAxis_X);
  item.scrolls_y = scrolled_to(window, box, ImGuiAxis_Y);
  for (const ImGuiWindow* w = window; w; w = w->ParentWindow) {
    if (w->Flags & (ImGuiWindowFlags_Popup | ImGuiWindowFlags_Tooltip))
      item.layer = 1 + GImGui->BeginPopupStack.Size;
  }
  items.add(std::move(item));
}

void Ui::add_stop(ItemKind kind, const std::string& label) {
  const bool stops = kind == ItemKind::button || kind == ItemKind::toggle ||
                     kind == ItemKind::choice || kind == ItemKind::field || kind == ItemKind::tab;
  const ImGuiID id = ImGui::GetItemID();
  if (!stops || id == 0) return;
  stops_.push_back({id, ImGui::GetCurrentWindow(), items.now().back().layer, kind, shown(label)});
  if (id != scroll_to_) return;
  scroll_to_ = 0;
  if (ImGui::IsItemVisible()) return;
  ImGui::SetScrollHereY(0.5f);
  ImGui::SetScrollHereX(0.5f);
}

/// Moves the focus to the next control of the topmost layer, in drawing order.
void Ui::move_focus(int step) {
  ImGuiContext& g = *GImGui;
  int top = 0;
  for (const Stop& stop : stops_) top = std::max(top, stop.layer);
  std::erase_if(stops_, [&](const Stop& stop) { return stop.layer != top; });
  if (stops_.empty()) return;
  const auto count = static_cast<int>(stops_.size());
  int at = step > 0 ? -1 : count;
  for (int i = 0; i < count && !g.NavDisableHighlight; ++i)
    if (stops_[static_cast<size_t>(i)].id == g.NavId) at = i;
  // Starts from the text field that was being edited.
  for (int i = 0; i < count && g.ActiveId != 0; ++i)
    if (stops_[static_cast<size_t>(i)].id == g.ActiveId) at = i;
  const Stop& next = stops_[static_cast<size_t>((at + step + count) % count)];
  ImGui::ClearActiveID();
  ImGui::FocusWindow(next.window);
  ImGui::SetFocusID(next.id, next.window);
  g.NavDisableHighlight = false;
  g.NavDisableMouseHover = true;
  if (next.kind == ItemKind::field) ImGui::ActivateItem(next.id);
  scroll_to_ = next.id;
  focused_ = next.label;
}

void Ui::note_last(ItemKind kind, const std::string& label, bool enabled, bool on) {
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  note(kind, label, from, to, enabled, on);
  if (enabled) add_stop(kind, label);
  if (kind != ItemKind::text && !items.wanted.empty() && items.wanted == shown(label)) {
    const ImRect& clip = ImGui::GetCurrentWindow()->ClipRect;
    if (from.y < clip.Min.y || to.y > clip.Max.y) ImGui::SetScrollHereY(0.5f);
    if (from.x < clip.Min.x || to.x > clip.Max.x) ImGui::SetScrollHereX(0.5f);
  }
}

// ------------------------------------------------------------------------------------- text

void Ui::text(const std::string& t) {
  ImGui::TextUnformatted(t.data(), t.data() + t.size());
  note_last(ItemKind::text, t);
}

void Ui::tinted(const std::string& t, uint32_t rgb) {
  ImGui::PushStyleColor(ImGuiCol_Text, colour(rgb));
  text(t);
  ImGui::PopStyleColor();
}

void Ui::muted(const std::string& t) { tinted(t, theme().plot.muted); }

void Ui::label(const std::string& t, float column) {
  ImGui::AlignTextToFramePadding();
  muted(t);
  if (column > 0) ImGui::SameLine(px(column));
}

void Ui::next_label(const std::string& t, const std::string& tip_text) {
  beside(text_width(t));
  label(t);
  tip(tip_text);
}

void Ui::small(const std::string& t) {
  ImGui::PushFont(fonts_.small);
  muted(t);
  ImGui::PopFont();
}

void Ui::bold(const std::string& t) {
  ImGui::PushFont(fonts_.bold);
  text(t);
  ImGui::PopFont();
}

void Ui::title(const std::string& t) {
  ImGui::PushFont(fonts_.title);
  text(t);
  ImGui::PopFont();
}

void Ui::wrapped(const std::string& t, bool is_muted) {
  ImGui::PushTextWrapPos(0);
  if (is_muted)
    muted(t);
  else
    text(t);
  ImGui::PopTextWrapPos();
}

float Ui::text_width(const std::string& t) const { return ImGui::CalcTextSize(t.c_str()).x; }

std::string Ui::fit(const std::string& t, float width) const {
  if (text_width(t) <= width) return t;
  const char* end = nullptr;
  const float room = std::max(0.0f, width - text_width("…"));
  ImGui::GetFont()->CalcTextSizeA(ImGui::GetFontSize(), room, 0, t.data(), t.data() + t.size(),
                                  &end);
  auto fits = static_cast<size_t>(end - t.data());
  while (fits > 0 && t[fits - 1] == ' ') --fits;
  return t.substr(0, fits) + "…";
}

void Ui::fitted(const std::string& t, float width, bool is_muted) {
  const std::string part = fit(t, width);
  if (is_muted)
    muted(part);
  else
    text(part);
  items.set_value(t);
  if (part != t) tip(t);
}

void Ui::fitted(const std::string& t, bool is_muted) {
  fitted(t, ImGui::GetContentRegionAvail().x, is_muted);
}

void Ui::empty(const std::string& what, const std::string& next) {
  ImGui::Dummy({0, px(8)});
  bold(what);
  wrapped(next);
  ImGui::Dummy({0, px(4)});
}

bool Ui::filled(bool any, bool reading, const std::string& what, const std::string& next) {
  if (any) return true;
  if (!unreadable.empty())
    empty("The store cannot be read", unreadable);
  else if (reading)
    muted("reading the store");
  else
    empty(what, next);
  return false;
}

// --------------------------------------------------------------------------------- controls

bool Ui::button(const std::string& label, Look look, bool enabled, const std::string& tip_text) {
  const Theme& t = theme();
  int colours = 0;
  const auto set = [&](ImGuiCol which, uint32_t rgb, double opacity = 1) {
    ImGui::PushStyleColor(which, colour(rgb, opacity));
    ++colours;
  };
  if (look == Look::primary && enabled) {
    set(ImGuiCol_Button, t.accent);
    set(ImGuiCol_ButtonHovered, t.accent, 0.85);
    set(ImGuiCol_ButtonActive, t.accent, 0.7);
    set(ImGuiCol_Text, t.on_accent);
  } else if (look == Look::quiet) {
    set(ImGuiCol_Button, t.panel, 0);
  } else if (look == Look::danger && enabled) {
    set(ImGuiCol_Text, t.bad);
  }
  ImGui::BeginDisabled(!enabled);
  const bool clicked = ImGui::Button(label.c_str());
  ImGui::EndDisabled();
  ImGui::PopStyleColor(colours);
  note_last(ItemKind::button, label, enabled);
  if (!tip_text.empty()) tip(tip_text);
  return clicked;
}

bool Ui::toggle(const std::string& label, bool on, const std::string& tip_text) {
  const Theme& t = theme();
  ImGui::PushStyleColor(ImGuiCol_Button, on ? colour(t.accent, 0.18) : colour(t.raised));
  ImGui::PushStyleColor(ImGuiCol_Text, on ? colour(t.plot.text) : colour(t.plot.muted));
  const bool clicked = ImGui::Button(label.c_str());
  ImGui::PopStyleColor(2);
  note_last(ItemKind::toggle, label, true, on);
  if (!tip_text.empty()) tip(tip_text);
  return clicked;
}

bool Ui::checkbox(const std::string& label, bool* on, const std::string& tip_text) {
  const float room = ImGui::GetContentRegionAvail().x - ImGui::GetFrameHeight() -
                     ImGui::GetStyle().ItemInnerSpacing.x;
  const bool changed = ImGui::Checkbox((fit(shown(label), room) + "###" + label).c_str(), on);
  note_last(ItemKind::toggle, label, true, *on);
  if (!tip_text.empty()) tip(tip_text);
  return changed;
}

bool Ui::field(const std::string& name, std::string* text, const std::string& hint, float width,
               const std::string& tip_text, bool* done) {
  ImGui::SetNextItemWidth(width);
  const std::string id = "##" + name;
  const bool edited = ImGui::InputTextWithHint(id.c_str(), hint.c_str(), text);
  if (done) *done = ImGui::IsItemDeactivated();
  note_last(ItemKind::field, name);
  items.set_value(*text);
  tip(tip_text);
  return edited;
}

bool Ui::choice(const std::string& name, int* index, const std::vector<std::string>& options,
                float width, const std::string& tip_text) {
  constexpr size_t kMany = 12;  // from this length on a list has a search field
  ImGui::SetNextItemWidth(width);
  const bool any = *index >= 0 && *index < static_cast<int>(options.size());
  const float room = width - ImGui::GetFrameHeight() - px(12);
  const std::string preview = any ? fit(options[static_cast<size_t>(*index)], room) : "";
  const std::string id = "##" + name;
  // The preview is drawn here, since ImGui would hide what follows "##" in it.
  const ImGuiWindow* window = ImGui::GetCurrentWindow();
  const ImVec2 corner = ImGui::GetCursorScreenPos(), padding = ImGui::GetStyle().FramePadding;
  const bool open = ImGui::BeginCombo(id.c_str(), "", ImGuiComboFlags_HeightLarge);
  if (!window->SkipItems)
    window->DrawList->AddText({corner.x + padding.x, corner.y + padding.y},
                              ImGui::GetColorU32(ImGuiCol_Text), preview.data(),
                              preview.data() + preview.size());
  bool changed = false;
  if (!open) {
    note_last(ItemKind::choice, name);
    if (any) items.set_value(options[static_cast<size_t>(*index)]);
    tip(tip_text);
    return false;
  }
  const bool searched = options.size() > kMany;
  if (ImGui::IsWindowAppearing()) search_.clear();
  if (searched) {
    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    field("search " + name, &search_, "search", -1, "Shows only the entries that hold this text.");
  }
  const std::string wanted = searched ? lower_case(search_) : "";
  int found = 0;
  for (int i = 0; i < static_cast<int>(options.size()); ++i) {
    const std::string& option = options[static_cast<size_t>(i)];
    if (!wanted.empty() && lower_case(option).find(wanted) == std::string::npos) continue;
    ++found;
    if (selectable(std::to_string(i), option, i == *index, 0)) {
      changed = i != *index;
      *index = i;
    }
    note_last(ItemKind::row, option + "##");
    if (i == *index) {
      if (!searched) ImGui::SetItemDefaultFocus();
      if (ImGui::IsWindowAppearing()) ImGui::SetScrollHereY(0.5f);
    }
  }
  if (found == 0) muted("nothing of this name");
  ImGui::EndCombo();
  return changed;
}

bool Ui::row(const std::string& label, bool selected, bool* twice) {
  const bool clicked =
      selectable(label, shown(label), selected,
                 ImGuiSelectableFlags_AllowDoubleClick | ImGuiSelectableFlags_SpanAllColumns |
                     ImGuiSelectableFlags_AllowItemOverlap);
  note_last(ItemKind::row, label, true, selected);
  if (twice) *twice = clicked && ImGui::IsMouseDoubleClicked(0);
  return clicked;
}

void Ui::tip(const std::string& text) {
  items.set_tip(text);
  if (text.empty() || !ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled)) return;
  // The tooltip of an item on a row replaces that of the row.
  ImGui::BeginTooltipEx(ImGuiTooltipFlags_OverridePreviousTooltip, ImGuiWindowFlags_None);
  ImGui::PushTextWrapPos(px(420));
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

ImVec2 Ui::room(float least) const {
  return {0, std::max(px(least), ImGui::GetContentRegionAvail().y)};
}

void Ui::table_head(const std::string& title, const std::string& tip_text) {
  ImGui::TableHeader(title.c_str());
  // The area of the text: the first and last heads extend beyond the table.
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  const float left = std::max(from.x, ImGui::GetWindowPos().x);
  note(ItemKind::head, title, {left, from.y},
       {std::max(left + 1, std::min(to.x, left + text_width(title))), to.y});
  tip(tip_text);
}

void Ui::table_heads(const std::vector<std::string>& tips) {
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (int c = 0; c < ImGui::TableGetColumnCount(); ++c) {
    ImGui::TableSetColumnIndex(c);
    ImGui::PushFont(fonts_.small_bold);
    muted(ImGui::TableGetColumnName(c));
    ImGui::PopFont();
    const auto at = static_cast<size_t>(c);
    if (at < tips.size() && !tips[at].empty()) tip(tips[at]);
  }
}

bool Ui::begin_table(const char* name, const std::vector<Column>& columns, ImVec2 size,
                     ImGuiTableFlags flags) {
  flags |=
      ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings;
  if (!ImGui::BeginTable(name, static_cast<int>(columns.size()), flags, size)) return false;
  ImGui::TableSetupScrollFreeze(flags & ImGuiTableFlags_ScrollX ? 1 : 0, 1);
  std::vector<std::string> tips;
  for (const Column& c : columns) {
    ImGui::TableSetupColumn(
        c.name.c_str(),
        c.width > 0 ? ImGuiTableColumnFlags_WidthFixed : ImGuiTableColumnFlags_WidthStretch,
        px(c.width));
    tips.push_back(c.tip);
  }
  table_heads(tips);
  return true;
}

void Ui::cell(int column, const std::string& text, bool is_muted) {
  ImGui::TableSetColumnIndex(column);
  fitted(text, is_muted);
}

void Ui::cell_text(const std::string& text, uint32_t rgb, bool right) {
  const float width = ImGui::GetContentRegionAvail().x;
  const std::string part = fit(text, width);
  if (right)
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0f, width - text_width(part)));
  tinted(part, rgb);
  if (part != text) tip(text);
}

bool Ui::whole_line(const std::string& label, bool selected, const std::string& tip_text) {
  const ImVec2 at = ImGui::GetCursorPos();
  const bool clicked = ImGui::Selectable(
      ("##" + label).c_str(), selected,
      ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowItemOverlap);
  note_last(ItemKind::row, label, true, selected);
  tip(tip_text);
  ImGui::SetCursorPos(at);
  return clicked;
}

void Ui::bar(double share, const std::string& text, float width) {
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const float height = px(6);
  const ImVec2 to = {from.x + width, from.y + height};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(from, to, colour(theme().raised), height / 2);
  const float filled = static_cast<float>(std::clamp(share, 0.0, 1.0)) * width;
  if (filled >= height)
    list.AddRectFilled(from, {from.x + filled, to.y}, colour(theme().accent), height / 2);
  ImGui::Dummy({width, height});
  note_last(ItemKind::area, text);
  if (!text.empty()) small(text);
}

void Ui::beside(float width) {
  const float right = ImGui::GetWindowPos().x + ImGui::GetWindowContentRegionMax().x;
  const float next = ImGui::GetItemRectMax().x + ImGui::GetStyle().ItemSpacing.x + width;
  if (next <= right) ImGui::SameLine();
}

void Ui::beside(const std::string& label) {
  beside(text_width(label) + 2 * ImGui::GetStyle().FramePadding.x);
}

bool Ui::next_button(const std::string& label, bool enabled, const std::string& tip, Look look) {
  beside(label);
  return button(label, look, enabled, tip);
}

}  // namespace wide
