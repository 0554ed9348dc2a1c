#pragma once
#include "app/train/prepare.h"
#include "app/train/run/state.h"

namespace wide {

/// The file in a run's folder that holds all that a resume needs.
inline constexpr const char* kRunState = "run.safetensors";

/// The folder of a run. Files in it are replaced atomically: each is complete or absent.
class RunFolder {
 public:
  /// `path` "": nothing is saved.
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  bool exists() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const;
  std::string checkpoint(const std::string& kind, int64_t model) const;

  /// Makes the folder, and removes an earlier run in it under --overwrite. Throws Error (exit code
  /// 1) if the disk has too little space for the run.
  void prepare(const Prepared& run, int64_t model_bytes, int64_t state_bytes) const;
  /// run.safetensors: all that a resume needs.
  void save_state(const Prepared& run, const Trainer& trainer, const TrainState& state) const;
  /// Checkpoints of `models` in best/ and last/. A model without a best evaluation has none in
  /// best/.
  void save_checkpoints(const Prepared& run, const Trainer& trainer, const TrainState& state,
                        const std::vector<int64_t>& models) const;
  void save_split(const Prepared& run) const;
  /// Whether split.npz exists; it may not, if ranks were killed early.
  bool has_split() const;
  void save_models(const Prepared& run, const TrainState& state) const;

 private:
  std::string path_;
};

/// Saves one model's slice of `weights`, tied weights under all their names.
void save_checkpoint(const std::string& path, const Prepared& run,
                     const std::map<std::string, Tensor>& weights, int64_t model);

/// Saves a checkpoint for each model in `folder`, named as by `fuse --unstack`. Returns a line for
/// the user.
std::string unstack_run(const std::string& folder, const Prepared& run,
                        const std::map<std::string, Tensor>& weights);

/// The metadata of a run's file: options, state, and the strategies and ranges chosen (`plan`).
/// Reading it needs no LibTorch.
struct SavedRun {
  TrainOptions options;
  TrainState state;  // without tensors
  std::string plan;
  std::map<std::string, std::string> defaults;  // options that were not given, and their values
  bool more_is_better = false;                  // direction of the monitored metric
  std::string data;                    // fingerprint of the data; "" in files of early versions
  std::string identity;                // run/identity; "" in files of early versions
  std::vector<std::string> parts;      // folders whose tensors are to be merged
  std::string tensors_in;              // the folder with the tensors; "": the run's own
  int64_t first_model = 0;             // index of the first model in that folder's tensors
  std::vector<int64_t> groups;         // index of each model in the statistics of normalisation
  std::optional<DataColumns> columns;  // of the training data; none in files of early versions
};
/// Throws Error for a folder without a run.
SavedRun read_saved_run(const std::string& folder);

/// A run's file as it is: tensors by name, and the metadata.
struct RunFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};
RunFile load_run_file(const std::string& folder);
void save_run_file(const std::string& folder, const RunFile& file);
/// Prefixes of tensors in the file: weights of each model's best evaluation, and current weights.
inline constexpr const char* kBestTensors = "best.";
inline constexpr const char* kWeightTensors = "weight.";
/// And of the statistics of normalisation.
inline constexpr const char* kNormalizeTensors = "normalize.";
/// Name of the tensor with the sums of losses.
inline constexpr const char* kLossSum = "loss_sum";
/// Key of the metadata with options and state.
inline constexpr const char* kRunHead = "workbench";

/// Files that a run writes; its sandbox's policy must allow them.
std::vector<std::string> run_files(const std::string& folder);
/// What --overwrite removes of an earlier run: those files, and the checkpoints.
std::vector<std::string> run_parts(const std::string& folder);

}  // namespace wide
