#include "app/explorer/window/raster.h"

#include <algorithm>
#include <cmath>

#include "app/explorer/ui/image.h"

namespace wide {
namespace {

/// The fonts' texture: one byte of coverage per texel.
class Atlas {
 public:
  Atlas() { ImGui::GetIO().Fonts->GetTexDataAsAlpha8(&texels_, &width_, &height_); }

  /// Bilinear interpolation between four texels.
  float at(float u, float v) const {
    const float x = u * static_cast<float>(width_) - 0.5f,
                y = v * static_cast<float>(height_) - 0.5f;
    const float left = std::floor(x), top = std::floor(y), across = x - left, down = y - top;
    const auto texel = [&](float i, float k) {
      const int column = std::clamp(static_cast<int>(i), 0, width_ - 1);
      const int row = std::clamp(static_cast<int>(k), 0, height_ - 1);
      return static_cast<float>(texels_[row * width_ + column]) / 255;
    };
    const float upper = texel(left, top) * (1 - across) + texel(left + 1, top) * across;
    const float lower = texel(left, top + 1) * (1 - across) + texel(left + 1, top + 1) * across;
    return upper * (1 - down) + lower * down;
  }

 private:
  unsigned char* texels_ = nullptr;
  int width_ = 0, height_ = 0;
};

/// Twice the signed area of a triangle; the sign is its orientation.
float area(ImVec2 a, ImVec2 b, ImVec2 c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/// Whether a triangle draws the pixels on this edge: of two that share an edge only one does.
bool owns_edge(ImVec2 from, ImVec2 to) {
  return to.y < from.y || (to.y == from.y && to.x > from.x);
}

class Raster {
 public:
  Raster(int width, int height, const ImVec4& background)
      : pixels_{width, height,
                std::vector<uint8_t>(static_cast<size_t>(width) * size_t(height) * 3)} {
    const float channels[] = {background.x, background.y, background.z};
    for (size_t i = 0; i < pixels_.rgb.size(); ++i)
      pixels_.rgb[i] = static_cast<uint8_t>(std::lround(255 * channels[i % 3]));
  }

  void triangle(const ImDrawVert& a, ImDrawVert b, ImDrawVert c, const ImVec4& clip) {
    float twice = area(a.pos, b.pos, c.pos);
    if (twice == 0) return;
    if (twice < 0) {
      std::swap(b, c);
      twice = -twice;
    }
    const auto bounds = [](float x, float y, float z, float from, float to) {
      const float low = std::max(std::min({x, y, z}), from),
                  high = std::min(std::max({x, y, z}), to);
      return std::pair(static_cast<int>(std::floor(low)), static_cast<int>(std::ceil(high)));
    };
    const auto [left, right] = bounds(a.pos.x, b.pos.x, c.pos.x, std::max(0.0f, clip.x),
                                      std::min(static_cast<float>(pixels_.width), clip.z));
    const auto [top, bottom] = bounds(a.pos.y, b.pos.y, c.pos.y, std::max(0.0f, clip.y),
                                      std::min(static_cast<float>(pixels_.height), clip.w));
    const bool own[] = {owns_edge(b.pos, c.pos), owns_edge(c.pos, a.pos), owns_edge(a.pos, b.pos)};
    for (int y = top; y < bottom; ++y)
      for (int x = left; x < right; ++x) {
        const ImVec2 p{static_cast<float>(x) + 0.5f, static_cast<float>(y) + 0.5f};
        const float of[] = {area(b.pos, c.pos, p), area(c.pos, a.pos, p), area(a.pos, b.pos, p)};
        bool inside = true;
        for (int k = 0; k < 3; ++k) inside &= of[k] > 0 || (of[k] == 0 && own[k]);
        if (inside) blend(x, y, a, b, c, of[0] / twice, of[1] / twice, of[2] / twice);
      }
  }

  /// Sets the image of the next triangles; null: the fonts' texture.
  void show(const Image* image) { image_ = image; }
  Pixels take() { return std::move(pixels_); }

 private:
  void blend(int x, int y, const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c, float wa,
             float wb, float wc) {
    const auto channel = [&](int shift) {
      const auto of = [shift](ImU32 colour) { return static_cast<float>(colour >> shift & 0xFF); };
      return wa * of(a.col) + wb * of(b.col) + wc * of(c.col);
    };
    const float u = wa * a.uv.x + wb * b.uv.x + wc * c.uv.x;
    const float v = wa * a.uv.y + wb * b.uv.y + wc * c.uv.y;
    const ImU32 texel = image_ ? nearest(u, v) : IM_COL32_WHITE;
    const auto tinted = [&](int shift) {
      return channel(shift) * static_cast<float>(texel >> shift & 0xFF) / 255;
    };
    const float cover = image_ ? 1 : atlas_.at(u, v);
    const float opacity = cover * tinted(IM_COL32_A_SHIFT) / 255;
    uint8_t* pixel = &pixels_.rgb[3 * (static_cast<size_t>(y) * size_t(pixels_.width) + size_t(x))];
    const float drawn[] = {tinted(IM_COL32_R_SHIFT), tinted(IM_COL32_G_SHIFT),
                           tinted(IM_COL32_B_SHIFT)};
    for (int k = 0; k < 3; ++k)
      pixel[k] = static_cast<uint8_t>(
          std::clamp(std::lround(drawn[k] * opacity + static_cast<float>(pixel[k]) * (1 - opacity)),
                     0L, 255L));
  }

  ImU32 nearest(float u, float v) const {
    const auto place = [](float share, int size) {
      return std::clamp(static_cast<int>(share * static_cast<float>(size)), 0, size - 1);
    };
    const auto column = static_cast<size_t>(place(u, image_->width));
    const auto line = static_cast<size_t>(place(v, image_->height));
    return image_->rgba[line * static_cast<size_t>(image_->width) + column];
  }

  Atlas atlas_;
  const Image* image_ = nullptr;
  Pixels pixels_;
};

class PicturePlatform : public Platform {
 public:
  PicturePlatform(int width, int height) { resize(width, height); }
  float width() const override { return size_.x; }
  float height() const override { return size_.y; }
  void resize(int width, int height) override {
    size_ = {static_cast<float>(width), static_cast<float>(height)};
  }
  bool wait(Input&, double) override { return false; }
  void draw(ImDrawData* data, int, const ImVec4& background) override {
    data_ = data;
    background_ = background;
  }
  Pixels pixels() override { return data_ ? rasterise(*data_, background_) : Pixels(); }

 private:
  ImVec2 size_;
  const ImDrawData* data_ = nullptr;  // of the last frame, valid until the next one
  ImVec4 background_;
};

}  // namespace

Pixels rasterise(const ImDrawData& data, const ImVec4& background) {
  Raster raster(static_cast<int>(data.DisplaySize.x), static_cast<int>(data.DisplaySize.y),
                background);
  for (int l = 0; l < data.CmdListsCount; ++l) {
    const ImDrawList& list = *data.CmdLists[l];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      raster.show(image_of(command.TextureId));
      const ImDrawVert* vertices = list.VtxBuffer.Data + command.VtxOffset;
      const ImDrawIdx* indices = list.IdxBuffer.Data + command.IdxOffset;
      for (unsigned i = 0; i + 2 < command.ElemCount; i += 3)
        raster.triangle(vertices[indices[i]], vertices[indices[i + 1]], vertices[indices[i + 2]],
                        command.ClipRect);
    }
  }
  return raster.take();
}

std::unique_ptr<Platform> picture_platform(int width, int height) {
  return std::make_unique<PicturePlatform>(width, height);
}

}  // namespace wide
