#include "app/target_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/results/table.h"
#include "app/sweep/cases.h"
#include "data/tensors.h"
#include "data/text.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// "attention=fused": what a strategy of a composition forces.
std::string forced_text(const std::map<std::string, std::string>& parts) {
  std::vector<std::string> each;
  for (const auto& [part, way] : parts) each.push_back(part + "=" + way);
  return listing(each, 99);
}

/// What a strategy does that is none of the target's own.
std::string summary_of(const Target& t, const std::string& strategy) {
  if (const auto forced = t.parts.find(strategy); forced != t.parts.end())
    return forced_text(forced->second);
  if (strategy == "vmap") return "the batching rule of functorch";
  if (strategy == "per_model") return "one model after the other";
  return "the engine chooses for each part";  // kChosen
}

/// Name and summary of all strategies that `sweep --strategy` takes.
std::vector<std::pair<std::string, std::string>> strategies_of(const Target& t) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& name : strategy_names(t)) {
    const auto own = std::ranges::find(t.strategies, name, &Strategy::name);
    all.emplace_back(name, own == t.strategies.end() ? summary_of(t, name) : own->summary);
  }
  return all;
}

std::vector<std::string> shapes_of(const Sweep& sweep) {
  std::vector<std::string> shapes;
  for (const Shape& shape : sweep.shapes) shapes.push_back(shape.text());
  return shapes;
}

std::string tolerances_text(const Target& t) {
  std::vector<std::string> each;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    each.push_back(fmt::format("{} {:g}", short_name(dtype), t.tolerance_for(dtype)));
  return listing(each, 99);
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

}  // namespace

std::string target_text(const Target& t) {
  std::string text =
      fmt::format("{} · {} · {}\n{}\n", t.name, to_string(t.kind), t.family, t.summary);
  Table facts({"", ""}, {});
  facts.add({"formula", t.formula});
  facts.add({"source", t.source});
  facts.add({"tolerance", tolerances_text(t)});
  if (!t.tolerance_reason.empty()) facts.add({"", t.tolerance_reason});
  text += facts.text() + "\n";

  Table strategies({"strategy", ""}, {});
  for (const auto& [name, summary] : strategies_of(t)) strategies.add({name, summary});
  text += strategies.text() + "\n";

  Table sweeps({"sweep", "N", "shapes"}, {});
  for (const auto& [name, sweep] : t.sweeps)
    sweeps.add({name, fmt::format("{}", fmt::join(sweep.n, ",")), listing(shapes_of(sweep), 4)});
  text += sweeps.text();

  Table axes({"--axis", "default", ""}, {});
  for (const Axis& axis : t.axes) {
    const std::string absent = axis.otherwise ? std::to_string(*axis.otherwise) : axis.derived;
    axes.add({fmt::format("{}.{}", t.name, axis.name), axis.required() ? "the sweep's" : absent,
              axis.meaning});
  }
  return text + "\n" + axes.text();
}

Json target_json(const Target& t) {
  Json j = {{"name", t.name},       {"kind", to_string(t.kind)}, {"family", t.family},
            {"summary", t.summary}, {"formula", t.formula},      {"source", t.source}};
  j["tolerance"] = Json::object();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    j["tolerance"][short_name(dtype)] = t.tolerance_for(dtype);
  j["tolerance_reason"] = t.tolerance_reason;
  j["strategies"] = Json::array();
  for (const auto& [name, summary] : strategies_of(t))
    j["strategies"].push_back({{"name", name}, {"summary", summary}});
  j["sweeps"] = Json::object();
  for (const auto& [name, sweep] : t.sweeps)
    j["sweeps"][name] = {{"n", sweep.n}, {"shapes", shapes_of(sweep)}};
  j["axes"] = Json::array();
  for (const Axis& axis : t.axes)
    j["axes"].push_back({{"name", axis.name},
                         {"meaning", axis.meaning},
                         {"otherwise", axis.otherwise ? Json(*axis.otherwise) : Json(nullptr)},
                         {"derived", axis.derived.empty() ? Json(nullptr) : Json(axis.derived)}});
  return j;
}

std::string targets_markdown(Kind kind) {
  const std::string title = std::string(to_string(kind)) + "s";
  std::string text = fmt::format("# {}\n\n", title);
  if (kind == Kind::primitive)
    text +=
        "One file for each layer kind that has its own way of being computed for N models at once. "
        "A file gives the\nformula, the layer as one model's users write it (which is also the "
        "baseline), which recorded calls it recognises, its\nstrategies, and the shapes, inputs "
        "and "
        "tolerances that tests and sweeps use. A strategy calls kernels (`kernels/`) and ATen's\n"
        "operators on tensors `[N, B, ...]`. To add a layer kind, copy the file of a similar one: "
        "`WIDE_TARGET` at its end registers it, and\ntests, sweeps and this table find it.\n\n";
  if (kind == Kind::block)
    text +=
        "Compositions of layers, as larger networks have them. A block is written from ATen's "
        "operators and modules alone; the\nprimitives recognise their own calls inside it. To add "
        "one, copy the file of a similar block: `WIDE_TARGET` at its end\nregisters it.\n\n";
  text += fmt::format(
      "This page is the output of `./workbench list {} --md`; `./workbench list NAME` tells all of "
      "one.\n\n"
      "Name | What | Formula and shapes | Strategies | `quick` sweep | Tolerance (f32) and its "
      "reason | Source\n---|---|---|---|---|---|---\n",
      title);
  for (const Target* target : targets()) {
    const Target& t = *target;
    if (t.kind != kind) continue;
    std::vector<std::string> names;
    for (const auto& [name, summary] : strategies_of(t)) names.push_back(name);
    const Sweep& quick = t.sweeps.at("quick");
    text +=
        fmt::format("`{}` | {} | `{}` | {} | N {}: {} | {:g}: {} | {}\n", t.name, cell(t.summary),
                    cell(t.formula), listing(names, 99), fmt::join(quick.n, " "),
                    cell(fmt::format("{}", fmt::join(shapes_of(quick), "; "))),
                    t.tolerance_for(at::kFloat), cell(t.tolerance_reason), cell(t.source));
  }
  return text;
}

}  // namespace wide
