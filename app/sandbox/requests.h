#pragma once
#include <map>
#include <memory>

#include "app/sandbox/channel.h"
#include "app/sandbox/policy.h"
#include "data/bytes/new_file.h"

// What the sandbox asks for, as it may name no path for writing: one request and one answer at a
// time,
//   {"make": path} -> {"file": number} and a descriptor, {"commit": file}, {"drop": file},
//   {"folder": path}, {"remove": path}, {"append": path, "text": text}, {"store": path}, {"fusion":
//   document},
//   {"begin": document, "run": number, "step": step} -> {"run": number}, {"tell": rows},
//   {"finish": document, "run": number}, {"lookup": key} -> {"found": entry},
//   {"found": entry, "key": key}, {"error_line": line}; of one of a group also {"all_gather":
//   value} -> {"values": [value]}, once all have sent theirs; the answer to what failed is
//   {"error": line, "exit_code": code};
// and at last, without an answer, {"end": exit code}.
namespace wide {

/// In the sandbox: from now on new files, the store and tuning results go through requests.
void ask_for_everything(const std::shared_ptr<Channel>& channel);

/// In the process outside: carries out requests as far as the policy allows.
class Answers {
 public:
  Answers(const SandboxPolicy& policy, const Channel& channel)
      : policy_(policy), channel_(channel) {}

  /// Throws Channel::Garbage for what is no request or not allowed.
  void answer(const Message& request);

 private:
  struct Reply;
  Reply reply_to(const Message& request);
  bool may_write(const std::string& path) const;
  bool is_checkpoint(const std::string& path) const;
  bool is_log(const std::string& path) const;
  bool is_folder_of_log(const std::string& path) const;

  const SandboxPolicy& policy_;
  const Channel& channel_;
  std::map<int64_t, std::unique_ptr<NewFile>> files_;
  int64_t next_file_ = 0;
  bool added_ = false;
  std::string run_;  // the number of the training run that this sandbox has begun
};

}  // namespace wide
