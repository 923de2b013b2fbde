// Wrong modules: each gets its own code and a message that names what is wrong; the process lives on and the good driver still loads.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/boundary/runtime.h"

namespace quire {
namespace {

quire_str text(const std::string& from) { return {from.data(), from.size()}; }

struct Opened {
  quire_code code = QUIRE_OK;
  std::string message;
  std::string driver;
};

Result<std::shared_ptr<Runtime>> make_runtime(const std::string& driver, const std::string& path, uint64_t flags = QUIRE_RUNTIME_NO_ENV) {
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = text(driver);
  options.driver_path = text(path);
  options.connector_path = text(path);
  options.flags = flags;
  return Runtime::create(options);
}

// Opens the device of a selection and says how it went.
Opened open(const std::string& driver, const std::string& path) {
  auto runtime = make_runtime(driver, path);
  if (!runtime.ok()) return {runtime.status().code(), runtime.status().message(), {}};
  auto selected = (*runtime)->driver();
  if (!selected.ok()) return {selected.status().code(), selected.status().message(), {}};
  const std::string name = (*selected)->name();
  auto device = Device::open(*selected, 0);
  if (!device.ok()) return {device.status().code(), device.status().message(), {}};
  return {QUIRE_OK, {}, name};
}

const std::string kFakes = QUIRE_FAKES;
const std::string kModules = QUIRE_MODULES;

struct Case {
  const char* fake;
  quire_code code;
  const char* says;
};

class Fakes : public testing::TestWithParam<Case> {};

TEST_P(Fakes, GetsItsReason) {
  const Case& fake = GetParam();
  const Opened opened = open("fake", kFakes + "/" + fake.fake);
  EXPECT_EQ(opened.code, fake.code) << opened.message;
  EXPECT_NE(opened.message.find(fake.says), std::string::npos) << opened.message;
  EXPECT_EQ(open("null", kModules).code, QUIRE_OK);
}

INSTANTIATE_TEST_SUITE_P(Wrong, Fakes,
                         testing::Values(Case{"no_note", QUIRE_INCOMPATIBLE_ABI, "carries no QUIRE note"},
                                         Case{"no_symbol", QUIRE_INCOMPATIBLE_ABI, "does not export quire_driver_query"},
                                         Case{"borrowed_symbol", QUIRE_INCOMPATIBLE_ABI, "belongs to its dependency"},
                                         Case{"note_abi", QUIRE_INCOMPATIBLE_ABI, "note says driver ABI 0.2, this library has 0.1"},
                                         Case{"note_kind", QUIRE_INCOMPATIBLE_ABI, "note says kind 2"},
                                         Case{"note_name", QUIRE_INCOMPATIBLE_ABI, "note gives the name 'other', wanted is 'fake'"},
                                         Case{"magic", QUIRE_INCOMPATIBLE_ABI, "magic 0x00000007"},
                                         Case{"manifest_size", QUIRE_INCOMPATIBLE_ABI, "manifest struct_size 0"},
                                         Case{"manifest_abi", QUIRE_INCOMPATIBLE_ABI, "manifest gives driver ABI 0.0"},
                                         Case{"manifest_kind", QUIRE_INCOMPATIBLE_ABI, "manifest kind 2"},
                                         Case{"manifest_name", QUIRE_INCOMPATIBLE_ABI, "manifest gives the name 'other'"},
                                         Case{"sanitizers", QUIRE_INCOMPATIBLE_ABI, "built with sanitizers"},
                                         Case{"no_manifest", QUIRE_INCOMPATIBLE_ABI, "without a manifest"},
                                         Case{"no_table", QUIRE_INCOMPATIBLE_ABI, "has no table"},
                                         Case{"refuses", QUIRE_INCOMPATIBLE_ABI, "wants a host of version 9"},
                                         Case{"short_table", QUIRE_INCOMPATIBLE_ABI, "required entry 'device_count' is missing"},
                                         Case{"odd_table", QUIRE_INCOMPATIBLE_ABI, "struct_size 13"},
                                         Case{"zero_table", QUIRE_INCOMPATIBLE_ABI, "struct_size 0"},
                                         Case{"missing_entry", QUIRE_INCOMPATIBLE_ABI, "required entry 'device_info' is missing"},
                                         Case{"unavailable", QUIRE_UNAVAILABLE, "no such device in this machine"},
                                         Case{"no_devices", QUIRE_UNAVAILABLE, "there is no device"},
                                         Case{"unknown_code", QUIRE_UNKNOWN, "unknown code 4711"},
                                         Case{"bad_alignment", QUIRE_INCOMPATIBLE_ABI, "alignment 48"}),
                         [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.fake); });

TEST(Loader, TakesTheGoodFake) {
  const Opened opened = open("fake", kFakes + "/good");
  EXPECT_EQ(opened.code, QUIRE_OK) << opened.message;
  EXPECT_EQ(opened.driver, "fake");
  EXPECT_EQ(open(kFakes + "/good/libquire_driver_fake.so", "").driver, "fake");
}

TEST(Loader, FillsHolesWithStubsThatNameTheEntry) {
  auto runtime = make_runtime("fake", kFakes + "/only_lifecycle");
  ASSERT_TRUE(runtime.ok());
  auto driver = (*runtime)->driver();
  ASSERT_TRUE(driver.ok()) << driver.status().message();
  quire_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ((*driver)->api().attention(nullptr, nullptr, &error), QUIRE_UNIMPLEMENTED);
  EXPECT_STREQ(error.message, "this driver has no entry 'attention'");
  EXPECT_EQ((*driver)->api().copy(nullptr, nullptr, 0, nullptr), QUIRE_UNIMPLEMENTED);
  (*driver)->api().event_destroy(nullptr);  // nothing to do, nothing to crash
}

TEST(Loader, RefusesFilesThatAreNoModules) {
  const std::string folder = testing::TempDir() + "quire_no_modules_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  chmod(folder.c_str(), 0755);
  const std::string file = folder + "/libquire_driver_fake.so";
  std::ofstream(file) << "This is a text, long enough to hold an ELF header, but it is a text about hares and hedgehogs in a field.\n";
  EXPECT_NE(open("fake", folder).message.find("not an ELF file"), std::string::npos);
  std::ofstream(file, std::ios::trunc) << "\x7f"
                                          "ELF";
  EXPECT_NE(open("fake", folder).message.find("too short"), std::string::npos);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_NE(open("fake", folder).message.find("not a regular file"), std::string::npos);
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_NE(open("fake", folder).message.find("not a regular file"), std::string::npos);
  std::filesystem::remove(file);
  std::filesystem::create_symlink(file, file);
  EXPECT_NE(open("fake", folder).code, QUIRE_OK);
  std::filesystem::remove_all(folder);
}

// Every prefix of a good module is refused and read without a fault.
TEST(Loader, RefusesTruncatedModules) {
  std::ifstream good(kFakes + "/good/libquire_driver_fake.so", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(good)), std::istreambuf_iterator<char>());
  ASSERT_GT(bytes.size(), 1000U);
  const std::string file = testing::TempDir() + "quire_truncated_" + std::to_string(getpid());
  for (size_t n = 0; n < 1024; n += 7) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes.substr(0, n);
    auto note = read_module_note(file);
    if (note.ok()) break;  // all of the note is there from here on
    EXPECT_EQ(note.status().code(), QUIRE_INCOMPATIBLE_ABI) << n;
  }
  // Headers with every byte changed in turn: refused or the same note, never a fault.
  for (size_t i = 0; i < 1024; ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0xff);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << changed;
    auto note = read_module_note(file);
    EXPECT_TRUE(note.ok() || note.status().code() == QUIRE_INCOMPATIBLE_ABI) << i;
  }
  std::filesystem::remove(file);
}

