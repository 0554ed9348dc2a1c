#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "app/cli.h"
#include "app/table.h"
#include "data/preset.h"
#include "data/text.h"
#include "engine/error.h"
#include "engine/registry.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::pair<const char*, Kind>> kKinds = {
    {"primitives", Kind::primitive}, {"blocks", Kind::block}, {"models", Kind::model}};

std::vector<std::string> strategy_names(const Target& target) {
  std::vector<std::string> names;
  for (const Strategy& s : target.strategies) names.push_back(s.name);
  names.insert(names.end(), {"vmap", "per_model"});
  return names;
}

Json target_json(const Target& t) {
  Json j = {{"name", t.name},       {"kind", to_string(t.kind)}, {"family", t.family},
            {"summary", t.summary}, {"formula", t.formula},      {"source", t.source}};
  j["strategies"] = Json::array();
  for (const Strategy& s : t.strategies)
    j["strategies"].push_back({{"name", s.name}, {"summary", s.summary}});
  j["strategies"].push_back({{"name", "vmap"}, {"summary", "the batching rule of functorch"}});
  j["strategies"].push_back({{"name", "per_model"}, {"summary", "one model after the other"}});
  j["sweeps"] = Json::object();
  for (const auto& [name, sweep] : t.sweeps) {
    Json shapes = Json::array();
    for (const Shape& shape : sweep.shapes) shapes.push_back(shape.text());
    j["sweeps"][name] = {{"n", sweep.n}, {"shapes", shapes}};
  }
  return j;
}

class List : public Command {
 public:
  std::string name() const override { return "list"; }
  std::string summary() const override {
    return "what there is: primitives, blocks, models, presets";
  }

  void declare(CLI::App& app) override {
    app.add_option("WHAT", what_, "primitives, blocks, models or presets; default: all")
        ->check(CLI::IsMember({"primitives", "blocks", "models", "presets"}));
    app.add_flag("--json", json_, "as JSON");
  }

  int run() override {
    Json all = Json::object();
    std::string text;
    for (const auto& [title, kind] : kKinds) {
      if (!what_.empty() && what_ != title) continue;
      Table table({title, "strategies", "summary"}, {});
      all[title] = Json::array();
      for (const Target* target : targets()) {
        const Target& t = *target;
        if (t.kind != kind) continue;
        table.add({"  " + t.name, kind == Kind::primitive ? listing(strategy_names(t), 99) : "",
                   t.summary});
        all[title].push_back(target_json(t));
      }
      text += (text.empty() ? "" : "\n") + table.text();
    }
    if (what_.empty() || what_ == "presets") {
      Table table({"presets", "", ""}, {});
      all["presets"] = Json::array();
      for (const Preset& p : presets()) {
        table.add({"  " + p.name, "", p.description});
        all["presets"].push_back({{"name", p.name}, {"description", p.description}});
      }
      text += (text.empty() ? "" : "\n") + table.text();
    }
    if (json_)
      fmt::print("{}\n", all.dump(1));
    else
      fmt::print("{}", text);
    return 0;
  }

 private:
  std::string what_;
  bool json_ = false;
};

const bool registered = add_command([] { return std::make_unique<List>(); });

}  // namespace
}  // namespace wide
