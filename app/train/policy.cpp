#include "app/train/policy.h"

#include <filesystem>

#include "app/cluster/launch.h"
#include "app/fuse/policy.h"
#include "app/train/models/configurations.h"
#include "app/train/run/together.h"
#include "data/store/store.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

constexpr double kGraceS = 600;  // time to finish a step and save

std::vector<std::string> named_in_table(const std::string& models) {
  std::error_code error;
  if (!fs::is_regular_file(models, error)) return {};
  try {
    return weights_of_table(models);
  } catch (const Error&) {
    return {};  // reading it again later reports the error
  }
}

/// Files needed to open the network and the models' weights; nullopt if there are none.
std::optional<SandboxPolicy> to_start(const TrainOptions& options) {
  SubjectOptions subject;
  subject.model = options.network;
  subject.weights = options.weights;
  for (const std::string& weights : named_in_table(options.models))
    subject.weights.push_back(weights);
  subject.device = options.device;
  return policy_of(subject);
}

/// Those files, and all others that the run reads.
SandboxPolicy reading(const TrainOptions& options, std::optional<SandboxPolicy> start) {
  SandboxPolicy policy = std::move(start).value_or(SandboxPolicy());
  policy.device = options.device != "cpu";
  if (!options.eval_model.empty()) policy.read.push_back(options.eval_model);
  for (const std::string& path :
       {options.data, options.validation, options.test, options.models, options.rows})
    add_data(path, &policy);
  if (!options.epoch_data.empty()) policy.read.push_back(options.epoch_data);
  return policy;
}

/// The folder of a rank's slice; for rank 0 also those of the others, which it reads.
void add_slice(const TrainOptions& options, const SavedRun* saved, SandboxPolicy* policy) {
  const std::string slice = slice_folder(options.save, launch().rank);
  policy->write.push_back((fs::path(slice) / kRunState).string());
  for (const std::string& folder : {ranks_folder(options.save), slice})
    policy->folders.push_back(folder);
  if (launch().rank == 0) policy->read.push_back(ranks_folder(options.save));
  if (saved) policy->read.push_back((fs::path(options.save) / kRunState).string());
}

}  // namespace

void add_data(const std::string& path, SandboxPolicy* policy) {
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return;  // a fraction, or opening it fails later
  if (!fs::is_directory(path, error)) {
    policy->read.push_back(path);
    return;
  }
  policy->list.push_back(path);
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".npy") policy->read.push_back(entry.path().string());
}

std::vector<std::string> files_read(const TrainOptions& options) {
  return reading(options, to_start(options)).read;
}

std::optional<SandboxPolicy> policy_of(const TrainOptions& options, const TrainSinks& sinks,
                                       const SavedRun* saved) {
  std::optional<SandboxPolicy> policy = to_start(options);
  const bool ranks = launch().size > 1;  // ranks talk to each other through the process outside
  if (!policy && options.models.empty() && !ranks) return std::nullopt;
  policy = reading(options, std::move(policy));
  policy->what = options.network;
  policy->grace_s = kGraceS;
  if (!options.models.empty()) policy->list.push_back(fs::path(options.models).parent_path());
  if (ranks) add_slice(options, saved, &*policy);
  if (launch().rank > 0) return policy;
  if (!sinks.json.empty()) policy->write.push_back(sinks.json);
  policy->write.insert(policy->write.end(), sinks.exports.begin(), sinks.exports.end());
  if (!sinks.unstack.empty()) {
    policy->checkpoints.push_back(sinks.unstack);
    policy->folders.push_back(sinks.unstack);
  }
  if (sinks.store) policy->db = Store::path(sinks.db);
  if (options.log != "-") policy->log = options.log;
  if (saved) policy->run = saved->state.run;
  if (options.no_save) return policy;
  const fs::path folder = options.save;
  for (const std::string& file : run_files(options.save)) {
    policy->write.push_back(file);
    if (saved && saved->parts.empty()) policy->read.push_back(file);
  }
  if (saved)
    for (const std::string& part : saved->parts)
      policy->read.push_back((fs::path(part) / kRunState).string());
  for (const char* kind : {"best", "last"}) {
    policy->folders.push_back((folder / kind).string());
    policy->checkpoints.push_back((folder / kind).string());
  }
  policy->folders.push_back(options.save);
  if (options.overwrite) policy->remove = run_parts(options.save);
  return policy;
}

}  // namespace wide
