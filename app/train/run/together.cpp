#include "app/train/run/together.h"

#include <filesystem>

#include "data/store/sweeps/part.h"

namespace wide {

namespace fs = std::filesystem;

std::string ranks_folder(const std::string& folder) {
  return (fs::path(folder) / "ranks").string();
}

std::string slice_folder(const std::string& folder, int rank) {
  return (fs::path(ranks_folder(folder)) / std::to_string(rank)).string();
}

std::vector<std::string> Together::slices() const {
  std::vector<std::string> all;
  for (int rank = 0; rank < group.size(); ++rank) all.push_back(slice_folder(options.save, rank));
  return all;
}

TrainOptions Together::own_options() const {
  TrainOptions own = options;
  own.part = Part{group.rank() + 1, group.size()}.text();
  own.save = slices()[static_cast<size_t>(group.rank())];
  return own;
}

RanksFolder::RanksFolder(const std::string& folder) : path_(ranks_folder(folder)) {
  std::error_code error;
  fs::remove_all(path_, error);  // left by a run that was killed
  fs::create_directories(path_, error);
}

RanksFolder::~RanksFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

}  // namespace wide
