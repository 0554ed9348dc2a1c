#include "app/train/run/identity.h"

#include <nlohmann/json.hpp>

#include "app/train/inputs/fingerprint.h"
#include "app/train/prepare.h"
#include "app/version.h"
#include "data/bytes/digest.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Digest of settings, seeds and names of all models, including other parts'.
std::string models_digest(const Prepared& run) {
  Json all = Json::array();
  for (const ModelSettings& m : run.everyone)
    all.push_back({m.config, m.hyper, m.seed_init, m.seed_order, m.seed_dropout, m.epochs, m.fold,
                   m.name, m.labels});
  const std::string text = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  return digest(text);
}

/// Whether two digests differ. An empty one is unknown (earlier versions, networks that cannot be
/// recorded) and differs from none.
bool differs(const Json& one, const Json& other, const char* key) {
  const std::string a = one.value(key, ""), b = other.value(key, "");
  return !a.empty() && !b.empty() && a != b;
}

}  // namespace

std::string identity_text(const Prepared& run) {
  return Json{{"network", run.network_fingerprint.both},
              {"evaluation", run.network_fingerprint.evaluation},
              {"rows", split_fingerprint(run.data)},
              {"models", models_digest(run)},
              {"build", version_line()}}
      .dump();
}

std::vector<std::string> check_identity(const std::string& saved, const Prepared& run) {
  const Json before = Json::parse(saved), now = Json::parse(run.identity);
  const auto refuse = [](const std::string& file, const char* what) {
    fail(
        "[{}] {}: got others, expected those that the run began with; try the file that it began "
        "with",
        printable(file), what);
  };
  if (differs(before, now, "models"))
    refuse(run.options.models.empty() ? "--set" : run.options.models, "models");
  if (differs(before, now, "rows"))
    refuse(run.options.rows.empty() ? run.options.data : run.options.rows, "rows of models");
  const std::string note = check_network(saved, run.network_fingerprint, run.options);
  return note.empty() ? std::vector<std::string>{} : std::vector<std::string>{note};
}

std::string check_network(const std::string& saved, const NetworkFingerprint& network,
                          const TrainOptions& options) {
  const Json before = Json::parse(saved),
             now = {{"network", network.both}, {"evaluation", network.evaluation}};
  if (!differs(before, now, "network")) return "";
  if (before.at("build") != version_line())
    return "the network's file was not compared with the one that the run began with, as another "
           "build of the program began it";
  // The evaluation form is of a file of its own where there is one, and of NET where there is none.
  const bool own = !options.eval_model.empty() && differs(before, now, "evaluation");
  fail(
      "[{}] operators and constants: got others, expected those that the run began with; try the "
      "file that it began with",
      printable(own ? options.eval_model : options.network));
}

std::string identity_difference(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return "";
  const Json a = Json::parse(one), b = Json::parse(other);
  if (differs(a, b, "models")) return "models with other settings";
  if (differs(a, b, "rows")) return "other rows for its models";
  if (a.at("build") == b.at("build") && differs(a, b, "network")) return "another network";
  return "";
}

}  // namespace wide
