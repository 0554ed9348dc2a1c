#include "app/explorer/window/gl.h"

#include <backends/imgui_impl_opengl3.h>
#include <backends/imgui_impl_opengl3_loader.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "app/explorer/ui/image.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

SharedLibrary::SharedLibrary(const char* file, const char* what, const char* package)
    : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)), file_(file) {
  if (!handle_)
    throw Error(fmt::format("[explorer] {}: got no {}, expected it installed; try apt-get install "
                            "{}, or workbench --help for what works without a window",
                            what, file, package),
                6);
}

void* SharedLibrary::symbol(const char* name) const {
  void* found = dlsym(handle_, name);
  if (!found)
    throw Error(fmt::format("[explorer] {}: got one without {}, expected a newer one; try an "
                            "update of the system",
                            file_, name),
                6);
  return found;
}

namespace {

// Constants of OpenGL that ImGui's own renderer does not use.
constexpr int kNearest = 0x2600;
constexpr GLenum kRgb = 0x1907;

}  // namespace

GlRenderer::GlRenderer() {
  const bool recent = imgl3wInit() == GL3W_OK;
  const GLubyte* text = glGetString ? glGetString(GL_VERSION) : nullptr;
  const std::string version = text ? reinterpret_cast<const char*>(text) : "no context";
  while (text && glGetError() != 0) {  // of the query in imgl3wInit, before OpenGL 3.0
  }
  if (!recent)
    throw Error(fmt::format("[explorer] OpenGL: got {}, expected 3.0 or newer; try "
                            "LIBGL_ALWAYS_SOFTWARE=1 workbench",
                            printable(version)),
                6);
}

GlRenderer::~GlRenderer() {
  if (ImGui::GetCurrentContext() && ImGui::GetIO().BackendRendererUserData)
    ImGui_ImplOpenGL3_Shutdown();
}

/// Uploads the images that are new in this frame, and sets their OpenGL textures in the draw
/// commands. Returns these commands with their former ids, which `draw` restores. Deletes unused
/// textures.
std::vector<std::pair<ImDrawCmd*, ImTextureID>> GlRenderer::take_images(ImDrawData* data) {
  std::vector<std::pair<ImDrawCmd*, ImTextureID>> changed;
  std::set<uint64_t> seen;
  for (int i = 0; i < data->CmdListsCount; ++i)
    for (ImDrawCmd& command : data->CmdLists[i]->CmdBuffer) {
      const Image* image = image_of(command.TextureId);
      if (!image) continue;
      seen.insert(image->version);
      unsigned& texture = textures_[image->version];
      if (texture == 0) {
        glGenTextures(1, &texture);
        glBindTexture(GL_TEXTURE_2D, texture);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, kNearest);
        glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, kNearest);
        glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA, image->width, image->height, 0, GL_RGBA,
                     GL_UNSIGNED_BYTE, image->rgba.data());
      }
      changed.emplace_back(&command, command.TextureId);
      command.TextureId = reinterpret_cast<ImTextureID>(static_cast<uintptr_t>(texture));
    }
  std::erase_if(textures_, [&](const auto& entry) {
    if (seen.count(entry.first)) return false;
    glDeleteTextures(1, &entry.second);
    return true;
  });
  return changed;
}

void GlRenderer::draw(ImDrawData* data, int fonts, const ImVec4& background) {
  if (fonts_ < 0) ImGui_ImplOpenGL3_Init("#version 130");  // late, since it needs ImGui's context
  if (fonts != fonts_) {
    if (fonts_ >= 0) ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_NewFrame();  // creates OpenGL objects if there are none
    if (fonts_ >= 0) ImGui_ImplOpenGL3_CreateFontsTexture();
    fonts_ = fonts;
    // The draw data was recorded before the font texture existed: sets it now.
    for (int i = 0; i < data->CmdListsCount; ++i)
      for (ImDrawCmd& command : data->CmdLists[i]->CmdBuffer)
        if (!image_of(command.TextureId)) command.TextureId = ImGui::GetIO().Fonts->TexID;
  }
  glViewport(0, 0, static_cast<int>(data->DisplaySize.x), static_cast<int>(data->DisplaySize.y));
  glClearColor(background.x, background.y, background.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  const std::vector<std::pair<ImDrawCmd*, ImTextureID>> images = take_images(data);
  ImGui_ImplOpenGL3_RenderDrawData(data);
  for (const auto& [command, image] : images) command->TextureId = image;
  finish_();
  while (const GLenum code = glGetError()) {
    if (errors_++ == 0) std::fprintf(stderr, "OpenGL error 0x%x\n", code);
    if (errors_ > 100) break;
  }
}

Pixels GlRenderer::read(int width, int height) {
  Pixels p{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
  std::vector<uint8_t> upside_down(p.rgb.size());
  glPixelStorei(GL_PACK_ALIGNMENT, 1);
  glReadPixels(0, 0, width, height, kRgb, GL_UNSIGNED_BYTE, upside_down.data());
  const auto line = static_cast<size_t>(width * 3);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y)
    std::copy_n(upside_down.begin() + static_cast<ptrdiff_t>((size_t(height) - 1 - y) * line), line,
                p.rgb.begin() + static_cast<ptrdiff_t>(y * line));
  return p;
}

}  // namespace wide
