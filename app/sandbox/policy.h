#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace wide {

/// What a command that opens files from elsewhere leaves to the process that opens them.
struct SandboxPolicy {
  std::string what;                      // the file that messages name
  std::vector<std::string> read;         // these files
  std::vector<std::string> list;         // names in these folders, and in those below
  std::vector<std::string> write;        // these files, made by whoever opened the sandbox
  std::vector<std::string> folders;      // may be made
  std::vector<std::string> remove;       // may be removed, folders with all that is in them
  std::vector<std::string> checkpoints;  // in these folders any model-*.safetensors
  std::string log;                       // is written to while it grows; "": none; "DIR/": in
                                         // it the event files of models
  std::string run;                       // in the store, that goes on; "": a new one
  double grace_s = 2;                    // to end by itself when asked
  std::string db;                        // the store that results go to; "": none
  bool device = false;                   // a GPU
  std::string driver = "libcuda.so.1";   // its driver's library
  double timeout_s = 0;                  // without a sign of life; 0: by what there is to read

  /// What the files to read hold.
  int64_t bytes() const;
};

}  // namespace wide
