// Text for people: no line is longer than 100 columns, except where one word is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::tools {

// File names and texts from outside must not steer the terminal: control characters are escaped,
// also those of C1, in UTF-8 or as a byte that is part of no character.
std::string printable(std::string_view text);

// One paragraph, ended by a newline; its lines after the first begin with `indent` spaces. Newlines
// of the text stay.
std::string wrapped(const std::string& text, size_t indent);

// 1234567 -> "1,234,567".
std::string with_commas(uint64_t number);

// "1 shard", "2 shards".
std::string counted(uint64_t number, const std::string& noun);

// Rows of cells; the first row has the headings. Columns are as wide as their widest cell; all but
// the first `left` are set to the right.
std::string table(const std::vector<std::vector<std::string>>& rows, size_t left);

}  // namespace quire::tools
