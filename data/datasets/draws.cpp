#include "data/datasets/draws.h"

namespace wide {
namespace {

uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t draw_bits(uint64_t seed, std::string_view what, uint64_t index) {
  uint64_t key = mixed(seed);
  for (const char c : what) key = mixed(key ^ static_cast<unsigned char>(c));
  return mixed(key + mixed(index));
}

double uniform_draw(uint64_t seed, std::string_view what, uint64_t index) {
  return static_cast<double>(draw_bits(seed, what, index) >> 11) * 0x1p-53;
}

}  // namespace wide
