#pragma once
#include <memory>

#include "app/explorer/window/platform.h"

namespace wide {

/// Draws nothing, and nobody sits before it.
class NullPlatform : public Platform {
 public:
  NullPlatform(int width, int height)
      : width_(static_cast<float>(width)), height_(static_cast<float>(height)) {}
  float width() const override { return width_; }
  float height() const override { return height_; }
  void resize(int width, int height) override {
    width_ = static_cast<float>(width);
    height_ = static_cast<float>(height);
  }
  bool wait(Input&, double) override { return false; }
  void draw(ImDrawData*, int, const ImVec4&) override { ImGui::GetIO().Fonts->SetTexID(nullptr); }

 private:
  float width_, height_;
};

inline std::unique_ptr<Platform> null_platform(int width, int height) {
  return std::make_unique<NullPlatform>(width, height);
}

}  // namespace wide
