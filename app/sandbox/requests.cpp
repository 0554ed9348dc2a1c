#include "app/sandbox/requests.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "app/cluster/launch.h"
#include "app/results/keeper.h"
#include "app/sandbox/group.h"
#include "data/one_line.h"
#include "data/reports/run/event_file.h"
#include "engine/error.h"
#include "engine/lower/tune/tuning.h"

namespace wide {
namespace {

constexpr size_t kOpenFiles = 16;

Message to_message(const TuningKey& key) {
  return {{"scope", key.scope},     {"primitive", key.primitive},
          {"config", key.config},   {"shape", key.shape},
          {"dtype", key.dtype},     {"device", key.device},
          {"threads", key.threads}, {"n", key.n}};
}

TuningKey key_of(const Message& m) {
  return {m.at("scope"), m.at("primitive"), m.at("config"),  m.at("shape"),
          m.at("dtype"), m.at("device"),    m.at("threads"), m.at("n")};
}

Message to_message(const TuningEntry& entry) {
  return {{"strategy", entry.strategy}, {"median_ns", entry.median_ns}};
}

/// The model's number if `path` begins with DIR/model-NUMBER and the log is the folder DIR. Callers
/// build the expected path from that number and compare, so nothing else of `path` is trusted.
std::optional<uint64_t> model_of_log(const std::string& log, const std::string& path) {
  const std::string before = log + "model-";
  if (!log.ends_with('/') || !path.starts_with(before)) return std::nullopt;
  uint64_t model = 0;
  const char* digits = path.data() + before.size();
  if (std::from_chars(digits, path.data() + path.size(), model).ec != std::errc())
    return std::nullopt;
  return model;
}

TuningEntry entry_of(const Message& m) { return {m.at("strategy"), m.at("median_ns")}; }

/// The sandbox's side: one request at a time, from any thread.
class Asking {
 public:
  explicit Asking(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  /// Returns the answer and the descriptor that came with it. Rethrows an Error of the process
  /// outside.
  std::pair<Message, int> ask(const Message& request) {
    const std::lock_guard lock(mutex_);
    if (!channel_->send(request)) _exit(1);
    std::optional<Message> answer;
    while (!(answer = channel_->take()))
      if (!channel_->read()) _exit(1);  // the process outside is gone
    if (answer->contains("error"))
      throw Error(answer->at("error").get<std::string>(), answer->at("exit_code"));
    return {std::move(*answer), channel_->take_descriptor()};
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Channel> channel_;
};

class AskedFile final : public NewFile {
 public:
  AskedFile(std::shared_ptr<Asking> outside, const std::string& path)
      : outside_(std::move(outside)) {
    auto [answer, descriptor] = outside_->ask({{"make", path}});
    number_ = answer.at("file");
    descriptor_ = descriptor;
  }
  ~AskedFile() override {
    ::close(descriptor_);
    if (!committed_) outside_->ask({{"drop", number_}});
  }
  int descriptor() const override { return descriptor_; }
  void commit() override {
    outside_->ask({{"commit", number_}});
    committed_ = true;
  }

 private:
  std::shared_ptr<Asking> outside_;
  int64_t number_ = 0;
  int descriptor_ = -1;
  bool committed_ = false;
};

class AskedPlaces final : public Places {
 public:
  explicit AskedPlaces(std::shared_ptr<Asking> outside) : outside_(std::move(outside)) {}
  std::unique_ptr<NewFile> file(const std::string& path) override {
    return std::make_unique<AskedFile>(outside_, path);
  }
  void append(const std::string& path, const std::string& text) override {
    outside_->ask({{"append", path}, {"text", text}});
  }
  void folder(const std::string& path) override { outside_->ask({{"folder", path}}); }
  void remove(const std::string& path) override { outside_->ask({{"remove", path}}); }

 private:
  std::shared_ptr<Asking> outside_;
};

class AskedTuning final : public TuningTable {
 public:
  explicit AskedTuning(std::shared_ptr<Asking> outside) : outside_(std::move(outside)) {}
  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    const Message found = outside_->ask({{"lookup", to_message(key)}}).first.at("found");
    if (found.is_null()) return std::nullopt;
    return entry_of(found);
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    outside_->ask({{"found", to_message(entry)}, {"key", to_message(key)}});
  }

 private:
  std::shared_ptr<Asking> outside_;
};

class AskedKeeper final : public Keeper {
 public:
  explicit AskedKeeper(std::shared_ptr<Asking> outside) : outside_(std::move(outside)) {}
  void open(const std::string& db) override {
    outside_->ask({{"store", db}});
    set_tuning_table(std::make_shared<AskedTuning>(outside_));
  }
  void add(const nlohmann::ordered_json& fusion) override { outside_->ask({{"fusion", fusion}}); }
  std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                        int64_t step) override {
    return outside_->ask({{"begin", document}, {"run", run}, {"step", step}}).first.at("run");
  }
  void tell_run(const nlohmann::ordered_json& rows) override { outside_->ask({{"tell", rows}}); }
  std::vector<RunRequest> take_requests(const std::string& run, int64_t step, bool waits) override {
    const Message reply = outside_->ask({{"asked", run}, {"step", step}, {"waits", waits}}).first;
    return run_requests_of(reply.at("requests"));
  }
  void end_run(const std::string& run, const nlohmann::ordered_json& document) override {
    outside_->ask({{"finish", document}, {"run", run}});
  }

