#pragma once
#include <memory>
#include <string>

namespace wide {

/// A file that has no name yet: it gets one when it is committed, whole, or is gone.
class NewFile {
 public:
  virtual ~NewFile() = default;
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Open for writing; belongs to this object.
  virtual int descriptor() const = 0;
  /// Once the bytes are on the disk the file gets its name, in place of what had it: whenever the
  /// power goes, there is the old file or the new one. Throws Error (exit code 1).
  virtual void commit() = 0;
};

/// A name beside `path` that no other writer has and nobody can have put there before. Throws Error
/// (exit code 1).
std::string fresh_name(const std::string& path);
/// What lies whole at `part` gets the name `path` in the same folder, on the disk too. Throws Error
/// (exit code 1).
void give_name(const std::string& part, const std::string& path);

/// Where new files come from.
class Places {
 public:
  virtual ~Places() = default;
  /// For `path`, in a folder that exists. A symbolic link there is replaced, not followed; to a
  /// pipe or a device it is written directly. Throws Error (exit code 1) where no file can be made.
  virtual std::unique_ptr<NewFile> file(const std::string& path);
  /// Adds to the end of a file, which is made where there is none: for logs, which are read while
  /// they grow. Throws Error (exit code 1).
  virtual void append(const std::string& path, const std::string& text);
  /// A file, or a folder with all that is in it. What is not there, or cannot be removed, stays so.
  virtual void remove(const std::string& path);
  /// Makes a folder and those around it. What stands in the way shows when it is used.
  virtual void folder(const std::string& path);
};

/// Of this process: the file system's own, unless it may name no path for writing and has to ask.
Places& places();
void set_places(std::unique_ptr<Places> places);

}  // namespace wide
