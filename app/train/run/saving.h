#pragma once
#include <nlohmann/json_fwd.hpp>

#include "app/train/prepare.h"
#include "app/train/run/state.h"

namespace wide {

/// All that a resume needs, in a run's folder.
inline constexpr const char* kRunState = "run.safetensors";

/// The folder of a run. Every file in it appears whole or not at all.
class RunFolder {
 public:
  /// "": nothing is saved.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  bool exists() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const;
  std::string checkpoint(const std::string& kind, int64_t model) const;

  /// Makes it; removes an earlier run of it, if that was asked for. Throws Error (exit code 1)
  /// where the disk cannot hold what will be written.
  void prepare(const Prepared& run, int64_t model_bytes, int64_t state_bytes) const;
  /// run.safetensors: all that a resume needs.
  void save_state(const Prepared& run, const Trainer& trainer, const TrainState& state) const;
  /// best/ and last/ of `models`. Best weights of models that have none are left out.
  void save_checkpoints(const Prepared& run, const Trainer& trainer, const TrainState& state,
                        const std::vector<int64_t>& models) const;
  void save_split(const Prepared& run) const;
  /// Ranks that were killed early leave none.
  bool has_split() const;
  void save_models(const Prepared& run, const TrainState& state) const;

 private:
  std::string path_;
};

/// One model's own of `weights`, under all names that a state_dict has.
void save_checkpoint(const std::string& path, const Prepared& run,
                     const std::map<std::string, Tensor>& weights, int64_t model);

/// One a model in `folder`, named as `fuse --unstack` names them. Returns what to tell the user.
std::string unstack_run(const std::string& folder, const Prepared& run,
                        const std::map<std::string, Tensor>& weights);

/// What stands in a run's file before its tensors: options, state and plan. Needs no LibTorch.
struct SavedRun {
  TrainOptions options;
  TrainState state;  // without tensors
  std::string plan;
  std::map<std::string, std::string> defaults;  // what was not said, in words
  bool more_is_better = false;                  // of what is monitored
  std::string data;                    // its fingerprint; "" in files of the first versions
  std::string identity;                // of all else that it is; "" in files of earlier versions
  std::vector<std::string> parts;      // folders that its tensors are to be merged from
  std::string tensors_in;              // the folder of its tensors; "": its own
  int64_t first_model = 0;             // of its models among those of that folder
  std::vector<int64_t> groups;         // of each model in the statistics of normalisation
  std::optional<DataColumns> columns;  // of the training data; none in files of the first versions
};
/// Throws Error for a folder without a run.
SavedRun read_saved_run(const std::string& folder);

/// The tensors of a run's file: the trainer's state, and those of `state`.
TrainerState load_trainer_state(const std::string& folder, TrainState* state);

/// A run's file: its tensors by name, and what stands before them as text.
struct RunFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};
RunFile load_run_file(const std::string& folder);
void save_run_file(const std::string& folder, const RunFile& file);
/// Tensors of each model's best evaluation are named so in it, and those of its weights.
inline constexpr const char* kBestTensors = "best.";
inline constexpr const char* kWeightTensors = "weight.";
/// The sums of losses in it.
inline constexpr const char* kLossSum = "loss_sum";
/// What stands before the tensors, by this name.
inline constexpr const char* kRunHead = "workbench";

/// Files that a run writes, to be named to a sandbox.
std::vector<std::string> run_files(const std::string& folder);
/// What --overwrite removes of an earlier run: those, and its checkpoints.
std::vector<std::string> run_parts(const std::string& folder);

}  // namespace wide
