#include "app/gpu/report.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "app/cancel.h"
#include "app/worker/spawn.h"
#include "data/bytes/descriptor.h"
#include "data/machine/ending.h"
#include "data/reports/html_page.h"
#include "data/text.h"
#include "engine/machine/clock.h"

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPollMs = 100;
constexpr size_t kLastWords = 8192;

/// Collects a child's standard output, line by line, and its standard error.
class Listener {
 public:
  Listener() : out_(make_pipe()), err_(make_pipe()) {
    if (!out_ || !err_) cannot_spawn("gpu-report");
  }

  std::vector<std::pair<int, int>> descriptors() const {
    return {{out_->write.get(), STDOUT_FILENO}, {err_->write.get(), STDERR_FILENO}};
  }
  void close_theirs() {
    out_->write.close();
    err_->write.close();
  }
  /// False once both streams have ended.
  bool listen(const std::function<void(const std::string&)>& line) {
    pollfd both[] = {{out_->read.get(), POLLIN, 0}, {err_->read.get(), POLLIN, 0}};
    ::poll(both, 2, kPollMs);
    if (both[0].revents && read_or_close(&out_->read, &printed_)) {
      for (size_t end = 0; (end = printed_.find('\n')) != std::string::npos;) {
        line(printed_.substr(0, end));
        printed_.erase(0, end + 1);
      }
    }
    if (both[1].revents) read_or_close(&err_->read, &words_);
    if (words_.size() > 2 * kLastWords) words_.erase(0, words_.size() - kLastWords);
    return out_->read.open() || err_->read.open();
  }
  const std::string& words() const { return words_; }

 private:
  std::optional<Pipe> out_, err_;
  std::string printed_, words_;
};

std::vector<std::string> arguments_of(const GpuStage& stage, c10::Device device,
                                      const std::string& folder) {
  if (stage.command) return stage.command(device, folder);
  return {"gpu-report", "--stage", stage.name, "--device", device.str()};
}

/// A line of `Steps` becomes, or completes, the last of `steps`.
void note_step(const std::string& line, Json* steps) {
  const Json said = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("step")) return;
  if (said.contains("ok"))
    steps->back() = said;
  else
    steps->push_back(said);
}

}  // namespace

Json run_gpu_stage(const GpuStage& stage, c10::Device device, const std::string& folder) {
  Json result = {{"name", stage.name}, {"what", stage.what}, {"status", "ok"}, {"reason", ""}};
  Json steps = Json::array();
  const double begun = now_s();
  Listener listener;
  Spawned process("gpu-report", arguments_of(stage, device, folder), listener.descriptors());
  listener.close_theirs();
  bool late = false;
  while (listener.listen([&](const std::string& line) { note_step(line, &steps); })) {
    if (cancelled()) throw Cancelled();
    late = now_s() - begun > stage.limit_s;
    if (late || process.ended()) break;
  }
  while (!late && listener.listen([&](const std::string& line) { note_step(line, &steps); }) &&
         now_s() - begun < stage.limit_s)
    continue;  // reads what the child printed last
  const int status = process.reap();
  const std::string words = last_line(listener.words());
  const auto end = [&](const char* how, const std::string& reason) {
    result["status"] = how;
    result["reason"] = reason;
  };
  Json* open = !steps.empty() && !steps.back().contains("ok") ? &steps.back() : nullptr;
  if (open) {
    (*open)["ok"] = false;
    (*open)["reason"] = "did not end";
  }
  const std::string cut = late && stage.cut ? stage.cut(folder) : "";
  if (!cut.empty()) {
    result["reason"] = cut;
  } else if (late) {
    end("timeout", fmt::format("got no end after {:.3g} s", stage.limit_s));
  } else if (WIFSIGNALED(status)) {
    end("crashed", signal_text(WTERMSIG(status)) + (words.empty() ? "" : ": " + words));
  } else if (WEXITSTATUS(status) != 0) {
    end("failed", words.empty() ? fmt::format("got exit code {}", WEXITSTATUS(status))
                                : printable(words, 400));
  }
  if (result["status"] == "ok")
    for (const Json& step : steps)
      if (!step["ok"].get<bool>()) {
        end("failed", step["reason"].get<std::string>());
        break;
      }
  result["seconds"] = now_s() - begun;
  result["limit_s"] = stage.limit_s;
  result["steps"] = std::move(steps);
  return result;
}

Json gpu_verdict(const Json& stages) {
  for (const Json& stage : stages) {
    if (stage["status"] == "ok") continue;
    Json verdict = {{"status", stage["status"]},
                    {"stage", stage["name"]},
                    {"step", ""},
                    {"reason", stage["reason"]}};
    for (const Json& step : stage["steps"])
      if (!step["ok"].get<bool>()) {
        verdict["step"] = step["step"];
        break;
      }
    return verdict;
  }
  return {{"status", "ok"}, {"stage", ""}, {"step", ""}, {"reason", ""}};
}

std::string gpu_report_html(const Json& report) {
  const auto text = [](const Json& json) {
    return html_escape(json.is_string() ? json.get<std::string>() : json.dump());
  };
  const Json& verdict = report["verdict"];
  std::string body = "<h1>GPU report</h1>\n<h2>Verdict</h2>\n";
  if (verdict["status"] == "ok")
    body += "<p>Every stage is ok.</p>\n";
  else
    body += fmt::format(
        "<p class=\"incorrect\">The first stage that is not ok: <b>{}</b>{} ({}): {}"
        "</p>\n",
        text(verdict["stage"]),
        verdict["step"] == "" ? "" : ", step <b>" + text(verdict["step"]) + "</b>",
        text(verdict["status"]), text(verdict["reason"]));
  body +=
      "<table><thead><tr><th>stage</th><th>what</th><th>status</th><th>seconds</th>"
      "<th>reason</th></tr></thead><tbody>\n";
  for (const Json& stage : report["stages"])
    body += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{}</td></tr>\n",
                        text(stage["name"]), text(stage["what"]), text(stage["status"]),
                        stage["seconds"].get<double>(), text(stage["reason"]));
  body += "</tbody></table>\n";
  for (const Json& stage : report["stages"]) {
    body += fmt::format("<h2>{}</h2>\n<table><tbody>\n", text(stage["name"]));
    for (const Json& step : stage["steps"])
      body += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", text(step["step"]),
                          step["ok"].get<bool>() ? "ok" : "<b>" + text(step["reason"]) + "</b>",
                          step.contains("data") ? text(step["data"]) : "");
    body += "</tbody></table>\n";
  }
  return html_page("GPU report", body);
}

}  // namespace wide
