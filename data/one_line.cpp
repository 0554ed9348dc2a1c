#include "data/one_line.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include "data/text.h"

namespace wide {

namespace {

std::string first_line(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  std::string line = text.substr(begin, text.find_first_of("\r\n", begin) - begin);
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace

std::string one_line(const std::exception& error) {
  std::string text = error.what();
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error))
    text = torch->what_without_backtrace();
  // TorchScript's interpreter puts its trace before the cause.
  if (const size_t at = text.find("RuntimeError: ");
      text.find("Traceback of TorchScript") != std::string::npos && at != std::string::npos)
    text = text.substr(at + 14);
  // The allocator's message begins with a source line.
  if (const size_t at = text.find("DefaultCPUAllocator: "); at != std::string::npos)
    text = text.substr(at + 21);
  text = first_line(text);
  return text.empty() ? "failed without a message" : printable(text, 400);
}

bool speaks_of_memory(std::string_view words) {
  for (const char* sign : {"bad_alloc", "ut of memory", "llocate memory", "DefaultCPUAllocator: "})
    if (words.find(sign) != std::string_view::npos) return true;
  return false;
}

bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) || speaks_of_memory(error.what());
}

}  // namespace wide
