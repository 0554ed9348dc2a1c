#include "tests/app/explorer/opengl_platform.h"

#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <fmt/format.h>

#include "app/explorer/window/gl.h"
#include "engine/error.h"

namespace wide {
namespace {

class Egl {
 public:
  Egl() {
    get_display_ =
        reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(address_("eglGetPlatformDisplayEXT"));
    devices_ = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(address_("eglQueryDevicesEXT"));
    for (const EGLDisplay display : displays())
      if (open(display)) return;
    throw Error(
        "[explorer] EGL: got no OpenGL 3 without a display, expected Mesa or a driver; try apt-get "
        "install libegl1 libgl1-mesa-dri",
        6);
  }
  ~Egl() {
    current_(display_, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    destroy_(display_, context_);
    terminate_(display_);
  }
  Egl(const Egl&) = delete;
  Egl& operator=(const Egl&) = delete;

  /// A function of OpenGL.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(address_(name));
  }

 private:
  /// Mesa's surfaceless platform first: every Mesa has it.
  std::vector<EGLDisplay> displays() const {
    std::vector<EGLDisplay> all;
    if (!get_display_) return all;
    all.push_back(get_display_(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr));
    EGLDeviceEXT devices[8];
    EGLint count = 0;
    if (devices_ && devices_(8, devices, &count))
      for (EGLint i = 0; i < count; ++i)
        all.push_back(get_display_(EGL_PLATFORM_DEVICE_EXT, devices[i], nullptr));
    return all;
  }

  bool open(EGLDisplay display) {
    if (display == EGL_NO_DISPLAY || !initialize_(display, nullptr, nullptr)) return false;
    const EGLint wanted[] = {EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_SURFACE_TYPE, 0, EGL_NONE};
    const EGLint version[] = {EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 0, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint count = 0;
    if (bind_(EGL_OPENGL_API) && choose_(display, wanted, &config, 1, &count) && count > 0) {
      context_ = create_(display, config, EGL_NO_CONTEXT, version);
      if (context_ && current_(display, EGL_NO_SURFACE, EGL_NO_SURFACE, context_)) {
        display_ = display;
        return true;
      }
      if (context_) destroy_(display, context_);
    }
    terminate_(display);
    return false;
  }

  SharedLibrary library_{"libEGL.so.1", "EGL", "libegl1"};
  decltype(eglGetProcAddress)* address_ =
      library_.function<decltype(eglGetProcAddress)>("eglGetProcAddress");
  decltype(eglInitialize)* initialize_ =
      library_.function<decltype(eglInitialize)>("eglInitialize");
  decltype(eglBindAPI)* bind_ = library_.function<decltype(eglBindAPI)>("eglBindAPI");
  decltype(eglChooseConfig)* choose_ =
      library_.function<decltype(eglChooseConfig)>("eglChooseConfig");
  decltype(eglCreateContext)* create_ =
      library_.function<decltype(eglCreateContext)>("eglCreateContext");
  decltype(eglMakeCurrent)* current_ =
      library_.function<decltype(eglMakeCurrent)>("eglMakeCurrent");
  decltype(eglDestroyContext)* destroy_ =
      library_.function<decltype(eglDestroyContext)>("eglDestroyContext");
  decltype(eglTerminate)* terminate_ = library_.function<decltype(eglTerminate)>("eglTerminate");
  PFNEGLGETPLATFORMDISPLAYEXTPROC get_display_ = nullptr;
  PFNEGLQUERYDEVICESEXTPROC devices_ = nullptr;
  EGLDisplay display_ = EGL_NO_DISPLAY;
  EGLContext context_ = EGL_NO_CONTEXT;
};

/// OpenGL's renderer, which the window has, on a framebuffer of its own.
class OpenGlPlatform : public Platform {
 public:
  OpenGlPlatform(int width, int height) { resize(width, height); }
  float width() const override { return static_cast<float>(width_); }
  float height() const override { return static_cast<float>(height_); }
  void resize(int width, int height) override {
    constexpr unsigned kFramebuffer = 0x8D40, kRenderbuffer = 0x8D41, kColor0 = 0x8CE0,
                       kRgba8 = 0x8058;
    width_ = width;
    height_ = height;
    unsigned buffer = 0, image = 0;
    egl_.function<void(int, unsigned*)>("glGenFramebuffers")(1, &buffer);
    egl_.function<void(unsigned, unsigned)>("glBindFramebuffer")(kFramebuffer, buffer);
    egl_.function<void(int, unsigned*)>("glGenRenderbuffers")(1, &image);
    egl_.function<void(unsigned, unsigned)>("glBindRenderbuffer")(kRenderbuffer, image);
    egl_.function<void(unsigned, unsigned, int, int)>("glRenderbufferStorage")(
        kRenderbuffer, kRgba8, width, height);
    egl_.function<void(unsigned, unsigned, unsigned, unsigned)>("glFramebufferRenderbuffer")(
        kFramebuffer, kColor0, kRenderbuffer, image);
  }
  bool wait(Input&, double) override { return false; }
  void draw(ImDrawData* data, int fonts, const ImVec4& background) override {
    renderer_.draw(data, fonts, background);
  }
  Pixels pixels() override { return renderer_.read(width_, height_); }
  int gl_errors() override { return renderer_.errors(); }

 private:
  int width_ = 0, height_ = 0;
  Egl egl_;
  GlRenderer renderer_;
};

}  // namespace

std::unique_ptr<Platform> opengl_platform(int width, int height) {
  return std::make_unique<OpenGlPlatform>(width, height);
}

}  // namespace wide
