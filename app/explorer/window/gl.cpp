#include "app/explorer/window/gl.h"

#include <backends/imgui_impl_opengl3.h>
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

// Never unloaded: drivers' threads and exit handlers still run their code.
SharedLibrary::~SharedLibrary() = default;

void* SharedLibrary::symbol(const char* name) {
  void* found = dlsym(handle_, name);
  if (!found)
    throw Error(fmt::format("[explorer] {}: got one without {}, expected a newer one; try an "
                            "update of the system",
                            file_, name),
                6);
  return found;
}

namespace {

using Enum = unsigned;
constexpr Enum kVersion = 0x1F02, kColorBuffer = 0x4000, kRgb = 0x1907, kByte = 0x1401,
               kFramebuffer = 0x8D40, kRenderbuffer = 0x8D41, kColor0 = 0x8CE0, kRgba8 = 0x8058,
               kPackAlignment = 0x0D05, kMajor = 0x821B, kTexture2D = 0x0DE1, kRgba = 0x1908,
               kFilterSmaller = 0x2801, kFilterLarger = 0x2800;
constexpr int kNearest = 0x2600;

}  // namespace

struct GlRenderer::Functions {
  SharedLibrary library{"libGL.so.1", "OpenGL", "libgl1"};
  const unsigned char* (*string)(Enum) = nullptr;
  void (*integer)(Enum, int*) = nullptr;
  Enum (*error)() = nullptr;
  void (*finish)() = nullptr;
  void (*viewport)(int, int, int, int) = nullptr;
  void (*clear_colour)(float, float, float, float) = nullptr;
  void (*clear)(Enum) = nullptr;
  void (*read)(int, int, int, int, Enum, Enum, void*) = nullptr;
  void (*store)(Enum, int) = nullptr;
  void (*gen_textures)(int, Enum*) = nullptr;
  void (*delete_textures)(int, const Enum*) = nullptr;
  void (*bind_texture)(Enum, Enum) = nullptr;
  void (*texture_parameter)(Enum, Enum, int) = nullptr;
  void (*texture_image)(Enum, int, int, int, int, int, Enum, Enum, const void*) = nullptr;
  void (*(*address)(const unsigned char*))() = nullptr;
  void (*gen_framebuffers)(int, Enum*) = nullptr;
  void (*bind_framebuffer)(Enum, Enum) = nullptr;
  void (*gen_renderbuffers)(int, Enum*) = nullptr;
  void (*bind_renderbuffer)(Enum, Enum) = nullptr;
  void (*storage)(Enum, Enum, int, int) = nullptr;
  void (*attach)(Enum, Enum, Enum, Enum) = nullptr;

  Functions() {
    library.load(&string, "glGetString");
    library.load(&integer, "glGetIntegerv");
    library.load(&error, "glGetError");
    library.load(&finish, "glFinish");
    library.load(&viewport, "glViewport");
    library.load(&clear_colour, "glClearColor");
    library.load(&clear, "glClear");
    library.load(&read, "glReadPixels");
    library.load(&store, "glPixelStorei");
    library.load(&gen_textures, "glGenTextures");
    library.load(&delete_textures, "glDeleteTextures");
    library.load(&bind_texture, "glBindTexture");
    library.load(&texture_parameter, "glTexParameteri");
    library.load(&texture_image, "glTexImage2D");
    library.load(&address, "glXGetProcAddressARB");
  }
  template <class F>
  void extension(F** function, const char* name) const {
    *function = reinterpret_cast<F*>(address(reinterpret_cast<const unsigned char*>(name)));
  }
};

GlRenderer::GlRenderer() : gl_(std::make_unique<Functions>()) {
  const unsigned char* text = gl_->string(kVersion);
  const std::string version = text ? reinterpret_cast<const char*>(text) : "no context";
  int major = 0;
  if (text) gl_->integer(kMajor, &major);
  while (gl_->error() != 0 && text) {  // older versions do not know this query
  }
  if (major < 3)
    throw Error(fmt::format("[explorer] OpenGL: got {}, expected 3.0 or newer; try "
                            "LIBGL_ALWAYS_SOFTWARE=1 workbench",
                            printable(version)),
                6);
}

