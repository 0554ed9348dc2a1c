#include "data/exports/pt2_schema.h"

#include <cmath>
#include <sstream>

#include "data/networks/pt2/enumerations.h"
#include "engine/error.h"

namespace wide {
namespace {

using json = nlohmann::ordered_json;

int scalar_type_number(at::ScalarType type) {
  const pt2::Dtype dtype = pt2::dtype_of(type);
  if (dtype == pt2::Dtype::unknown)
    fail("[.pt2] dtype: got {}, expected one the format has; try --dtype f32", c10::toString(type));
  return static_cast<int>(dtype);
}

json device_json(c10::Device device) {
  return {{"type", c10::DeviceTypeName(device.type(), true)},
          {"index", device.has_index() ? json(device.index()) : json(nullptr)}};
}

json ints_json(const Sizes& sizes, const std::vector<BatchFormula>* formulas) {
  json list = json::array();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool depends = formulas && formulas->at(i).slope != 0;
    list.push_back(depends ? pt2_expression(formulas->at(i), sizes[i])
                           : json{{"as_int", sizes[i]}});
  }
  return list;
}

}  // namespace

nlohmann::ordered_json pt2_number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
  return x;
}

nlohmann::ordered_json pt2_constant(const c10::Argument& declared, const IValue& v,
                                    const std::string& op) {
  c10::TypePtr type = declared.real_type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (v.isNone() || (v.isTensor() && !v.toTensor().defined())) return {{"as_none", true}};
  if (v.isBool()) return {{"as_bool", v.toBool()}};
  if (v.isDouble()) return {{"as_float", pt2_number(v.toDouble())}};
  if (v.isString()) return {{"as_string", v.toStringRef()}};
  if (v.isDevice()) return {{"as_device", device_json(v.toDevice())}};
  if (v.isInt()) {
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        return {{"as_scalar_type", scalar_type_number(static_cast<at::ScalarType>(v.toInt()))}};
      case c10::TypeKind::LayoutType:
        return {{"as_layout",
                 static_cast<c10::Layout>(v.toInt()) == c10::kStrided ? pt2::kStridedLayout : 0}};
      case c10::TypeKind::MemoryFormatType:
        return {{"as_memory_format", pt2::number_of(static_cast<c10::MemoryFormat>(v.toInt()))}};
      default:
        return {{"as_int", v.toInt()}};
    }
  }
  if (v.isComplexDouble())
    return {{"as_complex",
             {{"real", pt2_number(v.toComplexDouble().real())},
              {"imag", pt2_number(v.toComplexDouble().imag())}}}};
  if (v.isIntList()) return {{"as_ints", v.toIntVector()}};
  if (v.isBoolList()) {
    json list = json::array();
    for (const bool b : v.toBoolList()) list.push_back(b);
    return {{"as_bools", list}};
  }
  if (v.isList()) {
    json list = json::array();
    std::string kind = "as_ints";
    for (const IValue& e : v.toListRef()) {
      if (e.isInt()) {
        list.push_back(e.toInt());
      } else if (e.isDouble()) {
        kind = "as_floats", list.push_back(pt2_number(e.toDouble()));
      } else if (e.isString()) {
        kind = "as_strings", list.push_back(e.toStringRef());
      } else {
        fail(
            "[{}] argument {}: got a list of {}, expected numbers or strings; try --export wide.ts",
            op, declared.name(), e.tagKind());
      }
    }
    return {{kind, list}};
  }
  fail("[{}] argument {}: got a {}, expected a number, string, list or device; try another model",
       op, declared.name(), v.tagKind());
}

bool pt2_is_default(const c10::Argument& declared, const wide::Argument& given) {
  if (given.kind != wide::Argument::Kind::constant || !declared.default_value()) return false;
  const IValue& otherwise = *declared.default_value();
  if (otherwise.isNone() || given.constant.isNone())
    return otherwise.isNone() && given.constant.isNone();
  if (otherwise.tagKind() != given.constant.tagKind()) return false;
  std::ostringstream a, b;
  a << otherwise, b << given.constant;
  return a.str() == b.str();
}

nlohmann::ordered_json pt2_expression(const BatchFormula& formula, int64_t hint) {
  // In the notation of sympy's srepr, which PyTorch reads.
  std::string text = fmt::format("Symbol('{}', positive=True, integer=True)", kBatchSymbol);
  if (formula.slope != 1) text = fmt::format("Mul(Integer({}), {})", formula.slope, text);
  if (formula.constant != 0) text = fmt::format("Add({}, Integer({}))", text, formula.constant);
  return {{"as_expr", {{"expr_str", text}, {"hint", {{"as_int", hint}}}}}};
}

nlohmann::ordered_json pt2_tensor_meta(const Value& value, bool requires_grad,
                                       const ValueFormulas* formulas) {
  return {{"dtype", scalar_type_number(value.dtype)},
          {"sizes", ints_json(value.sizes, formulas ? &formulas->sizes : nullptr)},
          {"requires_grad", requires_grad},
          {"device", device_json(value.device)},
          {"strides", ints_json(value.strides, formulas ? &formulas->strides : nullptr)},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", pt2::kStridedLayout}};
}

}  // namespace wide
