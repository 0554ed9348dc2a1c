#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "app/cli.h"
#include "app/options.h"
#include "app/results/runs.h"
#include "app/sandbox/output_files.h"
#include "app/sandbox/sandbox.h"
#include "app/train/outputs/predict.h"
#include "app/train/policy.h"
#include "data/bytes/part_file.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide::predict_command {
namespace {

namespace fs = std::filesystem;

class Predict : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("RUN", run_, "a run's folder, or a stored run: a number, run:3, a name, last")
        ->required();
    app.add_option("--data", options_.data, "rows, as the training data were given")->required();
    app.add_option("--out", options_.out, "FILE.csv, FILE.npz or FILE.safetensors")->required();
    app.add_option("--use", options_.use, "best or last weights")->capture_default_str();
    app.add_option("--top", options_.top, "the best K models alone")->check(not_positive);
    app.add_option("--reduce", options_.reduce,
                   "mean, std or vote of the models, or none: [N, S, ...]")
        ->capture_default_str();
    app.add_option("--apply", options_.apply,
                   "softmax, sigmoid or none to each model's output; default: as the loss has it");
    app.add_option("--threads", options_.threads, "CPU threads; default: as many as cores");
    app.add_flag("--quiet", quiet_, "print nothing but errors");
    app.add_option("--db", db_, "the store's file; default: $WORKBENCH_DB, or the user's own");
  }

  int run() override {
    check_predict(options_);
    check_writable_place(options_.out);
    std::error_code error;
    options_.folder = fs::is_directory(run_, error) ? run_ : folder_of_run();
    const SavedRun saved = read_saved_run(options_.folder);
    const auto work = [&] {
      if (options_.threads > 0) set_threads(options_.threads);
      const std::string line = predict(options_, saved);
      if (!quiet_) print_plain(line + "\n");
      return 0;
    };
    SandboxPolicy policy;
    policy.what = saved.options.network;
    add_data(saved.options.network, &policy);
    add_data(saved.options.eval_model, &policy);
    add_data(options_.data, &policy);
    policy.read.push_back((fs::path(options_.folder) / "run.safetensors").string());
    policy.write.push_back(options_.out);
    check_apart({{"--out", options_.out}}, policy.read);
    check_apart({{"--out", options_.out}}, files_of_run());
    return run_in_sandbox(policy, work);
  }

 private:
  /// The run's files that exist in its folder.
  std::vector<std::string> files_of_run() const {
    std::vector<std::string> files = run_parts(options_.folder);
    std::error_code error;
    for (const char* kind : {"best", "last"})
      for (const auto& entry : fs::directory_iterator(fs::path(options_.folder) / kind, error))
        files.push_back(entry.path().string());
    return files;
  }

  std::string folder_of_run() const {
    const std::string folder = find_run(run_, db_).run.dir;
    if (folder.empty())
      fail("[{}] run: got one that saved nothing, expected a folder; try a run without --no-save",
           printable(run_));
    return folder;
  }

  PredictOptions options_;
  std::string run_, db_;
  bool quiet_ = false;
};

const bool registered =
    add_command<Predict>("predict", "what the models of a training run say of rows");

}  // namespace
}  // namespace wide::predict_command
