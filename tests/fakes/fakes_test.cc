// Wrong modules, each in a process of its own: it gets its code and a message that names what is wrong, the process lives on and another
// driver still loads. Then what the loader does beside refusing: selection, search, stubs, the probe report.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/connector/connector_host.h"
#include "core/modules/module_search.h"

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

// How a process with a fake in it ends.
struct Ended {
  int exit = -1;   // its exit status, or -1
  int signal = 0;  // what killed it, or 0
  std::string says;
};

Ended run_one(const std::string& folder, const std::string& before = "") {
  const std::string command = before + std::string(QUIRE_FAKES_ONE) + " " + folder + " " + kModules + " 2>&1";
  FILE* pipe = popen(("exec " + command).c_str(), "r");
  Ended run;
  char buffer[4096];
  for (size_t n = 1; pipe != nullptr && n > 0;) {
    n = std::fread(buffer, 1, sizeof buffer, pipe);
    run.says.append(buffer, n);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) run.exit = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) run.signal = WTERMSIG(status);
  return run;
}

// Expected: the process lives (exit 0), the fake's failure has this code and says this, the null driver works afterwards.
struct Case {
  const char* fake;
  const char* code;
  const char* says;
};

class Fakes : public testing::TestWithParam<Case> {};

TEST_P(Fakes, GetsItsReasonAndTheProcessLives) {
  const Case& fake = GetParam();
  const Ended run = run_one(kFakes + "/" + fake.fake);
  EXPECT_EQ(run.exit, 0) << "signal " << run.signal << ": " << run.says;
  EXPECT_EQ(run.says.rfind(std::string(fake.code) + " ", 0), 0U) << run.says;
  EXPECT_NE(run.says.find(fake.says), std::string::npos) << run.says;
  EXPECT_NE(run.says.find("\nthen OK \n"), std::string::npos) << run.says;
}

const char* const kAbi = "INCOMPATIBLE_ABI";

INSTANTIATE_TEST_SUITE_P(
    Wrong, Fakes,
    testing::Values(
        Case{"good", "OK", ""}, Case{"longer_table", "OK", ""}, Case{"lying_info", "OK", ""}, Case{"slow", "OK", ""},
        Case{"only_lifecycle", "UNIMPLEMENTED", "this driver has no entry 'stream_create'"},
        // Before any code of it runs.
        Case{"no_note", kAbi, "carries no QUIRE note"}, Case{"note_abi", kAbi, "note says driver ABI 0.3, this library has 0.2"},
        Case{"note_old", kAbi, "note says driver ABI 0.0"}, Case{"note_major", kAbi, "note says driver ABI 1.1"},
        Case{"note_kind", kAbi, "note says kind 2"}, Case{"note_name", kAbi, "note gives the name 'other', wanted is 'fake'"},
        Case{"note_host", kAbi, "note asks for a host of driver ABI 0.3 or newer, this library has 0.2"},
        Case{"note_flags", kAbi, "note has flags 0x4"}, Case{"note_unnamed", kAbi, "note gives the name ''"},
        Case{"note_endless", kAbi, "note gives the name ''"}, Case{"constructor", kAbi, "note says driver ABI 0.3"},
        // Mapping it.
        Case{"missing_library", "UNAVAILABLE", "libquire_fake_lender.so: cannot open shared object file"},
        Case{"no_symbol", kAbi, "does not export quire_driver_query"}, Case{"borrowed_symbol", kAbi, "belongs to its dependency"},
        // What it says of itself.
        Case{"refuses", kAbi, "wants a host of version 9"}, Case{"no_manifest", kAbi, "without a manifest"},
        Case{"magic", kAbi, "magic 0x00000007"}, Case{"manifest_size", kAbi, "manifest struct_size 0"},
        Case{"manifest_huge", kAbi, "manifest struct_size 5000"}, Case{"manifest_abi", kAbi, "manifest gives driver ABI 0.0"},
        Case{"manifest_future", kAbi, "manifest gives driver ABI 0.3"}, Case{"manifest_kind", kAbi, "manifest kind 2"},
        Case{"manifest_name", kAbi, "manifest gives the name 'other'"}, Case{"manifest_endless", kAbi, "manifest gives the name ''"},
        Case{"sanitizers", kAbi, "built with sanitizers"}, Case{"no_table", kAbi, "has no table"},
        Case{"short_table", kAbi, "required entry 'device_count' is missing"}, Case{"odd_table", kAbi, "struct_size 13"},
        Case{"zero_table", kAbi, "struct_size 0"}, Case{"huge_table", kAbi, "struct_size 70000"},
        Case{"missing_entry", kAbi, "required entry 'device_info' is missing"},
        Case{"op_signature", kAbi, "signature of op 'fake.op': 'char' is no parameter"}, Case{"op_stride", kAbi, "stride 8"},
        // What it answers.
        Case{"unavailable", "UNAVAILABLE", "no such device in this machine"}, Case{"no_devices", "UNAVAILABLE", "there is no device"},
        Case{"count_fails", "ABORTED", "the bus did not answer"}, Case{"unknown_code", "UNKNOWN", "unknown code 4711"},
        Case{"endless_message", "UNAVAILABLE", "xxxxxxxx"}, Case{"null_instance", "UNKNOWN", "create answered OK and NULL"},
        Case{"null_device", "UNKNOWN", "device_open answered OK and NULL"}, Case{"bad_alignment", kAbi, "alignment 48"},
        Case{"null_stream", "UNKNOWN", "stream_create answered OK and NULL"},
        Case{"null_memory", "UNKNOWN", "mem_alloc answered OK and NULL"}, Case{"odd_memory", "UNKNOWN", "not aligned to 64"},
        Case{"fill_unknown", "UNKNOWN", "unknown code -5"}, Case{"late_failure", "DATA_LOSS", "work queued before was lost"},
        // D-3 forbids it, and nothing is promised; here it does not leave the call.
        Case{"throws", "INTERNAL", "thrown by a driver"}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.fake); });