TEST(Loader, RefusesWritableFilesUnlessTrusted) {
  const std::string folder = testing::TempDir() + "quire_writable_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  chmod(folder.c_str(), 0755);
  const std::string file = folder + "/libquire_driver_fake.so";
  std::filesystem::copy_file(kFakes + "/good/libquire_driver_fake.so", file, std::filesystem::copy_options::overwrite_existing);
  chmod(file.c_str(), 0777);
  Opened opened = open("fake", folder);
  EXPECT_EQ(opened.code, QUIRE_PERMISSION_DENIED);
  EXPECT_NE(opened.message.find("mode 777"), std::string::npos) << opened.message;
  auto trusting = make_runtime("fake", folder, QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS);
  ASSERT_TRUE(trusting.ok());
  EXPECT_TRUE((*trusting)->driver().ok());
  chmod(file.c_str(), 0755);
  chmod(folder.c_str(), 01777);  // a sticky world-writable folder is not good enough
  opened = open("fake", folder);
  EXPECT_EQ(opened.code, QUIRE_PERMISSION_DENIED) << opened.message;
  std::filesystem::remove_all(folder);
}

TEST(Selection, UnknownNameIsNotFoundWithItsReason) {
  const Opened opened = open("nosuch", kModules);
  EXPECT_EQ(opened.code, QUIRE_NOT_FOUND);
  EXPECT_NE(opened.message.find("options.driver=nosuch: no file libquire_driver_nosuch.so in " + kModules), std::string::npos)
      << opened.message;
}

