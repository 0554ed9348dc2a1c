#pragma once
#include <string>
#include <vector>

#include "app/sandbox/group.h"
#include "app/train/options.h"
#include "app/train/run/state.h"

// A run over MPI ranks, each of which trains some of the models (its slice).
namespace wide {

struct Together {
  RankGroup& group;
  TrainOptions options;                 // of the whole run
  std::vector<Evaluated> history = {};  // of all models, before a resume

  bool leads() const { return group.rank() == 0; }
  /// Folders in which ranks save their slices, by rank.
  std::vector<std::string> slices() const;
  /// The options for this rank's slice.
  TrainOptions own_options() const;
};

/// Name of the folder inside a run's folder that holds the ranks' slices until the run has ended.
std::string ranks_folder(const std::string& folder);
std::string slice_folder(const std::string& folder, int rank);

/// Makes that folder, and removes it at the end of its life.
class RanksFolder {
 public:
  explicit RanksFolder(const std::string& folder);
  ~RanksFolder();
  RanksFolder(const RanksFolder&) = delete;
  RanksFolder& operator=(const RanksFolder&) = delete;

 private:
  std::string path_;
};

}  // namespace wide