// What a module does to the process is the process's: nothing is promised but that it is visible from outside.
TEST(Processes, EndTheirProcessVisibly) {
  EXPECT_EQ(run_one(kFakes + "/exits").exit, 3);
  const Ended crashed = run_one(kFakes + "/crashes", "env ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0 ");
  EXPECT_EQ(crashed.signal, SIGSEGV) << crashed.says;
}

TEST(Processes, ThatHangAreEndedFromOutside) {
  const Ended hung = run_one(kFakes + "/hangs", "env timeout --signal=KILL 1 ");
  EXPECT_TRUE(hung.signal == SIGKILL || hung.exit == 128 + SIGKILL) << hung.exit << " " << hung.says;
}

// Files that are no modules of this machine, each in its process.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "quire_files_" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    chmod(folder_.c_str(), 0755);
    file_ = folder_ + "/libquire_driver_fake.so";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void copy_good() {
    std::filesystem::copy_file(kFakes + "/good/libquire_driver_fake.so", file_, std::filesystem::copy_options::overwrite_existing);
    chmod(file_.c_str(), 0755);
  }
  void change(std::streamoff at, const std::string& bytes) {
    std::fstream file(file_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << bytes;
  }
  void expect(const std::string& code, const std::string& part) {
    const Ended run = run_one(folder_);
    EXPECT_EQ(run.exit, 0) << run.says;
    EXPECT_EQ(run.says.rfind(code + " ", 0), 0U) << run.says;
    EXPECT_NE(run.says.find(part), std::string::npos) << run.says;
    EXPECT_NE(run.says.find("\nthen OK \n"), std::string::npos) << run.says;
  }

  std::string folder_;
  std::string file_;
};

TEST_F(Files, OfAnotherMachineClassOrType) {
  copy_good();
  expect("OK", "");
  change(18, std::string("\x28\x00", 2));  // e_machine: 32-bit Arm
  expect(kAbi, "another machine (ELF machine 40");
  copy_good();
  change(4, "\x01");  // 32 bits
  expect(kAbi, "another machine");
  copy_good();
  change(16, std::string("\x02\x00", 2));  // an executable
  expect(kAbi, "ELF type 2 is not a shared object");
  copy_good();
  std::filesystem::resize_file(file_, 3000);
  expect(kAbi, "truncated");  // mapped, it would fault
}

TEST_F(Files, OfOthersAndInDirectoriesOfOthers) {
  copy_good();
  chmod(folder_.c_str(), 0777);
  expect("PERMISSION_DENIED", "mode 777 lets group or others write");
  chmod(folder_.c_str(), 0755);
  // A directory above: who can rename what lies in it can put another module there.
  const std::string inner = folder_ + "/open/inner";
  std::filesystem::create_directories(inner);
  chmod((folder_ + "/open").c_str(), 0777);
  chmod(inner.c_str(), 0755);
  std::filesystem::copy_file(file_, inner + "/libquire_driver_fake.so");
  chmod((inner + "/libquire_driver_fake.so").c_str(), 0755);
  Ended run = run_one(inner);
  EXPECT_EQ(run.says.rfind("PERMISSION_DENIED " + std::string("options.driver=fake: ") + folder_ + "/open: mode 777", 0), 0U) << run.says;
  chmod((folder_ + "/open").c_str(), 01777);  // sticky: only the owner of inner could do it
  run = run_one(inner);
  EXPECT_EQ(run.says.rfind("OK ", 0), 0U) << run.says;
  // A link is judged by where it leads.
  chmod((folder_ + "/open").c_str(), 0777);
  std::filesystem::remove(file_);
  std::filesystem::create_symlink(inner + "/libquire_driver_fake.so", file_);
  expect("PERMISSION_DENIED", "/open: mode 777");
  if (geteuid() != 0) GTEST_SKIP() << "files of another owner are made by root only: that check is left out";
  std::filesystem::remove(file_);
  copy_good();
  ASSERT_EQ(chown(file_.c_str(), 65534, 65534), 0);
  expect("PERMISSION_DENIED", "owned by user 65534, accepted are 0 and 0");
}

