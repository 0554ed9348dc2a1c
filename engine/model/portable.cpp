#include "engine/model/portable.h"

#include <algorithm>
#include <set>

#include "engine/error.h"
#include "engine/passes/pass.h"
#include "engine/program/registry.h"
#include "engine/widen/aten_only.h"

namespace wide {
namespace {

/// Replaces the attention kernel chosen for the CPU by scaled_dot_product_attention, which chooses
/// again on the device that runs the program.
void choose_attention_anew(Program& program) {
  const ByValue<int32_t> uses = program.uses();
  const c10::OperatorHandle neutral =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  for (Node& node : program.nodes) {
    if (node.name() != "aten::_scaled_dot_product_flash_attention_for_cpu") continue;
    const ValueId sums = node.results[1].values[0];
    if (sums != kNone && uses[sums] > 0) continue;
    // (q, k, v, dropout_p, is_causal, attn_mask, scale) -> (q, k, v, attn_mask, dropout_p,
    // is_causal, scale, enable_gqa)
    const std::vector<Argument> in = std::move(node.arguments);
    Argument gqa;
    gqa.constant = false;
    node.op = neutral;
    node.arguments = {in[0], in[1], in[2], in[5], in[3], in[4], in[6], gqa};
    node.results.resize(1);
  }
}

/// Prepares a program for export in ATen operators, with passes that only remove nodes.
void clean(Program& program) {
  drop_weight_copies(program);
  choose_attention_anew(program);
  for (const Pass& pass : passes())
    if (pass.portable) pass.run(program);
}

/// The portable parts of a cleaned program.
Portable portable_of(const Network& network, WideProgram made,
                     const std::vector<WideValue>& bound) {
  made.program.verify();
  for (const Node& node : made.program.nodes)
    if (const std::string other = outside_aten(made.program, node); !other.empty())
      fail("[{}] export: got operator {}, expected ATen operators alone; try to leave out --export",
           network.name, other);

  Portable portable;
  portable.name = network.name;
  portable.program = std::move(made.program);
  portable.coverage = std::move(made.coverage);
  std::set<std::string> taken;
  for (size_t i = 0; i < bound.size(); ++i) {
    const bool input = network.tensors[i].role == Role::input;
    portable.bound.push_back(input ? Tensor() : bound[i].tensor);
    if (!input) continue;
    portable.sample.push_back(bound[i].tensor);
    std::string name = identifier(network.tensors[i].name);
    while (!taken.insert(name).second) name += "_";
    portable.input_names.push_back(name);
  }
  return portable;
}

}  // namespace

std::string identifier(const std::string& name) {
  static const std::set<std::string> words{
      "and",    "as",   "assert", "async",  "await",    "break", "class", "continue", "def",
      "del",    "elif", "else",   "except", "finally",  "for",   "from",  "global",   "if",
      "import", "in",   "is",     "lambda", "nonlocal", "not",   "or",    "pass",     "raise",
      "return", "self", "try",    "while",  "with",     "yield", "None",  "True",     "False"};
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += plain ? c : '_';
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out = "x" + out;
  return words.count(out) ? out + "_" : out;
}

Ensemble own_state(const Network& network, const Program& single, Ensemble ensemble) {
  for (const Update& u : single.updates) {
    const size_t at = single.bound_at(u.target);
    if (!ensemble.shared[at]) continue;
    const TensorSpec& spec = network.tensors[at];
    if (spec.role == Role::input)
      fail(
          "[{}] input {}: got one for all models that they change in place, expected one for each; "
          "try to leave it out of --shared-inputs",
          network.name, spec.name);
    ensemble.tensors[at] = expanded(ensemble.n, ensemble.tensors[at]).contiguous();
    ensemble.shared[at] = false;
  }
  return ensemble;
}

Portable make_portable(const Network& network, const Program& single, const Ensemble& ensemble,
                       WidenOptions options) {
  const Ensemble own = own_state(network, single, ensemble);
  options.only = aten_alone(/*optimizer_steps=*/false);
  options.fold = false;
  std::vector<WideValue> bound;
  for (size_t i = 0; i < own.tensors.size(); ++i)
    bound.push_back({own.tensors[i].contiguous(), !own.shared[i]});
  WideProgram made = widen(single, own.n, bound, options);
  clean(made.program);
  return portable_of(network, std::move(made), bound);
}

Portable portable_single(const Network& network, const Program& single, const Tensors& model) {
  WideProgram one{single, {}};
  for (const Update& u : std::exchange(one.program.updates, {}))
    one.program.outputs.push_back(u.value);
  clean(one.program);
  std::vector<WideValue> bound;
  for (const Tensor& t : model) bound.push_back({t.contiguous(), false});
  return portable_of(network, std::move(one), bound);
}

Tensors run(const Portable& portable, const Tensors& inputs) {
  Tensors bound = portable.bound;
  size_t next = 0;
  for (Tensor& t : bound)
    if (!t.defined()) t = inputs.at(next++);
  return interpret(portable.program, bound);
}

bool add_export_format(ExportFormat format) {
  return enter(std::move(format), &ExportFormat::extension);
}

const ExportFormat& export_format(const std::string& path) {
  const std::vector<ExportFormat>& formats = registry<ExportFormat>();
  std::vector<std::string> known;
  for (const ExportFormat& format : formats) {
    const std::string& end = format.extension;
    if (path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0)
      return format;
    known.push_back(fmt::format("{} ({})", end, format.name));
  }
  fail("[{}] export: got no known extension, expected {}; try wide{}", path,
       fmt::join(known, " or "), formats.empty() ? "" : formats.front().extension);
}

}  // namespace wide
