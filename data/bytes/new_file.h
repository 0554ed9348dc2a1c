#pragma once
#include <memory>
#include <string>

namespace wide {

/// A file being written, without a name. `commit` gives it its name when it is complete; without a
/// commit nothing remains.
class NewFile {
 public:
  virtual ~NewFile() = default;
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Open for writing; belongs to this object.
  virtual int descriptor() const = 0;
  /// Flushes the bytes to the disk, then replaces the file of that name. After a power failure
  /// there is the old file or the new one. Throws Error (exit code 1).
  virtual void commit() = 0;
};

/// Throws the Error (exit code 1) that a file cannot be written; `why` is an errno.
[[noreturn]] void refuse_writing(const std::string& path, int why);
/// A new, unpredictable name in the folder of `path` for a temporary file. Throws Error (exit code
/// 1).
std::string fresh_name(const std::string& path);
/// Renames the complete file `part` to `path`, in the same folder, and flushes the folder. Throws
/// Error (exit code 1).
void give_name(const std::string& part, const std::string& path);

/// How files are created, changed and removed: by the file system, or in the sandbox by requests to
/// the process outside.
class Places {
 public:
  virtual ~Places() = default;
  /// A new file for `path`, in a folder that exists. A symbolic link at `path` is replaced, not
  /// followed; a pipe or device is written directly. Throws Error (exit code 1) if it cannot be
  /// made.
  virtual std::unique_ptr<NewFile> file(const std::string& path);
  /// Appends to a file, which is made if it does not exist: for logs that are read while they grow.
  /// Throws Error (exit code 1).
  virtual void append(const std::string& path, const std::string& text);
  /// Removes a file, or a folder with its contents. Errors are ignored.
  virtual void remove(const std::string& path);
  /// Makes a folder and its parents. Errors are ignored: they show when the folder is used.
  virtual void folder(const std::string& path);
};

/// The `Places` of this process: the file system's, except in the sandbox, which must ask for
/// files.
Places& places();
void set_places(std::unique_ptr<Places> places);

}  // namespace wide
