#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// The options of `train` as they were typed; texts are parsed where they are used. Saved with the
/// run, so that a resume needs none of them.
struct TrainOptions {
  std::string network, eval_model;
  std::vector<std::string> weights;
  std::string init;  // "", fresh or file
  bool as_exported = false, trusted = false;

  std::string data, validation, test;
  std::vector<std::string> own, columns, target, normalize, augment;
  std::string sample_weight, output;
  int64_t folds = 0;
  std::string fold, group;  // columns
  std::string rows;         // a file: which rows are whose
  // In runs of earlier versions --validation's fraction is of the rows that --test leaves.
  bool validation_of_rest = false;
  std::string epoch_data;  // a folder: a file of rows for each epoch from the second on

  int64_t n = 0, seeds = 0;
  uint64_t seed = 0;
  std::string models;                  // a CSV
  std::vector<std::string> set, grid;  // KEY=VALUE
  std::string part;                    // "2/3": only that share of the models; "": all
  std::string lr, weight_decay, momentum;

  std::string loss, optimizer, schedule = "constant", warmup = "0";
  std::vector<std::string> no_decay, freeze;
  int64_t batch = 0;  // 0: 32, or what the export has
  int64_t epochs = 0, steps = 0;
  std::string order = "shuffled";
  bool same_order = false, drop_last = false;

  std::vector<std::string> metrics;
  std::string monitor = "loss";
  int64_t eval_every = 0, patience = 0;
  double min_delta = 0;
  std::string prune;

  std::string save, log;
  bool no_save = false, overwrite = false;
  int64_t save_every = 0, keep = 0;
  std::string resume;

  std::string dtype, device = "cpu";
  int threads = 0;
  bool exact = false;
  int64_t check = 3;
  std::string plan;
};

}  // namespace wide
