#include "app/sandbox/devices.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

namespace wide {
namespace {

namespace fs = std::filesystem;

int note_folder(dl_phdr_info* library, size_t, void* folders) {
  const fs::path path(library->dlpi_name);
  const std::string name = path.filename().string();
  const char* kinds[] = {"libtorch", "libc10", "libcu", "libnv"};
  const bool wanted = std::any_of(std::begin(kinds), std::end(kinds),
                                  [&](const char* kind) { return name.rfind(kind, 0) == 0; });
  if (wanted && path.is_absolute())
    static_cast<std::vector<std::string>*>(folders)->push_back(path.parent_path().string());
  return 0;
}

}  // namespace

void start_driver(const char* library) {
  void* const driver = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (!driver) return;
  if (const auto start = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"))) start(0);
}

std::vector<std::string> device_library_folders() {
  std::vector<std::string> folders;
  dl_iterate_phdr(&note_folder, &folders);
  // In Python's site-packages NVIDIA's libraries lie beside torch.
  for (const std::string& folder : std::vector(folders))
    if (const fs::path torch = fs::path(folder).parent_path(); torch.filename() == "torch")
      folders.push_back((torch.parent_path() / "nvidia").string());
  std::ranges::sort(folders);
  folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
  return folders;
}

std::vector<std::string> device_nodes(const std::string& folder) {
  std::vector<std::string> nodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (const std::string name = entry.path().filename().string();
        name.rfind("nvidia", 0) == 0 || name == "dxg")
      nodes.push_back(entry.path().string());
  return nodes;
}

}  // namespace wide
