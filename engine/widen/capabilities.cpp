#include "engine/widen/capabilities.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/error.h"

namespace wide {
namespace {

using Dtypes = std::vector<at::ScalarType>;

std::map<std::string, Capabilities>& known_capabilities() {
  static std::map<std::string, Capabilities> all;
  return all;
}

bool among(const Dtypes& dtypes, at::ScalarType dtype) {
  return std::ranges::find(dtypes, dtype) != dtypes.end();
}

/// Whether the dtype is for numbers, not for masks and indices.
bool is_real(at::ScalarType dtype) { return at::isFloatingType(dtype) || at::isComplexType(dtype); }

/// The dtype as PyTorch's users write it.
std::string dtype_text(at::ScalarType dtype) {
  static const std::map<at::ScalarType, const char*> names{{at::kFloat, "float32"},
                                                           {at::kDouble, "float64"},
                                                           {at::kHalf, "float16"},
                                                           {at::kBFloat16, "bfloat16"},
                                                           {at::kComplexFloat, "complex64"},
                                                           {at::kComplexDouble, "complex128"},
                                                           {at::kLong, "int64"},
                                                           {at::kInt, "int32"},
                                                           {at::kShort, "int16"},
                                                           {at::kChar, "int8"},
                                                           {at::kByte, "uint8"},
                                                           {at::kBool, "bool"}};
  const auto found = names.find(dtype);
  return found == names.end() ? c10::toString(dtype) : found->second;
}

std::string dtypes_text(const Dtypes& dtypes) {
  std::vector<std::string> names;
  for (const at::ScalarType dtype : dtypes) names.push_back(dtype_text(dtype));
  return fmt::format("{}", fmt::join(names, " or "));
}

std::string on(c10::DeviceType device) {
  if (device == c10::kCPU) return "on the CPU";
  return fmt::format("on a {} device", c10::DeviceTypeName(device, /*lower_case=*/true));
}

}  // namespace

const Capabilities::Form* Capabilities::form_for(c10::DeviceType device) const {
  const auto found =
      std::ranges::find_if(forms, [&](const Form& form) { return form.device == device; });
  return found == forms.end() ? nullptr : &*found;
}

bool add_capabilities(const std::string& op, const Capabilities& part) {
  Capabilities& known = known_capabilities()[op];
  for (const Capabilities::Form& form : part.forms) {
    WIDE_ASSERT(!known.form_for(form.device), "{} has two forms {}", op, on(form.device));
    known.forms.push_back(form);
  }
  known.others.insert(known.others.end(), part.others.begin(), part.others.end());
  known.gradients |= part.gradients;
  return true;
}

const Capabilities& capabilities(const std::string& op) {
  const auto found = known_capabilities().find(op);
  WIDE_ASSERT(found != known_capabilities().end(), "{} has no registered capabilities", op);
  return found->second;
}

std::string text_of(const Capabilities& capabilities, const Dtypes& converts) {
  std::vector<std::string> words;
  for (const Capabilities::Form& form : capabilities.forms) {
    Dtypes dtypes = form.dtypes;
    dtypes.insert(dtypes.end(), converts.begin(), converts.end());
    if (!dtypes.empty()) words.push_back(dtypes_text(dtypes) + " " + on(form.device));
  }
  return fmt::format("{}", fmt::join(words, ", or "));
}

std::optional<Lack> lacks(const std::string& op, const Tensors& tensors, const Dtypes& converts) {
  const Capabilities& able = capabilities(op);
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    const at::ScalarType dtype = t.scalar_type();
    const Capabilities::Form* form = able.form_for(t.device().type());
    const bool known =
        form && (is_real(dtype) ? among(form->dtypes, dtype) || among(converts, dtype)
                                : among(able.others, dtype));
    if (!known)
      return Lack{dtype_text(dtype) + " " + on(t.device().type()),
                  !form || is_real(dtype) || able.others.empty() ? text_of(able, converts)
                                                                 : dtypes_text(able.others)};
    if (t.numel() == 0) return Lack{"a tensor without elements", "at least one element in each"};
    if (!able.gradients && at::GradMode::is_enabled())
      return Lack{"one that autograd records", "inference"};
  }
  return std::nullopt;
}

bool takes(const std::string& op, const Tensors& tensors) { return !lacks(op, tensors); }

bool takes(const std::string& op, const Value& value) {
  const Capabilities& able = capabilities(op);
  const Capabilities::Form* form = able.form_for(value.device.type());
  return form && value.strided &&
         among(is_real(value.dtype) ? form->dtypes : able.others, value.dtype);
}

}  // namespace wide
