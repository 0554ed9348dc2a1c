#include "app/train/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/machine/environment.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kOwnerBytes = 4096;  // a longer file is no lock file of this program

/// The owner that the lock file `text` names, as part of a message.
std::string owner_of(const std::string& text) {
  const Json owner = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return fmt::format("process {} on {} has trained since {}", owner.at("pid").get<int64_t>(),
                       printable(owner.at("host").get<std::string>(), 80),
                       printable(owner.at("start").get<std::string>(), 40));
  } catch (const Json::exception&) {
    return "another process trains";  // it has not written its name yet
  }
}

}  // namespace

RunLock::RunLock(std::string folder)
    : folder_(std::move(folder)), file_((fs::path(folder_) / "run.lock").string()) {
  while (!open_file()) {
  }
}

RunLock::~RunLock() {
  // Removed while the lock is held: afterwards the file may belong to another process.
  if (lack_.empty()) ::unlink(file_.c_str());
  ::close(fd_);
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());
}

/// Opens and locks the file. Returns false if it must be tried again.
bool RunLock::open_file() {
  make_folder();
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (fd_ < 0) {
    if (errno == ENOENT) return false;  // an ending process has just removed the folder
    cannot_write(std::strerror(errno));
  }
  int failed = 0;
  while ((failed = ::flock(fd_, LOCK_EX | LOCK_NB)) && errno == EINTR) {
  }
  if (failed && errno == EWOULDBLOCK) refuse();
  if (failed) {
    lack_ =
        fmt::format("run folder: no lock ({}): nothing keeps a second process from writing to it",
                    std::strerror(errno));
    ::unlink(file_.c_str());
    return true;
  }
  // The previous owner removes its file: check that the locked one is still at this path.
  struct stat held {
  }, named{};
  if (::fstat(fd_, &held) || ::stat(file_.c_str(), &named) || held.st_ino != named.st_ino ||
      held.st_dev != named.st_dev) {
    ::close(fd_);
    return false;
  }
  write_owner();
  return true;
}

void RunLock::make_folder() {
  std::vector<std::string> missing;
  std::error_code error;
  for (fs::path at = folder_; !at.empty() && !fs::exists(at, error); at = at.parent_path())
    missing.insert(missing.begin(), at.string());
  for (const std::string& folder : missing) {
    if (fs::create_directory(folder, error)) made_.push_back(folder);
    if (error) cannot_write(error.message());
  }
}

void RunLock::cannot_write(const std::string& why) const {
  throw Error(fmt::format("[{}] writing: got {}, expected a folder to write to; try another --save",
                          printable(folder_), why),
              1);
}

void RunLock::refuse() const {
  std::string text(kOwnerBytes, '\0');
  const ssize_t got = ::pread(fd_, text.data(), text.size(), 0);
  ::close(fd_);
  text.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  throw Error(fmt::format("[{}] run: got a folder in which {}, expected one that no process trains "
                          "in; try again when that has ended, or another --save",
                          printable(folder_), owner_of(text)),
              1);
}

/// Writes the owner for messages. Errors are ignored: on a full disk messages lack the name.
void RunLock::write_owner() const {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1)) std::strcpy(host, "unknown");
  const Json owner = {{"host", host}, {"pid", ::getpid()}, {"start", utc_now()}};
  const std::string text = owner.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written = !::ftruncate(fd_, 0) && ::pwrite(fd_, text.data(), text.size(), 0) ==
                                                   static_cast<ssize_t>(text.size());
  if (!written && ::ftruncate(fd_, 0)) return;
}

}  // namespace wide
