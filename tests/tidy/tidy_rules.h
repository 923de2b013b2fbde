// The rules of the house as functions over text: each takes files and returns what breaks the rule, so that a test can show both that the
// tree keeps a rule and that the rule can fail. Paths are relative to the top folder, with '/'.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::tidy {

struct File {
  std::string path;
  std::string text;
};

struct Finding {
  std::string path;
  int line = 0;
  std::string message;
};

using Tree = std::vector<File>;
using Findings = std::vector<Finding>;

// The text with comments blanked out (line structure kept); with_strings = false blanks string and character literals too.
std::string code_of(std::string_view text, bool with_strings);

// Over one file.
Findings include_directions(const File& file);
Findings attention_kinds(const File& file);
Findings output_and_environment(const File& file);
Findings refused_names(const File& file);
Findings long_functions(const File& file);
Findings long_files(const File& file);
Findings layout_of_lines(const File& file);
Findings open_ends(const File& file);
Findings large_blobs(const File& file);
Findings wide_classes(const File& file);

// Over the tree.
Findings single_owners(const Tree& tree);
Findings unused_headers(const Tree& tree);
Findings dead_files(const Tree& tree);
Findings shared_names(const Tree& tree);
Findings unequal_versions(const Tree& tree);

// Every file below top, build and hidden folders left out (but .ci).
Tree read_tree(const std::string& top);

std::string to_text(const Findings& findings);

}  // namespace quire::tidy
