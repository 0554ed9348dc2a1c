#include "app/explorer/window/window.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "app/explorer/window/gl.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

/// The functions of GLFW that are used.
struct Glfw {
  SharedLibrary library{"libglfw.so.3", "window", "libglfw3"};
#define WIDE_GLFW(name) \
  decltype(glfw##name)* name = library.function<decltype(glfw##name)>("glfw" #name)
  WIDE_GLFW(Init);
  WIDE_GLFW(Terminate);
  WIDE_GLFW(GetError);
  WIDE_GLFW(WindowHint);
  WIDE_GLFW(WindowHintString);
  WIDE_GLFW(CreateWindow);
  WIDE_GLFW(DestroyWindow);
  WIDE_GLFW(MakeContextCurrent);
  WIDE_GLFW(SwapInterval);
  WIDE_GLFW(SwapBuffers);
  WIDE_GLFW(WindowShouldClose);
  WIDE_GLFW(PollEvents);
  WIDE_GLFW(WaitEventsTimeout);
  WIDE_GLFW(PostEmptyEvent);
  WIDE_GLFW(GetFramebufferSize);
  WIDE_GLFW(GetWindowSize);
  WIDE_GLFW(GetWindowContentScale);
  WIDE_GLFW(GetPrimaryMonitor);
  WIDE_GLFW(GetMonitorWorkarea);
  WIDE_GLFW(SetWindowSize);
  WIDE_GLFW(SetWindowSizeLimits);
  WIDE_GLFW(SetWindowUserPointer);
  WIDE_GLFW(GetWindowUserPointer);
  WIDE_GLFW(SetCursorPosCallback);
  WIDE_GLFW(SetCursorEnterCallback);
  WIDE_GLFW(SetMouseButtonCallback);
  WIDE_GLFW(SetScrollCallback);
  WIDE_GLFW(SetKeyCallback);
  WIDE_GLFW(SetCharCallback);
  WIDE_GLFW(SetDropCallback);
  WIDE_GLFW(SetWindowFocusCallback);
  WIDE_GLFW(SetWindowRefreshCallback);
  WIDE_GLFW(SetClipboardString);
  WIDE_GLFW(GetClipboardString);
  WIDE_GLFW(CreateStandardCursor);
  WIDE_GLFW(SetCursor);
#undef WIDE_GLFW
};

constexpr float kLeastWidth = 560, kLeastHeight = 380;  // units

class WindowPlatform : public Platform {
 public:
  WindowPlatform(int width, int height, bool scaled) {
    if (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY"))
      refuse("display", "none (DISPLAY is not set)", "a desktop");
    if (!glfw_.Init()) refuse("display", reason(), "a desktop");
    glfw_.WindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfw_.WindowHint(GLFW_CONTEXT_VERSION_MINOR, 0);
    glfw_.WindowHint(GLFW_DOUBLEBUFFER, GLFW_TRUE);
    glfw_.WindowHint(GLFW_SCALE_TO_MONITOR, scaled ? GLFW_TRUE : GLFW_FALSE);
    glfw_.WindowHintString(GLFW_X11_CLASS_NAME, "workbench");
    window_ = glfw_.CreateWindow(width, height, "workbench", nullptr, nullptr);
    if (!window_) {
      const std::string why = reason();
      glfw_.Terminate();
      refuse("window", why, "one with 24-bit colours and OpenGL 3");
    }
    if (scaled) fit_monitor();
    glfw_.MakeContextCurrent(window_);
    glfw_.SwapInterval(1);
    // Minimum size: room for one panel.
    const float units = monitor_scale();
    glfw_.SetWindowSizeLimits(window_, static_cast<int>(kLeastWidth * units),
                              static_cast<int>(kLeastHeight * units), GLFW_DONT_CARE,
                              GLFW_DONT_CARE);
    try {
      renderer_ = std::make_unique<GlRenderer>();
    } catch (...) {
      glfw_.DestroyWindow(window_);
      glfw_.Terminate();
      throw;
    }
    listen();
  }

  ~WindowPlatform() override {
    renderer_.reset();
    glfw_.DestroyWindow(window_);
    glfw_.Terminate();
  }

  float width() const override { return static_cast<float>(size().first); }
  float height() const override { return static_cast<float>(size().second); }
  float monitor_scale() const override {
    float x = 1, y = 1;
    glfw_.GetWindowContentScale(window_, &x, &y);
    return x;
  }
  bool closing() const override { return glfw_.WindowShouldClose(window_) != 0; }
  void wake() override { glfw_.PostEmptyEvent(); }
  void resize(int width, int height) override { glfw_.SetWindowSize(window_, width, height); }

  bool wait(Input& input, double seconds) override {
    input_ = &input;
    acted_ = false;
    if (seconds > 0)
      glfw_.WaitEventsTimeout(seconds);
    else
      glfw_.PollEvents();
    input_ = nullptr;
    return acted_;
  }

  void draw(ImDrawData* data, int fonts, const ImVec4& background) override {
    if (data->DisplaySize.x > 0 && data->DisplaySize.y > 0)
      renderer_->draw(data, fonts, background);
  }
  void present() override { glfw_.SwapBuffers(window_); }
  Pixels pixels() override {
    const auto [w, h] = size();
    return renderer_->read(w, h);
  }
  int gl_errors() override { return renderer_->errors(); }
  void set_clipboard(const std::string& text) override {
    glfw_.SetClipboardString(window_, text.c_str());
  }
  std::string get_clipboard() override {
    const char* text = glfw_.GetClipboardString(window_);
    return text ? text : "";
  }
  void set_cursor(ImGuiMouseCursor cursor) override {
    const int shape = cursor == ImGuiMouseCursor_TextInput  ? GLFW_IBEAM_CURSOR
                      : cursor == ImGuiMouseCursor_ResizeEW ? GLFW_HRESIZE_CURSOR
                      : cursor == ImGuiMouseCursor_ResizeNS ? GLFW_VRESIZE_CURSOR
                      : cursor == ImGuiMouseCursor_Hand     ? GLFW_HAND_CURSOR
                                                            : GLFW_ARROW_CURSOR;
    if (shape == cursor_) return;
    cursor_ = shape;
    GLFWcursor*& made = cursors_[shape];
    if (!made) made = glfw_.CreateStandardCursor(shape);
    glfw_.SetCursor(window_, made);
  }

 private:
  [[noreturn]] static void refuse(const char* what, const std::string& got, const char* expected) {
    throw Error(fmt::format("[explorer] {}: got {}, expected {}; try workbench --sweep quick, or "
                            "workbench --screenshot FILE",
                            what, got, expected),
                6);
  }

  /// Makes the window no larger than the monitor's area without panels.
  void fit_monitor() {
    GLFWmonitor* monitor = glfw_.GetPrimaryMonitor();
    int x = 0, y = 0, most_wide = 0, most_high = 0, wide = 0, high = 0;
    if (monitor) glfw_.GetMonitorWorkarea(monitor, &x, &y, &most_wide, &most_high);
    glfw_.GetWindowSize(window_, &wide, &high);
    if (most_wide > 0 && most_high > 0 && (wide > most_wide || high > most_high))
      glfw_.SetWindowSize(window_, std::min(wide, most_wide), std::min(high, most_high));
  }

  std::string reason() const {
    const char* text = nullptr;
    glfw_.GetError(&text);
    return text ? printable(text) : "none";
  }

  std::pair<int, int> size() const {
    int w = 0, h = 0;
    glfw_.GetFramebufferSize(window_, &w, &h);
    return {w, h};
  }

  static WindowPlatform& of(GLFWwindow* window) {
    return *static_cast<WindowPlatform*>(current->GetWindowUserPointer(window));
  }
  /// The input that events go to, or null outside `wait`.
  static Input* input_of(GLFWwindow* window) {
    WindowPlatform& self = of(window);
    self.acted_ = true;
    return self.input_;
  }

  using Kind = InputEvent::Kind;
  static void tell(GLFWwindow* window, const InputEvent& event) {
    if (Input* input = input_of(window)) input->queue.push_back(event);
  }

  void listen() {
    current = &glfw_;
    glfw_.SetWindowUserPointer(window_, this);
    glfw_.SetCursorPosCallback(window_, [](GLFWwindow* w, double x, double y) {
      WindowPlatform& self = of(w);
      // Events are in the window's units, everything drawn in pixels.
      int units = 0, other = 0;
      self.glfw_.GetWindowSize(w, &units, &other);
      const double ratio = units > 0 ? self.size().first / static_cast<double>(units) : 1;
      tell(w, {Kind::move, 0, false, static_cast<float>(x * ratio), static_cast<float>(y * ratio)});
    });
    glfw_.SetCursorEnterCallback(window_, [](GLFWwindow* w, int entered) {
      if (!entered) tell(w, {Kind::move, 0, false, -1, -1});
    });
    glfw_.SetMouseButtonCallback(window_, [](GLFWwindow* w, int button, int action, int) {
      if (button >= 0 && button <= 2) tell(w, {Kind::button, button, action == GLFW_PRESS});
    });
    glfw_.SetScrollCallback(window_, [](GLFWwindow* w, double x, double y) {
      tell(w, {Kind::wheel, 0, false, static_cast<float>(x), static_cast<float>(y)});
    });
    glfw_.SetKeyCallback(window_, [](GLFWwindow* w, int key, int, int action, int) {
      if (key >= 0 && key < 512) tell(w, {Kind::key, key, action != GLFW_RELEASE});
    });
    glfw_.SetCharCallback(window_, [](GLFWwindow* w, unsigned c) {
      tell(w, {Kind::character, 0, false, 0, 0, static_cast<char32_t>(c)});
    });
    glfw_.SetDropCallback(window_, [](GLFWwindow* w, int count, const char** paths) {
      if (Input* i = input_of(w)) i->dropped.assign(paths, paths + count);
    });
    glfw_.SetWindowFocusCallback(window_, [](GLFWwindow* w, int focused) {
      Input* i = input_of(w);
      if (!i) return;
      i->focused = focused != 0;
      if (focused) return;
      i->queue.clear();
      i->keys.reset();  // the window without focus is not told of their release
    });
    glfw_.SetWindowRefreshCallback(window_, [](GLFWwindow* w) { input_of(w); });
  }

  static inline const Glfw* current = nullptr;

  Glfw glfw_;
  GLFWwindow* window_ = nullptr;
  std::unique_ptr<GlRenderer> renderer_;
  Input* input_ = nullptr;
  bool acted_ = false;
  int cursor_ = GLFW_ARROW_CURSOR;
  std::map<int, GLFWcursor*> cursors_;  // by shape; glfwTerminate destroys them
};

}  // namespace

std::unique_ptr<Platform> window_platform(int width, int height, bool scaled) {
  return std::make_unique<WindowPlatform>(width, height, scaled);
}

}  // namespace wide