TEST(Selection, ListFallsThroughAndFailsOnlyWhenAllFail) {
  EXPECT_EQ(open("nosuch,null", kModules).driver, "null");
  EXPECT_EQ(open("fake,null", kFakes + "/unavailable:" + kModules).driver, "null");
  EXPECT_EQ(open("null,fake", kFakes + "/good:" + kModules).driver, "null");
  EXPECT_EQ(open("fake,null", kFakes + "/good:" + kModules).driver, "fake");
  const Opened none = open("nosuch,fake", kFakes + "/unavailable");
  EXPECT_EQ(none.code, QUIRE_UNAVAILABLE);
  EXPECT_NE(none.message.find("nosuch"), std::string::npos);
  EXPECT_NE(none.message.find("no such device in this machine"), std::string::npos) << none.message;
}

TEST(Selection, ExclusionAndNone) {
  EXPECT_EQ(open("fake,^fake,null", kFakes + "/good:" + kModules).driver, "null");
  const Opened none = open("none", kModules);
  EXPECT_EQ(none.code, QUIRE_UNAVAILABLE);
  EXPECT_NE(none.message.find("bookkeeping only"), std::string::npos);
}

TEST(Selection, AutoTakesOthersByNameButNeverNull) {
  EXPECT_EQ(open("auto", kFakes + "/good").driver, "fake");
  EXPECT_EQ(open("", kFakes + "/good").driver, "fake");
  EXPECT_EQ(open("^cuda", kFakes + "/good").driver, "fake");
  const Opened opened = open("^fake", kFakes + "/good");
  EXPECT_EQ(opened.code, QUIRE_UNAVAILABLE);
  // One broken module does not fail the others.
  EXPECT_EQ(open("auto,null", kFakes + "/missing_entry:" + kModules + "/nowhere").code, QUIRE_UNAVAILABLE);
}

TEST(Probe, ReportsEveryModuleWithTheStepItReached) {
  auto runtime = make_runtime("none", kFakes + "/short_table:" + kModules);
  ASSERT_TRUE(runtime.ok());
  const auto reports = (*runtime)->probe();
  const auto find = [&](int32_t kind, const char* name) {
    return std::find_if(reports.begin(), reports.end(),
                        [&](const quire_probe_info& r) { return r.kind == kind && std::strcmp(r.name, name) == 0; });
  };
  const auto fake = find(1, "fake");
  ASSERT_NE(fake, reports.end());
  EXPECT_EQ(fake->code, QUIRE_INCOMPATIBLE_ABI);
  EXPECT_EQ(fake->step, static_cast<int32_t>(ModuleStep::kManifest));
  EXPECT_NE(std::string(fake->reason).find("device_count"), std::string::npos);
  const auto null_driver = find(1, "null");
  ASSERT_NE(null_driver, reports.end());
  EXPECT_EQ(null_driver->code, QUIRE_OK);
  EXPECT_EQ(null_driver->step, static_cast<int32_t>(ModuleStep::kUsable));
  EXPECT_EQ(std::string(null_driver->path), kModules + "/libquire_driver_null.so");
  ASSERT_NE(find(2, "null"), reports.end());
  EXPECT_EQ(find(2, "null")->code, QUIRE_OK);
}

}  // namespace
}  // namespace quire
