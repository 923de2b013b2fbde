// Method: every rule twice. Over the tree it finds nothing; over a small example it finds the one thing that breaks it, and a neighbour
// that is legal passes.
#include <gtest/gtest.h>

#include <string>

#include "tests/tidy/tidy_rules.h"

namespace quire::tidy {
namespace {

const Tree& tree() {
  static const Tree kTree = read_tree(QUIRE_SOURCE_DIR);
  return kTree;
}

using FileRule = Findings (*)(const File&);

Findings over_tree(FileRule rule) {
  Findings all;
  for (const File& file : tree()) {
    const Findings found = rule(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

#define EXPECT_CLEAN(findings)                      \
  do {                                              \
    const Findings found_ = (findings);             \
    EXPECT_TRUE(found_.empty()) << to_text(found_); \
  } while (false)

void expect_line(const Findings& findings, int line) {
  ASSERT_EQ(findings.size(), 1u) << to_text(findings);
  EXPECT_EQ(findings[0].line, line) << to_text(findings);
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Tree, IsTheTree) {
  ASSERT_GT(tree().size(), 30u) << "nothing read below " << QUIRE_SOURCE_DIR;
  for (const File& file : tree()) EXPECT_NE(file.path.rfind("build/", 0), 0u) << file.path;
}

TEST(Code, KeepsLinesAndDropsCommentsAndLiterals) {
  const std::string text = "a /* b\nc */ d // e\n\"f // g\" 'h' R\"x(i \" )x\" j\n";
  EXPECT_EQ(code_of(text, true), "a     \n     d     \n\"f // g\" 'h' R\"x(i \" )x\" j\n");
  EXPECT_EQ(code_of(text, false), "a     \n     d     \n\"      \" ' '             j\n");
  EXPECT_EQ(code_of("1'000 + x", false), "1'000 + x");
}

TEST(Includes, LookBack) { EXPECT_CLEAN(over_tree(include_directions)); }

TEST(Includes, OfALaterRoomAreRefused) {
  expect_line(include_directions({"core/pool/pool.cc", "#include <vector>\n#include \"core/step/kv_cache.h\"\n"}), 2);
  EXPECT_CLEAN(include_directions({"core/step/kv_cache.cc", "#include \"core/pool/pool.h\"\n#include \"core/step/kv_cache.h\"\n"}));
  EXPECT_CLEAN(include_directions({"core/pool/pool.cc", "// #include \"core/step/kv_cache.h\"\n"}));
}

TEST(Includes, OfADeviceFromBookkeepingAreRefused) {
  expect_line(include_directions({"core/step/kv_cache.cc", "#include \"core/memory/shard_memory.h\"\n"}), 1);
  expect_line(include_directions({"core/memory/shard_memory.cc", "#include \"core/step/kv_cache.h\"\n"}), 1);
  expect_line(include_directions({"core/connector/tickets.cc", "#include \"core/plan/cache_config.h\"\n"}), 1);
  EXPECT_CLEAN(
      include_directions({"core/c_api/memory_api.cc", "#include \"core/memory/shard_memory.h\"\n#include \"core/step/kv_cache.h\"\n"}));
}

TEST(Includes, OfCoreFromModulesAreRefused) {
  expect_line(include_directions({"drivers/cpu/driver.cc", "#include \"core/base/ids.h\"\n"}), 1);
  expect_line(include_directions({"drivers/cpu/driver.cc", "#include \"drivers/null/driver.h\"\n"}), 1);
  expect_line(include_directions({"drivers/cpu/driver.cc", "#include \"../null/driver.h\"\n"}), 1);
  expect_line(include_directions({"drivers/cpu/driver.cc", "#include \"null/driver.h\"\n"}), 1);
  expect_line(include_directions({"plugins/null/null_connector.c", "#include \"drivers/common/work.h\"\n"}), 1);
  expect_line(include_directions({"plugins/host/region.cc", "#include \"plugins/file/ring.h\"\n"}), 1);
  expect_line(include_directions({"plugins/common/settings.cc", "#include \"plugins/host/region.h\"\n"}), 1);
  EXPECT_CLEAN(include_directions({"plugins/host/host_instance.cc", "#include \"plugins/common/settings.h\"\n#include \"region.h\"\n"}));
  EXPECT_CLEAN(include_directions(
      {"drivers/cpu/driver.cc",
       "#include <quire/driver.h>\n#include \"drivers/common/work.h\"\n#include \"drivers/cpu/ops.h\"\n#include \"ops.h\"\n"}));
}

TEST(Includes, OfCoreFromClientsAreRefused) {
  expect_line(include_directions({"tools/quire/main.cc", "#include \"core/step/kv_cache.h\"\n"}), 1);
  expect_line(include_directions({"samples/engine/main.c", "#include \"../other/model.h\"\n"}), 1);
  expect_line(include_directions({"abi/include/quire/model.h", "#include <stddef.h>\n"}), 1);
  EXPECT_CLEAN(include_directions({"samples/engine/main.c", "#include <quire/quire.h>\n#include \"model.h\"\n"}));
}

TEST(Owners, OfForeignLibrariesAreSingle) { EXPECT_CLEAN(single_owners(tree())); }

TEST(Owners, ASecondFileOrAnotherRoomIsRefused) {
  const std::string dl = "#include <dlfcn.h>\n";
  expect_line(single_owners({{"core/modules/a.cc", dl}, {"core/modules/b.cc", dl}}), 1);
  expect_line(single_owners({{"core/c_api/a.cc", "#include <spdlog/spdlog.h>\n"}}), 1);
  expect_line(single_owners({{"core/memory/a.cc", "#include <dlpack/dlpack.h>\n"}}), 1);
  EXPECT_CLEAN(single_owners({{"core/modules/a.cc", dl + dl}, {"tests/abi/a.cc", dl}}));
}

TEST(Functions, AreAtMost70Lines) { EXPECT_CLEAN(over_tree(long_functions)); }

TEST(Functions, LongerOnesAreRefused) {
  const std::string body = repeat("  call();\n", 69);
  expect_line(long_functions({"core/pool/a.cc", "namespace a {\nclass B {\n void f() const {\n" + body + " }\n};\n}\n"}), 3);
  expect_line(long_functions({"core/pool/a.cc", "A::A() : b_{1}, c_(2) {\n" + body + "}\n"}), 1);
  EXPECT_CLEAN(long_functions({"core/pool/a.cc", "int f() {\n" + repeat("  call();\n", 68) + "}\n"}));
  EXPECT_CLEAN(long_functions({"core/pool/a.cc", "const int kTable[] = {\n" + repeat("  1,\n", 100) + "};\n"}));
  EXPECT_CLEAN(long_functions({"core/pool/a.cc", "struct A {\n" + repeat("  int f() { return \"{\"[0]; }\n", 100) + "};\n"}));
  EXPECT_CLEAN(long_functions({"drivers/cpu/kernels/a.cc", "int f() {\n" + body + body + "}\n"}));
}

TEST(Classes, HaveAtMost20FieldsAnd40Methods) { EXPECT_CLEAN(over_tree(wide_classes)); }

TEST(Classes, WiderOnesAreRefused) {
  const auto with = [](const char* kind, const std::string& member, int n) {
    std::string text = std::string(kind) + " A {\n public:\n  using B = int;\n";
    for (int i = 0; i < n; ++i) text += "  " + member;
    return wide_classes({"core/step/a.h", text + "};\n"});
  };
  expect_line(with("class", "int a_ = f(1);\n", 21), 1);
  expect_line(with("class", "int a_ = 0, b_{3};\n", 11), 1);
  expect_line(with("class", "int f(int a = 0) const { return g(a); }\n", 41), 1);
  expect_line(with("struct", "void f();\n", 41), 1);
  EXPECT_CLEAN(with("class", "int a_ = f(1);\n", 20));
  EXPECT_CLEAN(with("class", "std::array<int, 3> a_{1, 2};\n", 20));
  EXPECT_CLEAN(with("class", "int f(int a = 0) const { return g(a); }\n", 40));
  EXPECT_CLEAN(with("class", "int f(int a, B b = {}, B c = {}) const;\n", 40));
  expect_line(with("class", "int f(int a, B b = {}) const;\n", 41), 1);
  EXPECT_CLEAN(with("struct", "int a = 0;\n", 60));
}

TEST(Files, AreAtMost500Lines) { EXPECT_CLEAN(over_tree(long_files)); }

TEST(Files, LongerOnesAreRefused) {
  expect_line(long_files({"core/pool/a.cc", repeat("\n", 501)}), 501);
  EXPECT_CLEAN(long_files({"core/pool/a.cc", repeat("\n", 500)}));
}

TEST(Names, SayWhatTheyMean) { EXPECT_CLEAN(over_tree(refused_names)); }

TEST(Names, ThatSayNothingAreRefused) {
  expect_line(refused_names({"core/pool/a.cc", "\nclass BlockManager;\n"}), 2);
  expect_line(refused_names({"core/pool/a.cc", "void error_handler();\n"}), 1);
  expect_line(refused_names({"core/pool/a.cc", "int context;\n"}), 1);
  expect_line(refused_names({"core/pool/pool_utils.cc", ""}), 0);
  EXPECT_CLEAN(refused_names({"core/pool/a.cc", "int context_parallel; int utility; // the manager\nauto s = \"helper\";\n"}));
}

TEST(AttentionKinds, AreNamedInModelPlanAndEventKindOnly) { EXPECT_CLEAN(over_tree(attention_kinds)); }

TEST(AttentionKinds, ElsewhereInCoreAreRefused) {
  expect_line(attention_kinds({"core/sequence/table.cc", "if (kind == QUIRE_LAYER_FULL) return;\n"}), 1);
  expect_line(attention_kinds({"core/c_api/ops_api.cc", "void mamba_update();\n"}), 1);
  expect_line(attention_kinds({"core/step/a.cc", "auto s = \"sliding\";\n"}), 1);
  EXPECT_CLEAN(attention_kinds({"core/model/kinds.cc", "case QUIRE_LAYER_SLIDING_WINDOW:\n"}));
  EXPECT_CLEAN(attention_kinds({"core/step/a.cc", "uint64_t window; // sliding\n"}));
}

TEST(Library, PrintsNothingAndReadsTheEnvironmentOnce) { EXPECT_CLEAN(over_tree(output_and_environment)); }

TEST(Library, PrintingAndReadingTheEnvironmentAreRefused) {
  expect_line(output_and_environment({"core/step/a.cc", "\nprintf(\"x\");\n"}), 2);
  expect_line(output_and_environment({"drivers/cpu/a.cc", "std::cout << 1;\n"}), 1);
  expect_line(output_and_environment({"plugins/null/a.c", "fprintf(stderr, x);\n"}), 1);
  expect_line(output_and_environment({"drivers/cpu/a.cc", "const char* x = std::getenv(\"X\");\n"}), 1);
  EXPECT_CLEAN(output_and_environment({"core/modules/a.cc", "secure_getenv(name); snprintf(a, b, c);\n"}));
  EXPECT_CLEAN(output_and_environment({"tools/quire/a.cc", "std::cout << 1;\n"}));
}

TEST(Lines, HaveTheHouseForm) { EXPECT_CLEAN(over_tree(layout_of_lines)); }

TEST(Lines, OfAnotherFormAreRefused) {
  expect_line(layout_of_lines({"core/pool/a.cc", "a\n\tb\n"}), 2);
  expect_line(layout_of_lines({"README.md", "a \n"}), 1);
  expect_line(layout_of_lines({"core/pool/a.cc", "a\r\n"}), 1);
  expect_line(layout_of_lines({"core/pool/a.cc", repeat("a", 141) + "\n"}), 1);
  expect_line(layout_of_lines({"core/pool/a.cc", "a"}), 0);
  EXPECT_CLEAN(layout_of_lines({"core/pool/a.cc", repeat("a", 140) + "\n"}));
}

TEST(OpenEnds, AreNone) { EXPECT_CLEAN(over_tree(open_ends)); }

TEST(OpenEnds, AreRefused) {
  expect_line(open_ends({"core/pool/a.cc",
                         "\n// TO"
                         "DO: later\n"}),
              2);
  expect_line(open_ends({"README.md",
                         "FIX"
                         "ME\n"}),
              1);
  EXPECT_CLEAN(open_ends({"core/pool/a.cc", "mkstemp(\"XXXXXX\");\n"}));
}

TEST(Blobs, AreAtMost256KiB) { EXPECT_CLEAN(over_tree(large_blobs)); }

TEST(Blobs, LargerOnesAreRefused) {
  expect_line(large_blobs({"tests/golden/a.json", std::string(256 * 1024 + 1, 'x')}), 0);
  EXPECT_CLEAN(large_blobs({"tests/golden/a.json", std::string(256 * 1024, 'x')}));
  EXPECT_CLEAN(large_blobs({"tests/golden/data/a.json", std::string(512 * 1024, 'x')}));
  expect_line(large_blobs({"tests/golden/data/a.json", std::string(512 * 1024 + 1, 'x')}), 0);
  EXPECT_CLEAN(large_blobs({"samples/lm/box/model/a.safetensors", std::string(6 * 1024 * 1024, 'x')}));
  expect_line(large_blobs({"samples/lm/box/model/a.safetensors", std::string(6 * 1024 * 1024 + 1, 'x')}), 0);
}

TEST(DeadFiles, AreNone) { EXPECT_CLEAN(dead_files(tree())); }

TEST(DeadFiles, AreRefused) {
  expect_line(dead_files({{"core/pool/CMakeLists.txt", "quire_room(pool pool.cc)\n"}, {"core/pool/pool.cc", ""}, {"core/pool/old.cc", ""}}),
              0);
  EXPECT_CLEAN(dead_files(
      {{"core/CMakeLists.txt", "pool/pool.cc\n"}, {"core/pool/pool.cc", "#include \"core/pool/pool.h\"\n"}, {"core/pool/pool.h", ""}}));
}

TEST(Names, BelongToOneFile) { EXPECT_CLEAN(shared_names(tree())); }

TEST(Names, OfTwoFilesAreRefused) {
  expect_line(shared_names({{"core/pool/pool.h", ""}, {"plugins/host/pool.h", ""}}), 0);
  EXPECT_CLEAN(shared_names({{"abi/include/quire/base.h", ""}, {"tests/abi/frozen/include/quire/base.h", ""}, {"core/pool/pool.cc", ""}}));
}

TEST(Headers, AreAllIncluded) { EXPECT_CLEAN(unused_headers(tree())); }

TEST(Headers, ThatNobodyIncludesAreRefused) {
  expect_line(unused_headers({{"core/pool/pool.h", ""}, {"core/pool/pool.cc", "#include \"core/step/kv_cache.h\"\n"}}), 0);
  EXPECT_CLEAN(unused_headers({{"core/pool/pool.h", ""}, {"core/step/kv_cache.cc", "#include \"core/pool/pool.h\"\n"}}));
  EXPECT_CLEAN(unused_headers({{"samples/engine/rows.h", ""}, {"samples/engine/main.c", "#include \"rows.h\"\n"}}));
}

TEST(Versions, AreEqual) { EXPECT_CLEAN(unequal_versions(tree())); }

TEST(Versions, ThatDifferAreRefused) {
  const File cmake{"CMakeLists.txt", "project(quire VERSION 1.2.3 LANGUAGES C)\n"};
  const File changes{"CHANGELOG.md", "# Changes\n\n## 1.2.3\n"};
  const File base{"abi/include/quire/base.h",
                  "#define QUIRE_ABI_VERSION 0x00010002u\n#define QUIRE_ABI_MAJOR 1\n#define QUIRE_ABI_MINOR 2\n"};
  EXPECT_CLEAN(unequal_versions({changes, cmake, base}));
  expect_line(unequal_versions({{"CHANGELOG.md", "## 1.2.2\n"}, cmake, base}), 0);
  expect_line(unequal_versions({changes,
                                {"CMakeLists.txt", "project(quire VERSION 1.2.3)"},
                                {base.path, "QUIRE_ABI_VERSION 0x00010003u QUIRE_ABI_MAJOR 1\nQUIRE_ABI_MINOR 2"}}),
              0);
  expect_line(unequal_versions({changes, cmake}), 0);
}

}  // namespace
}  // namespace quire::tidy
