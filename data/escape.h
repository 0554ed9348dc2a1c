#pragma once
#include <string>
#include <string_view>

namespace wide {

/// Valid UTF-8 without control characters: each broken byte or control becomes U+FFFD, line ends
/// and tabs become spaces unless `keep_lines`.
std::string clean_text(std::string_view text, bool keep_lines = false);

/// For text and attributes of XML and HTML.
std::string xml_escape(std::string_view text);

/// One CSV cell by RFC 4180. Text that begins with = + - or @ gets a leading apostrophe, since a
/// spreadsheet would run it as a formula; a number such as -0.5 stays as it is.
std::string csv_cell(std::string_view text);

/// A number with as many digits as its type needs to be read back; "nan" of either sign.
std::string csv_number(double number);
std::string csv_number(float number);

/// Quotes one argument for bash, so that a command with it can be pasted or run.
std::string shell_word(std::string_view word);

/// Plain text inside a Markdown table.
std::string markdown_escape(std::string_view text);

}  // namespace wide
