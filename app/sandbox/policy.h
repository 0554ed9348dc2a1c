#pragma once
#include <string>
#include <vector>

namespace wide {

/// What a command allows the sandbox that opens its files.
struct SandboxPolicy {
  std::string what;                  // the file that error messages name
  std::vector<std::string> read;     // files that may be read
  std::vector<std::string> list;     // folders whose names may be listed, with those below
  std::vector<std::string> write;    // files that may be written; the process outside creates them
  std::vector<std::string> folders;  // folders that may be created
  std::vector<std::string> remove;   // files and folders that may be removed
  std::vector<std::string> checkpoints;  // folders in which any model-*.safetensors may be written
  std::string log;  // a file to append lines to; "": none; "DIR/": event files of the models in it
  std::string run;  // the stored run to resume; "": a new one
  double grace_s = 2;                   // seconds to end by itself after Ctrl-C
  std::string db;                       // the store for results; "": none
  bool device = false;                  // may use a GPU
  std::string driver = "libcuda.so.1";  // the library of the GPU's driver
  double timeout_s = 0;  // longest time without a heartbeat; 0: chosen by the size of the files
};

}  // namespace wide
