#pragma once
#include <string>
#include <vector>

#include "app/cell/group.h"
#include "app/train/options.h"

// A run whose models ranks train together, each a part of them (its slice).
namespace wide {

struct Together {
  RankGroup& group;
  TrainOptions options;  // of the whole run

  bool leads() const { return group.rank() == 0; }
  /// The folders that slices are saved in, by rank.
  std::vector<std::string> slices() const;
  /// Those of this rank.
  TrainOptions own_options() const;
};

/// In a run's folder, what ranks need until it has ended.
std::string ranks_folder(const std::string& folder);
std::string slice_folder(const std::string& folder, int rank);

/// That folder, as long as this object lives.
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
