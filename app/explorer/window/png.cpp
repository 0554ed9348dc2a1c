#include "app/explorer/window/png.h"

#include <fmt/format.h>

#include "data/reports/report_format.h"
#include "data/text.h"
#include "engine/error.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

namespace wide {

std::string png_bytes(const Pixels& pixels) {
  std::string bytes;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                          static_cast<size_t>(size));
  };
  stbi_write_png_compression_level = 9;
  stbi_write_png_to_func(append, &bytes, pixels.width, pixels.height, 3, pixels.rgb.data(),
                         3 * pixels.width);
  return bytes;
}

void write_png(const std::string& path, const Pixels& pixels) {
  const std::string bytes = png_bytes(pixels);
  if (bytes.empty())
    fail("[{}] picture: got {} x {} pixels, expected some; try a larger window", printable(path),
         pixels.width, pixels.height);
  write_report(path, bytes);
}

}  // namespace wide
