#include "data/bytes/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data/bytes/descriptor.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {
namespace {

namespace fs = std::filesystem;

/// Whether `path` is a pipe or device, which is written directly. Links of /dev and /proc, such as
/// /dev/stdout, are followed.
bool is_special(const std::string& path) {
  struct stat status {};
  const bool descriptor = path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0;
  const int flags = descriptor ? 0 : AT_SYMLINK_NOFOLLOW;
  return !fstatat(AT_FDCWD, path.c_str(), &status, flags) &&
         (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

/// Flushes a folder, so that names in it survive a power failure.
void sync_folder(const std::string& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.open()) ::fsync(opened.get());  // it may be writable but not readable
}

class DiskFile final : public NewFile {
 public:
  explicit DiskFile(const std::string& path) : path_(path), special_(is_special(path)) {
    if (special_) {
      fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
      fd_ = ::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
      if (fd_ < 0) make_named();  // the file system has no files without a name
    }
    if (fd_ < 0) refuse_writing(path, errno);
  }
  ~DiskFile() override {
    if (!part_.empty()) ::unlink(part_.c_str());
    if (fd_ >= 0) ::close(fd_);
  }

  int descriptor() const override { return fd_; }

  void commit() override {
    if (special_) return;
    if (::fsync(fd_)) refuse_writing(path_, errno);
    if (part_.empty()) {
      if (link_to(path_)) return sync_folder(folder_of(path_));
      if (errno == EEXIST) link_fresh();
      if (part_.empty()) refuse_writing(path_, errno);
    }
    give_name(part_, path_);
    part_.clear();
  }

 private:
  void make_named() {
    do {
      part_ = fresh_name(path_);
      fd_ = ::open(part_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EEXIST);
    if (fd_ < 0) part_.clear();
  }

  /// Links the file under a new name. On failure `errno` says why.
  void link_fresh() {
    bool linked = false;
    do {
      part_ = fresh_name(path_);
      linked = link_to(part_);
    } while (!linked && errno == EEXIST);
    if (!linked) part_.clear();
  }

  bool link_to(const std::string& name) const {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    return !::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
  }

  std::string path_, part_;  // part_: its temporary name, if it has one
  bool special_;
  int fd_ = -1;
};

std::unique_ptr<Places>& current() {
  static std::unique_ptr<Places> places = std::make_unique<Places>();
  return places;
}

}  // namespace

void refuse_writing(const std::string& path, int why) {
  throw Error(fmt::format("[{}] writing: got {}, expected a place to write; try another path",
                          printable(path), std::strerror(why)),
              1);
}

std::string fresh_name(const std::string& path) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) refuse_writing(path, errno);
  const std::string name = fs::path(path).filename().string().substr(0, 200);
  return (fs::path(folder_of(path)) / fmt::format(".{}.{:016x}", name, random)).string();
}

void give_name(const std::string& part, const std::string& path) {
  if (::rename(part.c_str(), path.c_str())) refuse_writing(path, errno);
  sync_folder(folder_of(path));
}

std::unique_ptr<NewFile> Places::file(const std::string& path) {
  return std::make_unique<DiskFile>(path);
}

void Places::append(const std::string& path, const std::string& text) {
  const Descriptor opened(
      ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
  if (!opened.open()) refuse_writing(path, errno);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(opened.get(), text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) refuse_writing(path, errno);
    done += static_cast<size_t>(put);
  }
}

void Places::remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void Places::folder(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(path, ignored);
}

Places& places() { return *current(); }

void set_places(std::unique_ptr<Places> places) { current() = std::move(places); }

}  // namespace wide
