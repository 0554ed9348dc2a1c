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
#include "data/reports/run/event_file.h"
#include "engine/error.h"
#include "engine/lower/tune/tuning.h"

namespace wide {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TuningKey, scope, primitive, config, shape, dtype, device,
                                   threads, n)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TuningEntry, strategy, median_ns)

namespace {

constexpr size_t kOpenFiles = 16;

template <class Tuned>
Message to_message(const Tuned& tuned) {
  return Message(nlohmann::json(tuned));
}

template <class Tuned>
Tuned from_message(const Message& message) {
  return nlohmann::json(message).get<Tuned>();
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

/// In the sandbox: its channel to the process outside.
std::shared_ptr<Channel> own_channel;

/// In the sandbox, from any thread: asks the process outside. Returns the answer and the descriptor
/// that came with it. Rethrows an Error of that process.
std::pair<Message, Descriptor> ask(const Message& request) {
  static std::mutex mutex;  // one request at a time
  const std::lock_guard lock(mutex);
  Channel& outside = *own_channel;
  if (!outside.send(request)) _exit(1);
  std::optional<Message> answer;
  while (!(answer = outside.take()))
    if (!outside.read()) _exit(1);  // the process outside is gone
  if (answer->contains("error"))
    throw Error(answer->at("error").get<std::string>(), answer->at("exit_code"));
  return {std::move(*answer), outside.take_descriptor()};
}

class AskedFile final : public NewFile {
 public:
  explicit AskedFile(const std::string& path) {
    auto [answer, descriptor] = ask({{"make", path}});
    number_ = answer.at("file");
    descriptor_ = std::move(descriptor);
  }
  ~AskedFile() override {
    descriptor_.close();
    if (!committed_) ask({{"drop", number_}});
  }
  int descriptor() const override { return descriptor_.get(); }
  void commit() override {
    ask({{"commit", number_}});
    committed_ = true;
  }

 private:
  int64_t number_ = 0;
  Descriptor descriptor_;
  bool committed_ = false;
};

class AskedPlaces final : public Places {
 public:
  std::unique_ptr<NewFile> file(const std::string& path) override {
    return std::make_unique<AskedFile>(path);
  }
  void append(const std::string& path, const std::string& text) override {
    ask({{"append", path}, {"text", text}});
  }
  void folder(const std::string& path) override { ask({{"folder", path}}); }
  void remove(const std::string& path) override { ask({{"remove", path}}); }
};

class AskedTuning final : public TuningTable {
 public:
  std::optional<TuningEntry> lookup(const TuningKey& key) override {
    const Message found = ask({{"lookup", to_message(key)}}).first.at("found");
    if (found.is_null()) return std::nullopt;
    return from_message<TuningEntry>(found);
  }
  void store(const TuningKey& key, const TuningEntry& entry) override {
    ask({{"found", to_message(entry)}, {"key", to_message(key)}});
  }
};

class AskedKeeper final : public Keeper {
 public:
  void open(const std::string& db) override {
    ask({{"store", db}});
    set_tuning_table(std::make_shared<AskedTuning>());
  }
  void add(const nlohmann::ordered_json& fusion) override { ask({{"fusion", fusion}}); }
  std::string begin_run(const nlohmann::ordered_json& document, const std::string& run,
                        int64_t step) override {
    return ask({{"begin", document}, {"run", run}, {"step", step}}).first.at("run");
  }
  void tell_run(const nlohmann::ordered_json& rows) override { ask({{"tell", rows}}); }
  std::vector<RunRequest> take_requests(const std::string& run, int64_t step, bool waits) override {
    const Message reply = ask({{"asked", run}, {"step", step}, {"waits", waits}}).first;
    return run_requests_of(reply.at("requests"));
  }
  void end_run(const std::string& run, const nlohmann::ordered_json& document) override {
    ask({{"finish", document}, {"run", run}});
  }
};

}  // namespace

void ask_for_everything(const std::shared_ptr<Channel>& channel) {
  own_channel = channel;
  set_places(std::make_unique<AskedPlaces>());
  set_keeper(std::make_unique<AskedKeeper>());
}

int RankGroup::rank() const { return launch().rank; }

int RankGroup::size() const { return launch().size; }

std::vector<Message> RankGroup::all_gather(const Message& value) {
  return ask({{"all_gather", value}}).first.at("values").get<std::vector<Message>>();
}

void RankGroup::send_error(const std::string& line) { ask({{"error_line", line}}); }

RankGroup* rank_group() {
  static RankGroup all;
  return own_channel && launch().size > 1 ? &all : nullptr;
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
    allowed(is_folder_of_log(path) ||
            std::ranges::find(policy_.folders, path) != policy_.folders.end());
    places().folder(path);
  } else if (request.contains("remove")) {
    const std::string path = request["remove"];
    allowed(is_checkpoint(path) || std::ranges::find(policy_.remove, path) != policy_.remove.end());
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
    const auto found = tuning_table().lookup(from_message<TuningKey>(request["lookup"]));
    return {{{"found", found ? to_message(*found) : Message(nullptr)}}};
  } else {
    tuning_table().store(from_message<TuningKey>(request.at("key")),
                         from_message<TuningEntry>(request.at("found")));
  }
  return {};
}

bool Answers::may_write(const std::string& path) const {
  return is_log(path) || is_checkpoint(path) ||
         std::ranges::find(policy_.write, path) != policy_.write.end();
}

bool Answers::is_checkpoint(const std::string& path) const {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.string().rfind("model-", 0) == 0 && name.extension() == ".safetensors" &&
         std::ranges::any_of(policy_.checkpoints, [&](const std::string& folder) {
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
