#include "data/networks/pt2/convert.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/scalar_tensor.h>

#include "data/networks/pt2/enumerations.h"
#include "engine/error.h"

namespace wide::pt2 {
namespace {

using K = Argument::Kind;

/// `kind`: integer, real or boolean.
std::optional<c10::IValue> number(const Item& item, K kind, c10::TypeKind type) {
  if (type == c10::TypeKind::NumberType) return number_value(item, kind);
  if (type == c10::TypeKind::FloatType) {
    if (kind == K::boolean) return std::nullopt;
    return c10::IValue(kind == K::real ? item.real : static_cast<double>(item.integer));
  }
  if (kind == K::real) return std::nullopt;
  if (type == c10::TypeKind::BoolType) return c10::IValue(item.integer != 0);
  if (type == c10::TypeKind::IntType || type == c10::TypeKind::SymIntType)
    return c10::IValue(item.integer);
  return std::nullopt;
}

std::optional<c10::IValue> number_list(const Argument& a, c10::TypeKind element,
                                       std::optional<int32_t> length) {
  std::vector<c10::IValue> values;
  for (const Item& item : a.items) {
    const auto value = number(item, a.kind, element);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  // As in PyTorch, one number may be given for a list of fixed length.
  if (!a.list && length) values.resize(static_cast<size_t>(*length), values.front());
  const auto of = [&](auto list, auto value_of) {
    for (const c10::IValue& v : values) list.push_back(value_of(v));
    return c10::IValue(std::move(list));
  };
  switch (element) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return of(std::vector<int64_t>(), [](const c10::IValue& v) { return v.toInt(); });
    case c10::TypeKind::FloatType:
      return of(std::vector<double>(), [](const c10::IValue& v) { return v.toDouble(); });
    case c10::TypeKind::BoolType:
      return of(c10::List<bool>(), [](const c10::IValue& v) { return v.toBool(); });
    default:
      return std::nullopt;
  }
}

}  // namespace

at::ScalarType Setting::dtype(at::ScalarType exported) const {
  if (exported == from) return to;
  // Complex dtypes change with f32 to f64; LibTorch has none for the other floating dtypes.
  if (from == at::kFloat && to == at::kDouble && exported == at::kComplexFloat)
    return at::kComplexDouble;
  return exported;
}

at::Tensor Setting::apply(const at::Tensor& constant) const {
  return constant.to(device, dtype(constant.scalar_type()));
}

bool holds_numbers(const Argument& a) {
  return a.kind == K::integer || a.kind == K::real || a.kind == K::boolean;
}

c10::IValue number_value(const Item& item, Argument::Kind kind) {
  if (kind == K::real) return item.real;
  if (kind == K::boolean) return item.integer != 0;
  return item.integer;
}

at::Tensor number_tensor(const c10::IValue& number) {
  return at::native::wrapped_scalar_tensor(number.toScalar());
}

std::optional<c10::IValue> constant(const Argument& a, const c10::TypePtr& type,
                                    std::optional<int32_t> length, const Setting& setting) {
  if (const auto optional = type->cast<c10::OptionalType>()) {
    if (a.kind == K::none) return c10::IValue();
    return constant(a, optional->getElementType(), length, setting);
  }
  const c10::TypeKind kind = type->kind();
  switch (a.kind) {
    case K::none:
      // An undefined tensor, as for a missing bias.
      if (kind == c10::TypeKind::TensorType) return c10::IValue(at::Tensor());
      return std::nullopt;
    case K::integer:
    case K::real:
    case K::boolean:
      if (const auto list = type->cast<c10::ListType>())
        return number_list(a, list->getElementType()->kind(), length);
      if (a.list) return std::nullopt;
      return number(a.items.front(), a.kind, kind);
    case K::complex:
      if (kind != c10::TypeKind::NumberType) return std::nullopt;
      return c10::IValue(c10::complex<double>(a.items[0].real, a.items[1].real));
    case K::text:
      if (a.list || kind != c10::TypeKind::StringType) return std::nullopt;
      return c10::IValue(a.text);
    case K::dtype: {
      const at::ScalarType exported = scalar_type(static_cast<Dtype>(a.items.front().integer));
      if (kind != c10::TypeKind::IntType || exported == at::ScalarType::Undefined)
        return std::nullopt;
      return c10::IValue(static_cast<int64_t>(setting.dtype(exported)));
    }
    case K::memory_format: {
      const auto format = memory_format(a.items.front().integer);
      if (kind != c10::TypeKind::IntType || !format) return std::nullopt;
      return c10::IValue(static_cast<int64_t>(*format));
    }
    case K::layout:
      if (kind != c10::TypeKind::IntType || a.items.front().integer != kStridedLayout)
        return std::nullopt;
      return c10::IValue(static_cast<int64_t>(at::kStrided));
    case K::device:
      // The device of the export is ignored: all tensors lie on the weights' device.
      if (kind != c10::TypeKind::DeviceObjType) return std::nullopt;
      return c10::IValue(setting.device);
    case K::tensor:
    case K::graph:
    case K::other:
      break;
  }
  return std::nullopt;
}

}  // namespace wide::pt2
