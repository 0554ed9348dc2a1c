// From a training run that is stored to another one: its command, its checkpoints, its resume.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "app/explorer/models/child.h"
#include "app/explorer/models/training/run_command.h"
#include "app/explorer/models/training/training.h"
#include "engine/error.h"
#include "engine/machine/clock.h"
#include "tests/app/explorer/stored.h"
#include "tests/data/store/stored_run.h"

namespace wide::run_command_test {
namespace {

namespace fs = std::filesystem;

TEST(ExplorerRunCommand, OptionsAreChangedWhereTheyStandAndAddedWhereNot) {
  const std::string command =
      "workbench train net.pt2 --data 'my data.npz' -n 24 --lr=log:1e-4..1e-1 --resume runs/a";
  EXPECT_EQ(option_value(command, "--lr"), "log:1e-4..1e-1");
  EXPECT_EQ(option_value(command, "-n"), "24");
  EXPECT_EQ(option_value(command, "--n"), "24");
  EXPECT_EQ(option_value(command, "--data"), "my data.npz");
  EXPECT_EQ(option_value(command, "--batch"), "");
  EXPECT_EQ(changed_command(command, {{"-n", "8"}, {"--lr", "1e-3"}, {"--batch", "16"}}),
            "workbench train net.pt2 --data 'my data.npz' -n 8 --lr=1e-3 --batch 16");
  // An option is known by both of its names: `train` refuses a command that has it twice.
  const std::string sized = "workbench train a --batch-size 16 --lr 0.1";
  EXPECT_EQ(option_value(sized, "--batch"), "16");
  EXPECT_EQ(changed_command(sized, {{"--batch", "8"}}),
            "workbench train a --batch-size 8 --lr 0.1");
  EXPECT_EQ(changed_command("workbench train a --batch-size=16", {{"--batch", "8"}}),
            "workbench train a --batch=8");
  // What somebody typed is a word of its option, not the shell's.
  EXPECT_EQ(changed_command("workbench train a", {{"--save", "x; touch owned"}}),
            "workbench train a --save 'x; touch owned'");
  EXPECT_EQ(changed_command("workbench train 'it'\\''s'", {}), "workbench train 'it'\\''s'");
}

TEST(ExplorerRunCommand, StepsTakeThePlaceOfEpochs) {
  // `train` refuses a command that has both.
  const std::string epochs = "workbench train a --epochs 5 --lr 0.1";
  EXPECT_EQ(changed_command(epochs, {{"--steps", "100"}}),
            "workbench train a --lr 0.1 --steps 100");
  EXPECT_EQ(changed_command("workbench train a --epochs=5 --lr 0.1", {{"--steps", "100"}}),
            "workbench train a --lr 0.1 --steps 100");
  EXPECT_EQ(changed_command("workbench train a --steps 7", {{"--epochs", "2"}}),
            "workbench train a --epochs 2");
  EXPECT_EQ(changed_command(epochs, {{"--epochs", "9"}, {"--steps", ""}}),
            "workbench train a --epochs 9 --lr 0.1");
  EXPECT_EQ(changed_command(epochs, {{"--epochs", "9"}, {"--steps", "100"}}),
            "workbench train a --lr 0.1 --steps 100");
}

TEST(ExplorerRunCommand, TheBestCheckpointsAreThoseOfTheModels) {
  const StoreFile file;
  fs::create_directories(file.path("run/best"));
  for (const int m : {0, 1, 2, 10})
    std::ofstream(file.path(fmt::format("run/best/model-{:04}.safetensors", m))) << m;
  EXPECT_EQ(copy_best_checkpoints({{1, file.path("run"), std::vector<int64_t>{1, 10}}},
                                  file.path("some/of them")),
            2u);
  EXPECT_TRUE(fs::exists(file.path("some/of them/model-0010.safetensors")));
  EXPECT_FALSE(fs::exists(file.path("some/of them/model-0002.safetensors")));
  EXPECT_EQ(copy_best_checkpoints({{1, file.path("run"), {}}}, file.path("all")), 4u);
  const auto said = [&](const std::string& from, const std::vector<int64_t>& models) {
    try {
      copy_best_checkpoints({{1, from, models}}, file.path("none"));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said(file.path("no-run"), {}).rfind("[checkpoints] folder: got no ", 0), 0u);
  EXPECT_EQ(said(file.path("run"), {}).rfind("[checkpoints] models: got none of them", 0), 0u)
      << "no models are not all of them";
  EXPECT_EQ(said(file.path("run"), {7}).rfind("[checkpoints] models: got none of them", 0), 0u);
}

/// The names of all files below a folder, sorted.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ExplorerRunCommand, TheModelsShownOfTwoRunsGoIntoAFolderEach) {
  const StoreFile file;
  for (const char* run : {"a", "b"}) {
    fs::create_directories(file.path(fmt::format("{}/best", run)));
    for (const int m : {0, 1, 2})
      std::ofstream(file.path(fmt::format("{}/best/model-{:04}.safetensors", run, m))) << run << m;
  }
  TrainingView view;
  for (const int64_t id : {1, 2}) {
    RunHistory run = run_head(stored_report(3, 30, "", "complete"));
    run.id = id;
    run.dir = file.path(id == 1 ? "a" : "b");
    view.runs.push_back(std::make_shared<const RunHistory>(std::move(run)));
  }
  // A brush with models of the second run alone: none of the first, which an empty list meant.
  EXPECT_EQ(copy_best_checkpoints(shown_checkpoints(view, std::set<int64_t>{kRunKey + 1}),
                                  file.path("one")),
            1u);
  EXPECT_EQ(files_below(file.path("one")), (std::vector<std::string>{"model-0001.safetensors"}));
  std::ifstream copied(file.path("one/model-0001.safetensors"));
  std::string text;
  copied >> text;
  EXPECT_EQ(text, "b1");
  // Of both runs, and a key that no model has.
  EXPECT_EQ(copy_best_checkpoints(shown_checkpoints(view, std::set<int64_t>{0, 7, kRunKey + 2}),
                                  file.path("both")),
            2u);
  EXPECT_EQ(
      files_below(file.path("both")),
      (std::vector<std::string>{"run-1/model-0000.safetensors", "run-2/model-0002.safetensors"}));
  EXPECT_EQ(copy_best_checkpoints(shown_checkpoints(view, {}), file.path("all")), 6u);
  // One run without checkpoints: nothing is copied.
  fs::remove_all(file.path("b/best"));
  EXPECT_THROW(copy_best_checkpoints(shown_checkpoints(view, {}), file.path("none")), Error);
  EXPECT_TRUE(files_below(file.path("none")).empty());
}

class ExplorerRunAgain : public ::testing::Test {
 protected:
  void open() {
    Settings settings;
    settings.view = "training";
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
    driver_->settle();
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerRunAgain, ACommandIsCopiedWithOtherSettings) {
  store_run(file_.path(), 4, 5);
  open();
  driver_->click("Export");
  driver_->click("Copy command with changed settings");
  driver_->click("changed learning rate");
  driver_->type("1e-3,1e-2");
  driver_->click("changed models");
  driver_->type("16");
  driver_->click("Copy command");
  EXPECT_EQ(screen_->ui().clipboard, "workbench train net.ts --data x.npz -n 16 --lr 1e-3,1e-2");
  EXPECT_EQ(screen_->explorer().said(), "copied the command");
  EXPECT_EQ(screen_->ui().items.find("changed models"), nullptr);
}

TEST_F(ExplorerRunAgain, AnInterruptedRunIsResumedInAProcessOfItsOwn) {
  Store store = Store::create(file_.path());
  const std::string run = store.begin_run(stored_run(4, 50), "", 0);
  store.add_run_rows(stored_rows(run, 4, 0, 3));
  store.end_run(run, stored_run(4, 50, "digits", "interrupted"));
  open();
  ASSERT_NE(screen_->ui().items.find("Resume run"), nullptr);
  driver_->click("Resume run");
  // Its folder is not there: the process says so, and the window shows what it said.
  driver_->await("got no run.safetensors");
  EXPECT_NE(screen_->ui().items.find("Resume run"), nullptr);
}

/// The arguments of a training that would take hours, and saves by itself only at its end.
std::vector<std::string> long_training(const StoreFile& file) {
  std::ofstream data(file.path("data.csv"));
  for (int i = 0; i < 64; ++i) data << "x" << i << ",";
  data << "y\n";
  for (int k = 0; k < 40; ++k) {
    for (int i = 0; i < 64; ++i) data << (k * 7 + i * 3) % 11 + 0.5 << ",";
    data << k % 2 << "\n";
  }
  return {"train",        "mlp",       "--data",       file.path("data.csv"),
          "--target",     "y",         "-n",           "2",
          "--validation", "0.25",      "--steps",      "100000000",
          "--eval-every", "10",        "--save-every", "100000000",
          "--check",      "0",         "--save",       file.path("run"),
          "--db",         file.path(), "--quiet"};
}

/// The state of the store's first run as it stands there: of one that was killed, "running".
std::string stored_state(const StoreFile& file) {
  try {
    SQLite::Database db(file.path(), SQLite::OPEN_READONLY);
    db.setBusyTimeout(10'000);
    return db.execAndGet("SELECT state FROM run WHERE id = 1").getString();
  } catch (const std::exception&) {
    return "";  // not there yet
  }
}

TEST_F(ExplorerRunAgain, AResumedTrainingIsSavedWhenTheWindowCloses) {
  {
    Child child;
    child.patience_s = 120;
    child.start(long_training(file_));
    const double end_s = now_s() + 120;
    while (stored_state(file_).empty() && child.running() && now_s() < end_s)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(child.running()) << child.output();
    EXPECT_EQ(stored_state(file_), "running");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_EQ(stored_state(file_), "interrupted");
  EXPECT_TRUE(fs::exists(file_.path("run/report.json")));

  Store store = Store::create(file_.path());
  const std::string other = store.begin_run(stored_run(4, 50, "other"), "", 0);
  store.add_run_rows(stored_rows(other, 4, 0, 3));
  store.end_run(other, stored_run(4, 50, "other", "interrupted"));
  open();
  TrainingModel& training = screen_->explorer().training;
  const auto find = [&](const char* label) { return screen_->ui().items.find(label, true); };
  training.choose(1);
  driver_->settle();
  driver_->await("run 1 · mlp · interrupted");
  driver_->settle();
  driver_->click("Resume run");
  driver_->await("run 1 · mlp · running");
  driver_->settle();
  EXPECT_NE(find("goes on"), nullptr);
  // It is another run that goes on: this one does not, and has to wait.
  training.choose(2);
  driver_->settle();
  driver_->await("run 2 · other · interrupted");
  driver_->settle();
  EXPECT_EQ(find("goes on"), nullptr);
  ASSERT_NE(find("Resume run"), nullptr);
  EXPECT_FALSE(find("Resume run")->enabled);
  EXPECT_EQ(stored_state(file_), "running");
  driver_.reset();
  screen_.reset();
  EXPECT_EQ(stored_state(file_), "interrupted");
}

TEST_F(ExplorerRunAgain, ACompleteRunHasNothingToResume) {
  store_run(file_.path(), 4, 5);
  open();
  EXPECT_EQ(screen_->ui().items.find("Resume run"), nullptr);
}

}  // namespace
}  // namespace wide::run_command_test
