#include <filesystem>

#include "tests/data/python.h"
#include "tests/fuzz/targets.h"

namespace wide::replay_test {
namespace {

TEST(FuzzCorpus, IsReadWithoutAFinding) {
  const char* source = std::getenv("WORKBENCH_SOURCE");
  ASSERT_NE(source, nullptr);
  const auto corpus = std::filesystem::path(source) / "tests/fuzz/fixtures/corpus";
  for (const fuzz::Target& target : fuzz::targets()) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / target.name)) {
      const std::string bytes = read_text(entry.path().string());
      SCOPED_TRACE(entry.path().string());
      fuzz::run(target, bytes);
      // Cut and changed here and there: not the fuzzer, but what a port to another compiler breaks.
      for (size_t k = 1; k < 8; ++k) {
        fuzz::run(target, bytes.substr(0, bytes.size() * k / 8));
        std::string changed = bytes;
        if (!changed.empty()) changed[bytes.size() * k / 8] ^= 0x40;
        fuzz::run(target, changed);
      }
      ++count;
    }
    EXPECT_GE(count, 3) << target.name;
  }
}

}  // namespace
}  // namespace wide::replay_test
