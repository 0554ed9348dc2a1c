#include "primitives/kernels/registration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>

namespace wide::kernels::detail {
namespace {

/// The return type of a schema: one type, or several as a tuple.
std::string returned(const std::vector<std::string>& types) {
  const std::string list = fmt::format("{}", fmt::join(types, ", "));
  return types.size() == 1 ? list : "(" + list + ")";
}

}  // namespace

void define(torch::Library& m, const std::string& name, const std::string& arguments, bool has_out,
            const OperatorSchema& schema) {
  std::vector<std::string> types, written;
  std::string parameters;
  for (const std::string& result : schema.results) {
    types.emplace_back("Tensor");
    written.push_back(fmt::format("Tensor({}!)", char('a' + written.size())));
    parameters += fmt::format(", {} {}", written.back(), result);
  }
  m.def(fmt::format("{}({}) -> {}", name, arguments, returned(types)).c_str(), schema.tags);
  if (has_out)
    m.def(fmt::format("{}.out({}, *{}) -> {}", name, arguments, parameters, returned(written))
              .c_str(),
          schema.tags);
  if (!schema.gradients)
    m.impl(name.c_str(), torch::dispatch(c10::DispatchKey::Autograd,
                                         torch::autograd::autogradNotImplementedFallback()));
  add_capabilities(m._resolve(name.c_str()).name,
                   {{{c10::kCPU, schema.dtypes}}, schema.others, schema.gradients});
}

void add_device(torch::Library& m, const std::string& name, c10::DeviceType device,
                const std::vector<at::ScalarType>& dtypes) {
  add_capabilities(m._resolve(name.c_str()).name, {{{device, dtypes}}});
}

}  // namespace wide::kernels::detail