 private:
  std::shared_ptr<Asking> outside_;
};

class AskedRankGroup final : public RankGroup {
 public:
  explicit AskedRankGroup(std::shared_ptr<Asking> outside) : outside_(std::move(outside)) {}
  int rank() const override { return launch().rank; }
  int size() const override { return launch().size; }
  std::vector<Message> all_gather(const Message& value) override {
    return outside_->ask({{"all_gather", value}}).first.at("values").get<std::vector<Message>>();
  }
  void send_error(const std::string& line) override { outside_->ask({{"error_line", line}}); }

 private:
  std::shared_ptr<Asking> outside_;
};

}  // namespace

void ask_for_everything(const std::shared_ptr<Channel>& channel) {
  const auto outside = std::make_shared<Asking>(channel);
  if (launch().size > 1) set_rank_group(std::make_unique<AskedRankGroup>(outside));
  set_places(std::make_unique<AskedPlaces>(outside));
  set_keeper(std::make_unique<AskedKeeper>(outside));
}

struct Answers::Reply {
  Message message = Message::object();
  int descriptor = -1;
};

void Answers::answer(const Message& request) {
  Reply reply;
  try {
    reply = reply_to(request);
  } catch (const Error& e) {
    reply.message = {{"error", e.what()}, {"exit_code", e.exit_code()}};
  } catch (const Message::exception&) {
    throw Channel::Garbage();
  }
  if (!channel_.send(reply.message, reply.descriptor, /*patient=*/false)) throw Channel::Garbage();
}

Answers::Reply Answers::reply_to(const Message& request) {
  const auto allowed = [](bool right) {
    if (!right) throw Channel::Garbage();
  };
  if (request.contains("make")) {
    const std::string path = request["make"];
    allowed(may_write(path) && files_.size() < kOpenFiles);
    auto& file = files_[++next_file_] = places().file(path);
    return {{{"file", next_file_}}, file->descriptor()};
  }
  if (request.contains("commit") || request.contains("drop")) {
    const bool commit = request.contains("commit");
    const auto file = files_.find(request[commit ? "commit" : "drop"].get<int64_t>());
    allowed(file != files_.end());
    if (commit) file->second->commit();
    files_.erase(file);
  } else if (request.contains("folder")) {
    const std::string path = request["folder"];
    allowed(is_folder_of_log(path) || std::find(policy_.folders.begin(), policy_.folders.end(),
                                                path) != policy_.folders.end());
    places().folder(path);
  } else if (request.contains("remove")) {
    const std::string path = request["remove"];
    allowed(is_checkpoint(path) ||
            std::find(policy_.remove.begin(), policy_.remove.end(), path) != policy_.remove.end());
    places().remove(path);
  } else if (request.contains("store")) {
    allowed(!policy_.db.empty() && request["store"] == policy_.db);
    keeper().open(policy_.db);
  } else if (request.contains("fusion")) {
    allowed(!policy_.db.empty() && !std::exchange(added_, true));
    keeper().add(request["fusion"]);
  } else if (request.contains("append")) {
    const std::string path = request["append"];
    allowed(is_log(path));
    places().append(path, request.at("text"));
  } else if (request.contains("begin")) {
    // One run per sandbox: a new one, or the one that is resumed. Rank 0 begins its run a second
    // time when it has merged the other ranks' models.
    const std::string run = request.at("run");
    allowed(!policy_.db.empty() &&
            (run_.empty() ? run.empty() || run == policy_.run : run == run_));
    run_ = keeper().begin_run(request["begin"], run, request.at("step"));
    return {{{"run", run_}}};
  } else if (request.contains("tell")) {
    allowed(!run_.empty() && request["tell"].at("run") == run_);
    keeper().tell_run(request["tell"]);
  } else if (request.contains("asked")) {
    allowed(!run_.empty() && request["asked"] == run_);
    const auto asked = keeper().take_requests(run_, request.at("step"), request.at("waits"));
    return {{{"requests", to_json(asked)}}};
  } else if (request.contains("finish")) {
    allowed(!run_.empty() && request.at("run") == run_);
    keeper().end_run(run_, request["finish"]);
  } else if (request.contains("error_line")) {
    return {};  // the caller has kept the line for the other ranks
  } else if (request.contains("lookup")) {
    const auto found = tuning_table().lookup(key_of(request["lookup"]));
    return {{{"found", found ? to_message(*found) : Message(nullptr)}}};
  } else {
    tuning_table().store(key_of(request.at("key")), entry_of(request.at("found")));
  }
  return {};
}

bool Answers::may_write(const std::string& path) const {
  return is_log(path) || is_checkpoint(path) ||
         std::find(policy_.write.begin(), policy_.write.end(), path) != policy_.write.end();
}

bool Answers::is_checkpoint(const std::string& path) const {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.string().rfind("model-", 0) == 0 && name.extension() == ".safetensors" &&
         std::any_of(policy_.checkpoints.begin(), policy_.checkpoints.end(),
                     [&](const std::string& folder) {
                       return path == (std::filesystem::path(folder) / name).string();
                     });
}

bool Answers::is_log(const std::string& path) const {
  if (!policy_.log.ends_with('/')) return !path.empty() && path == policy_.log;
  const std::optional<uint64_t> model = model_of_log(policy_.log, path);
  return model && path == event_file(policy_.log, *model);
}

bool Answers::is_folder_of_log(const std::string& path) const {
  const std::optional<uint64_t> model = model_of_log(policy_.log, path);
  return model && path == event_folder(policy_.log, *model);
}

}  // namespace wide
