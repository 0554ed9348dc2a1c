#include "app/explorer/ui/theme.h"

#include <imgui_freetype.h>

#include <filesystem>

namespace wide {
namespace {

struct Family {
  const char *name, *regular, *bold;
};
constexpr Family kFamilies[] = {
    {"Inter", "opentype/inter/Inter-Regular.otf", "opentype/inter/Inter-SemiBold.otf"},
    {"DejaVu Sans", "truetype/dejavu/DejaVuSans.ttf", "truetype/dejavu/DejaVuSans-Bold.ttf"},
    {"Liberation Sans", "truetype/liberation/LiberationSans-Regular.ttf",
     "truetype/liberation/LiberationSans-Bold.ttf"}};

/// Glyphs: Latin, Greek, Cyrillic, punctuation, super- and subscripts, arrows, mathematics.
constexpr ImWchar kGlyphs[] = {0x20,   0x24F,  0x2B0,  0x2BF,  0x370,  0x3FF,  0x400,
                               0x52F,  0x1D40, 0x1D40, 0x1E00, 0x1EFF, 0x2010, 0x2026,
                               0x2030, 0x203A, 0x2070, 0x2094, 0x2190, 0x2199, 0x2200,
                               0x2265, 0x25A0, 0x25FF, 0x2713, 0x2717, 0};

/// A package brings fonts beside the program; Debian keeps them in one place.
std::string font_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto own = program.parent_path() / "fonts";
  return std::filesystem::is_directory(own, error) ? own.string() : "/usr/share/fonts";
}

}  // namespace

const Theme& theme(bool dark) {
  static const Theme light_theme{false,    kLight,   0xf3f5f7, 0xffffff, 0xeef1f4,
                                 0xe3e8ee, 0xd3dbe4, 0xd5dbe1, 0x0067a3, 0xffffff,
                                 0x00704f, 0xb3261e, 0x8a5a00};
  static const Theme dark_theme{true,     kDark,    0x0e1012, 0x14171a, 0x1f2429,
                                0x2a3138, 0x36404a, 0x2c333a, 0x2a9be0, 0x08121a,
                                0x35c797, 0xff8a80, 0xf0b84a};
  return dark ? dark_theme : light_theme;
}

ImVec4 colour4(uint32_t rgb, double opacity) {
  return {static_cast<float>(rgb >> 16 & 255) / 255, static_cast<float>(rgb >> 8 & 255) / 255,
          static_cast<float>(rgb & 255) / 255, static_cast<float>(opacity)};
}

ImU32 colour(uint32_t rgb, double opacity) {
  return IM_COL32(rgb >> 16 & 255, rgb >> 8 & 255, rgb & 255, static_cast<int>(255 * opacity));
}

void apply_theme(const Theme& t, float scale) {
  ImGuiStyle style;
  style.WindowPadding = {10, 8};
  style.FramePadding = {8, 4};
  style.ItemSpacing = {8, 6};
  style.ItemInnerSpacing = {6, 4};
  style.CellPadding = {6, 3};
  style.ScrollbarSize = 12;
  style.GrabMinSize = 12;
  style.WindowRounding = 0;
  style.ChildRounding = 0;
  style.PopupRounding = style.FrameRounding = style.GrabRounding = style.TabRounding = 4;
  style.ScrollbarRounding = 6;
  style.WindowBorderSize = 0;
  style.ChildBorderSize = 0;
  style.PopupBorderSize = 1;
  style.FrameBorderSize = 0;
  style.TabBorderSize = 0;
  style.ScaleAllSizes(scale);
  style.AntiAliasedLinesUseTex = false;  // its texture has no widths for large scales
  const auto set = [&](ImGuiCol which, uint32_t rgb, double opacity = 1) {
    style.Colors[which] = colour4(rgb, opacity);
  };
  for (ImVec4& c : style.Colors) c = colour4(t.raised);
  set(ImGuiCol_Text, t.plot.text);
  set(ImGuiCol_TextDisabled, t.plot.muted);
  set(ImGuiCol_WindowBg, t.window);
  // Only panels paint a background; children do not paint the same colour again, since without a
  // graphics card every pixel costs time.
  set(ImGuiCol_ChildBg, t.panel, 0);
  set(ImGuiCol_PopupBg, t.panel);
  set(ImGuiCol_Border, t.border);
  set(ImGuiCol_BorderShadow, t.border, 0);
  set(ImGuiCol_FrameBg, t.raised);
  set(ImGuiCol_FrameBgHovered, t.hover);
  set(ImGuiCol_FrameBgActive, t.active);
  set(ImGuiCol_Button, t.raised);
  set(ImGuiCol_ButtonHovered, t.hover);
  set(ImGuiCol_ButtonActive, t.active);
  set(ImGuiCol_Header, t.accent, 0.16);
  set(ImGuiCol_HeaderHovered, t.accent, 0.10);
  set(ImGuiCol_HeaderActive, t.accent, 0.24);
  set(ImGuiCol_CheckMark, t.accent);
  set(ImGuiCol_SliderGrab, t.accent);
  set(ImGuiCol_SliderGrabActive, t.accent);
  set(ImGuiCol_ScrollbarBg, t.panel, 0);
  set(ImGuiCol_ScrollbarGrab, t.active);
  set(ImGuiCol_ScrollbarGrabHovered, t.plot.rule);
  set(ImGuiCol_ScrollbarGrabActive, t.plot.rule);
  set(ImGuiCol_Separator, t.border);
  set(ImGuiCol_TableHeaderBg, t.raised);
  set(ImGuiCol_TableBorderStrong, t.border);
  set(ImGuiCol_TableBorderLight, t.border, 0.6);
  set(ImGuiCol_TableRowBg, t.panel, 0);
  set(ImGuiCol_TableRowBgAlt, t.raised, 0.45);
  set(ImGuiCol_TextSelectedBg, t.accent, 0.3);
  set(ImGuiCol_PlotHistogram, t.accent);
  set(ImGuiCol_NavHighlight, t.accent);
  set(ImGuiCol_ModalWindowDimBg, 0x000000, 0.4);
  set(ImGuiCol_ResizeGrip, t.border, 0);
  ImGui::GetStyle() = style;
}

Fonts load_fonts(float scale, const std::string& family_folder) {
  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.Flags |= ImFontAtlasFlags_NoBakedLines;
  Fonts fonts;
  const std::string folder = family_folder.empty() ? font_folder() : family_folder;
  const auto there = [&](const char* file) {
    std::error_code error;
    return std::filesystem::is_regular_file(folder + "/" + file, error);
  };
  for (const Family& f : kFamilies) {
    if (!there(f.regular) || !there(f.bold)) continue;
    const auto load = [&](const char* file, float size) {
      ImFontConfig config;
      config.OversampleH = config.OversampleV = 1;
      config.PixelSnapH = true;
      // Light hinting keeps stems sharp without changing the letters' widths.
      config.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
      return atlas.AddFontFromFileTTF((folder + "/" + file).c_str(), std::round(size * scale),
                                      &config, kGlyphs);
    };
    fonts = {load(f.regular, 14), load(f.bold, 14), load(f.regular, 12),
             load(f.bold, 12),    load(f.bold, 17), f.name};
    break;
  }
  if (!fonts.body) {  // a bitmap of 13 pixels: better than nothing
    ImFontConfig config;
    config.SizePixels = std::round(13 * scale);
    ImFont* own = atlas.AddFontDefault(&config);
    fonts = {own, own, own, own, own, "built-in"};
  }
  atlas.Build();
  return fonts;
}

}  // namespace wide
