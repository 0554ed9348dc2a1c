#include "data/networks/pt2/enumerations.h"

#include <utility>

namespace wide::pt2 {
namespace {

constexpr std::pair<Dtype, at::ScalarType> kDtypes[] = {{Dtype::u8, at::kByte},
                                                        {Dtype::i8, at::kChar},
                                                        {Dtype::i16, at::kShort},
                                                        {Dtype::i32, at::kInt},
                                                        {Dtype::i64, at::kLong},
                                                        {Dtype::f16, at::kHalf},
                                                        {Dtype::f32, at::kFloat},
                                                        {Dtype::f64, at::kDouble},
                                                        {Dtype::c32, at::kComplexHalf},
                                                        {Dtype::c64, at::kComplexFloat},
                                                        {Dtype::c128, at::kComplexDouble},
                                                        {Dtype::boolean, at::kBool},
                                                        {Dtype::bf16, at::kBFloat16},
                                                        {Dtype::u16, at::kUInt16},
                                                        {Dtype::f8_e4m3fn, at::kFloat8_e4m3fn},
                                                        {Dtype::f8_e5m2, at::kFloat8_e5m2},
                                                        {Dtype::f8_e4m3fnuz, at::kFloat8_e4m3fnuz},
                                                        {Dtype::f8_e5m2fnuz, at::kFloat8_e5m2fnuz}};

constexpr std::pair<int64_t, at::MemoryFormat> kMemoryFormats[] = {
    {1, at::MemoryFormat::Contiguous},
    {2, at::MemoryFormat::ChannelsLast},
    {3, at::MemoryFormat::ChannelsLast3d},
    {4, at::MemoryFormat::Preserve}};

}  // namespace

at::ScalarType scalar_type(Dtype dtype) {
  for (const auto& [ours, theirs] : kDtypes)
    if (ours == dtype) return theirs;
  return at::ScalarType::Undefined;
}

Dtype dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kDtypes)
    if (theirs == type) return ours;
  return Dtype::unknown;
}

std::optional<at::MemoryFormat> memory_format(int64_t number) {
  for (const auto& [ours, theirs] : kMemoryFormats)
    if (ours == number) return theirs;
  return std::nullopt;
}

int64_t number_of(at::MemoryFormat format) {
  for (const auto& [ours, theirs] : kMemoryFormats)
    if (theirs == format) return ours;
  return 0;
}

}  // namespace wide::pt2