GlRenderer::~GlRenderer() {
  if (ImGui::GetCurrentContext() && ImGui::GetIO().BackendRendererUserData)
    ImGui_ImplOpenGL3_Shutdown();
}

void GlRenderer::make_target(int width, int height) {
  gl_->extension(&gl_->gen_framebuffers, "glGenFramebuffers");
  gl_->extension(&gl_->bind_framebuffer, "glBindFramebuffer");
  gl_->extension(&gl_->gen_renderbuffers, "glGenRenderbuffers");
  gl_->extension(&gl_->bind_renderbuffer, "glBindRenderbuffer");
  gl_->extension(&gl_->storage, "glRenderbufferStorage");
  gl_->extension(&gl_->attach, "glFramebufferRenderbuffer");
  Enum buffer = 0, image = 0;
  gl_->gen_framebuffers(1, &buffer);
  gl_->bind_framebuffer(kFramebuffer, buffer);
  gl_->gen_renderbuffers(1, &image);
  gl_->bind_renderbuffer(kRenderbuffer, image);
  gl_->storage(kRenderbuffer, kRgba8, width, height);
  gl_->attach(kFramebuffer, kColor0, kRenderbuffer, image);
}

/// Uploads new images of this frame as textures, and puts their numbers into the draw commands.
/// Returns the replaced ids. Deletes textures that this frame does not use.
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
        gl_->gen_textures(1, &texture);
        gl_->bind_texture(kTexture2D, texture);
        gl_->texture_parameter(kTexture2D, kFilterSmaller, kNearest);
        gl_->texture_parameter(kTexture2D, kFilterLarger, kNearest);
        gl_->texture_image(kTexture2D, 0, static_cast<int>(kRgba), image->width, image->height, 0,
                           kRgba, kByte, image->rgba.data());
      }
      changed.emplace_back(&command, command.TextureId);
      command.TextureId = reinterpret_cast<ImTextureID>(static_cast<uintptr_t>(texture));
    }
  std::erase_if(textures_, [&](const auto& entry) {
    if (seen.count(entry.first)) return false;
    gl_->delete_textures(1, &entry.second);
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
    // Sets the fonts' texture, whose number was unknown when the draw data was recorded.
    for (int i = 0; i < data->CmdListsCount; ++i)
      for (ImDrawCmd& command : data->CmdLists[i]->CmdBuffer)
        if (!image_of(command.TextureId)) command.TextureId = ImGui::GetIO().Fonts->TexID;
  }
  gl_->viewport(0, 0, static_cast<int>(data->DisplaySize.x), static_cast<int>(data->DisplaySize.y));
  gl_->clear_colour(background.x, background.y, background.z, 1);
  gl_->clear(kColorBuffer);
  const std::vector<std::pair<ImDrawCmd*, ImTextureID>> images = take_images(data);
  ImGui_ImplOpenGL3_RenderDrawData(data);
  for (const auto& [command, image] : images) command->TextureId = image;
  gl_->finish();
  while (const Enum code = gl_->error()) {
    if (errors_++ == 0) std::fprintf(stderr, "OpenGL error 0x%x\n", code);
    if (errors_ > 100) break;
  }
}

Pixels GlRenderer::read(int width, int height) {
  Pixels p{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
  std::vector<uint8_t> upside_down(p.rgb.size());
  gl_->store(kPackAlignment, 1);
  gl_->read(0, 0, width, height, kRgb, kByte, upside_down.data());
  const auto line = static_cast<size_t>(width * 3);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y)
    std::copy_n(upside_down.begin() + static_cast<ptrdiff_t>((size_t(height) - 1 - y) * line), line,
                p.rgb.begin() + static_cast<ptrdiff_t>(y * line));
  return p;
}

int GlRenderer::errors() { return errors_; }

}  // namespace wide
