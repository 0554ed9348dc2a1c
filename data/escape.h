#pragma once
#include <string>
#include <string_view>

namespace wide {

/// Valid UTF-8 without control characters: each broken byte or control becomes U+FFFD, line ends
/// and tabs become spaces unless `keep_lines`.
std::string clean_text(std::string_view text, bool keep_lines = false);

/// For text and attributes of XML and HTML.
std::string xml_escape(std::string_view text);

/// One cell after RFC 4180. Text that a spreadsheet would take for a formula (= + - @ at its
/// start) gets a leading apostrophe; numbers are not text.
std::string csv_cell(std::string_view text);

/// One word of a command line as a shell reads it, whatever it holds: to be pasted, and to be run.
std::string shell_word(std::string_view word);

/// Plain text inside a Markdown table.
std::string markdown_escape(std::string_view text);

}  // namespace wide
