// Words of a command line that is to be pasted, against the shell that reads them.
#include "data/escape.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace wide::escape_test {
namespace {

std::string shell(const std::string& command) {
  std::string out;
  std::FILE* pipe = ::popen(("bash -c '" + command + "'").c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  ::pclose(pipe);
  return out;
}

TEST(ShellWord, IsReadAsItIs) {
  EXPECT_EQ(shell_word("linear.D=256,512"), "linear.D=256,512");
  for (const std::string& word : std::initializer_list<std::string>{
           "", "a b", "it's", "'", "$(touch /tmp/owned)", "`id`", "a\"b\\c", "~", "*", "a;b|c&d",
           "!x", "a\nb", "\x1b[201~rm\n", "it's\ta \\tab", "ü", "\x7f"}) {
    // The command itself goes through one more shell, as a word of its own.
    std::string command = "printf %s " + shell_word(word);
    for (size_t at = 0; (at = command.find('\'', at)) != std::string::npos; at += 4)
      command.replace(at, 1, "'\\''");
    EXPECT_EQ(shell(command), word);
    for (const char c : shell_word(word)) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
  }
}

}  // namespace
}  // namespace wide::escape_test