TEST_F(Files, ThatCannotBeRead) {
  copy_good();
  chmod(file_.c_str(), 0);
  if (geteuid() == 0) {
    // Root reads everything, so another user looks.
    if (std::system("setpriv --reuid=65534 --regid=65534 --clear-groups test -x " QUIRE_FAKES_ONE) != 0) {  // NOLINT(concurrency-mt-unsafe)
      GTEST_SKIP() << "no way to look as another user here (setpriv is absent, or user 65534 cannot reach the build folder)";
    }
    const Ended run = run_one(folder_, "setpriv --reuid=65534 --regid=65534 --clear-groups ");
    EXPECT_EQ(run.says.rfind("PERMISSION_DENIED ", 0), 0U) << run.says;
    return;
  }
  expect("PERMISSION_DENIED", "cannot be opened");
}

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
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  std::fstream whole(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t i, char byte) { whole.seekp(static_cast<std::streamoff>(i)).put(byte).flush(); };
  for (size_t i = 0; i < 1024; ++i) {
    if (i > 0) put(i - 1, bytes[i - 1]);
    put(i, static_cast<char>(bytes[i] ^ 0xff));
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
  const size_t known = opened.message.find("; known: ");
  ASSERT_NE(known, std::string::npos) << opened.message;
  EXPECT_NE(opened.message.find("null", known), std::string::npos) << opened.message;
  EXPECT_EQ(opened.message.find("host", known), std::string::npos) << "a connector is no driver: " << opened.message;
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

TEST(Connectors, EndEveryTicketOnceWhateverTheModuleSays) {
  auto runtime = make_runtime("none", kFakes + "/twice");
  ASSERT_TRUE(runtime.ok());
  auto connector = Connector::open(*runtime, "twice", "");
  ASSERT_TRUE(connector.ok()) << connector.status().message();
  const uint8_t key = 7;
  uint64_t sizes[3] = {};
  quire_ticket tickets[3] = {};
  for (uint64_t i = 0; i < 3; ++i) {
    tickets[i].ticket = 10 + i;
    tickets[i].kind = QUIRE_TICKET_LOOKUP;
    tickets[i].num_keys = 1;
    tickets[i].key_bytes = 1;
    tickets[i].sizes = &sizes[i];
    tickets[i].deadline_ns = -1;
  }
  uint64_t accepted = 0;
  ASSERT_TRUE((*connector)->submit({tickets, {}, {&key, 1}}, &accepted).ok());
  ASSERT_EQ(accepted, 3U);
  // One number for two transfers in flight could not end exactly once.
  EXPECT_EQ((*connector)->submit({{tickets, 1}, {}, {&key, 1}}, &accepted).message(), "tickets[0].ticket 10 is in flight already");
  EXPECT_EQ((*connector)->stats().num_in_flight, 3U);
  quire_completion ends[16];
  uint64_t count = 0;
  ASSERT_TRUE((*connector)->poll(0, ends, &count).ok());
  ASSERT_EQ(count, 3U);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(ends[i].ticket, 10 + i);
  EXPECT_EQ((*connector)->stats().num_strays, 4U);
  EXPECT_EQ((*connector)->stats().num_in_flight, 0U);
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
  EXPECT_GT(null_driver->duration_ns, 0);
  ASSERT_NE(find(2, "null"), reports.end());
  EXPECT_EQ(find(2, "null")->code, QUIRE_OK);
}

TEST(Probe, TellsWhatWasNamedAndNobodyFinds) {
  const std::string path = kFakes + "/magic/libquire_driver_fake.so";
  auto runtime = make_runtime("nosuch," + path + ",null", kModules);
  ASSERT_TRUE(runtime.ok());
  const auto reports = (*runtime)->probe();
  ASSERT_GE(reports.size(), 4U);  // and the null driver and connector, once each
  EXPECT_STREQ(reports[0].name, "nosuch");
  EXPECT_EQ(reports[0].code, QUIRE_NOT_FOUND);
  EXPECT_EQ(reports[0].step, static_cast<int32_t>(ModuleStep::kSelected));
  EXPECT_EQ(std::string(reports[1].path), path);
  EXPECT_EQ(reports[1].code, QUIRE_INCOMPATIBLE_ABI);
  EXPECT_EQ(std::count_if(reports.begin(), reports.end(),
                          [](const quire_probe_info& r) { return r.kind == 1 && std::strcmp(r.name, "null") == 0; }),
            1);
  auto good = make_runtime(kFakes + "/good/libquire_driver_fake.so", "");
  ASSERT_TRUE(good.ok());
  EXPECT_STREQ((*good)->probe()[0].name, "fake");
}

}  // namespace
}  // namespace quire
