// The runtime's options, environment and log; drivers registered in the process.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/modules/module_search.h"
#include "drivers/common/note.h"

namespace quire {
namespace {

quire_str text(const char* from) { return {from, std::strlen(from)}; }

quire_runtime_options defaults() {
  quire_runtime_options options{};
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  return options;
}

TEST(SelectionGrammar, KindsAndOrder) {
  auto selection = parse_selection("cuda,/opt/x.so,^rocm,auto", "test");
  ASSERT_TRUE(selection.ok());
  ASSERT_EQ(selection->items.size(), 3U);
  EXPECT_EQ(selection->items[0].text, "cuda");
  EXPECT_EQ(selection->items[1].kind, Selection::Item::Kind::kPath);
  EXPECT_EQ(selection->items[2].kind, Selection::Item::Kind::kAuto);
  EXPECT_TRUE(selection->excludes("rocm"));
  EXPECT_FALSE(selection->excludes("cuda"));
  EXPECT_EQ(parse_selection("^rocm", "test")->items[0].kind, Selection::Item::Kind::kAuto);
  EXPECT_TRUE(parse_selection("none", "test")->none);
}

TEST(SelectionGrammar, RefusesWithOriginAndItem) {
  for (const char* wrong : {"", ",", "CPU", "cpu ", " cpu", "cpu,", "./libquire_driver_cpu.so", "^", "^/x", "none,cpu", "a b", "^^cpu",
                            "abcdefghijklmnopqrstuvwxyz_012345"}) {
    auto selection = parse_selection(wrong, "QUIRE_DRIVER");
    ASSERT_FALSE(selection.ok()) << wrong;
    EXPECT_EQ(selection.status().code(), QUIRE_INVALID_ARGUMENT);
    EXPECT_EQ(selection.status().message().rfind("QUIRE_DRIVER: ", 0), 0U) << selection.status().message();
  }
}

TEST(AllowList, NarrowsByNameAndRefusesPaths) {
  const auto check = [](std::string_view list, std::string_view connector) { return parse_allow_list(list)->check(connector); };
  EXPECT_TRUE(check("", "file").ok());
  EXPECT_TRUE(check("", "/opt/x.so").ok());
  EXPECT_TRUE(check("host,file", "file").ok());
  EXPECT_EQ(check("host,file", "ucx").message(), "QUIRE_CONNECTOR_ALLOW=host,file does not allow connector 'ucx'");
  EXPECT_EQ(check("host,file", "ucx").code(), QUIRE_PERMISSION_DENIED);
  EXPECT_TRUE(check("^ucx", "file").ok());
  EXPECT_FALSE(check("^ucx", "ucx").ok());
  EXPECT_FALSE(check("ucx,^ucx", "ucx").ok());
  EXPECT_NE(check("^ucx", "/opt/x.so").message().find("connectors are opened by name"), std::string::npos);
  for (const char* wrong : {",", "^", "file,", "/opt/x.so", "File", "^^file"}) {
    EXPECT_EQ(parse_allow_list(wrong).status().code(), QUIRE_INVALID_ARGUMENT) << wrong;
  }
}

TEST(AllowList, IsReadFromTheEnvironment) {
  auto options = defaults();
  options.flags = 0;
  setenv("QUIRE_CONNECTOR_ALLOW", "^barred", 1);  // NOLINT(concurrency-mt-unsafe)
  auto runtime = Runtime::create(options);
  auto without = Runtime::create(defaults());
  unsetenv("QUIRE_CONNECTOR_ALLOW");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(runtime.ok() && without.ok());
  EXPECT_EQ((*runtime)->connector("barred").status().code(), QUIRE_PERMISSION_DENIED);
  EXPECT_EQ((*runtime)->connector("other").status().code(), QUIRE_NOT_FOUND);
  EXPECT_EQ((*without)->connector("barred").status().code(), QUIRE_NOT_FOUND);
}

TEST(CpuList, ReadsWhatLinuxWrites) {
  const auto read = [](std::string_view list) { return parse_cpu_list(list, "options.cpus"); };
  EXPECT_EQ(*read(""), std::vector<uint32_t>{});
  EXPECT_EQ(*read("5"), std::vector<uint32_t>{5});
  EXPECT_EQ(*read("0-2,8"), (std::vector<uint32_t>{0, 1, 2, 8}));
  EXPECT_EQ(*read("7,3-4"), (std::vector<uint32_t>{7, 3, 4})) << "in the order given";
  for (const char* wrong : {",", "a", "1,", "-1", "3-1", "1-", "1 ", "0x1", "65536", "0-4096", "99999999999", "1--2"}) {
    EXPECT_EQ(read(wrong).status().code(), QUIRE_INVALID_ARGUMENT) << wrong;
  }
  EXPECT_EQ(read("0-3,2").status().message(), "options.cpus: CPU 2 is named twice");
}

TEST(RuntimeOptions, RefusesWhatCannotBe) {
  auto options = defaults();
  options.header_abi = QUIRE_ABI_VERSION + 1;
  EXPECT_EQ(Runtime::create(options).status().code(), QUIRE_INCOMPATIBLE_ABI);
  options = defaults();
  options.alloc = [](void*, uint64_t, uint64_t) -> void* { return nullptr; };
  EXPECT_EQ(Runtime::create(options).status().code(), QUIRE_INVALID_ARGUMENT);
  options = defaults();
  options.log_level = 6;
  EXPECT_EQ(Runtime::create(options).status().code(), QUIRE_INVALID_ARGUMENT);
  options = defaults();
  options.cpus = text("0,0");
  EXPECT_EQ(Runtime::create(options).status().message(), "options.cpus: CPU 0 is named twice");
  options = defaults();
  options.driver_path = text("relative/path");
  EXPECT_NE(Runtime::create(options).status().message().find("options.driver_path: 'relative/path' is not an absolute directory"),
            std::string::npos);
}

TEST(RuntimeOptions, EnvironmentIsReadOnceAndOnlyIfWanted) {
  setenv("QUIRE_DRIVER", "no such thing", 1);  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(Runtime::create(defaults()).ok());
  auto options = defaults();
  options.flags = 0;
  EXPECT_NE(Runtime::create(options).status().message().find("QUIRE_DRIVER: 'no such thing'"), std::string::npos);
  options.driver = text("none");  // an argument stands above the environment
  EXPECT_TRUE(Runtime::create(options).ok());
  setenv("QUIRE_DRIVER", "none", 1);  // NOLINT(concurrency-mt-unsafe)
  options.driver = {};
  auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime.ok());
  unsetenv("QUIRE_DRIVER");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_NE((*runtime)->driver().status().message().find("QUIRE_DRIVER=none"), std::string::npos);
}

TEST(RuntimeOptions, HostServicesUseTheCallersFunctions) {
  struct Counts {
    std::atomic<int> allocated{0};
    std::atomic<int> freed{0};
  } counts;
  auto options = defaults();
  options.alloc_user = &counts;
  options.alloc = [](void* user, uint64_t bytes, uint64_t alignment) -> void* {
    static_cast<Counts*>(user)->allocated++;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  options.release_memory = [](void* user, void* address, uint64_t, uint64_t) {
    static_cast<Counts*>(user)->freed++;
    std::free(address);
  };
  options.clock = [](void*) -> int64_t { return 42; };
  auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime.ok());
  const quire_host_api* host = (*runtime)->host();
  void* address = host->alloc(host->user, 100, 64);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0U);
  host->release_memory(host->user, address, 100, 64);
  EXPECT_EQ(counts.allocated, 1);
  EXPECT_EQ(counts.freed, 1);
  EXPECT_EQ(host->now(host->user), 42);
}

struct Lines {
  std::vector<std::string> all;
  static void take(void* user, int32_t level, quire_str component, quire_str message) {
    static_cast<Lines*>(user)->all.push_back(std::to_string(level) + " " + std::string(component.data, component.len) + " " +
                                             std::string(message.data, message.len));
  }
};

TEST(LogFilter, LevelsByComponent) {
  auto filter = parse_log_filter("warn,driver=trace");
  ASSERT_TRUE(filter.ok());
  EXPECT_EQ(filter->level_of("cache"), QUIRE_LOG_WARN);
  EXPECT_EQ(filter->level_of("driver"), QUIRE_LOG_TRACE);
  EXPECT_EQ(filter->level_of("driver:cpu"), QUIRE_LOG_TRACE);
  EXPECT_EQ(filter->level_of("drivers"), QUIRE_LOG_WARN);
  EXPECT_FALSE(parse_log_filter("loud").ok());
  EXPECT_FALSE(parse_log_filter("driver=").ok());
  EXPECT_EQ(parse_log_filter("")->level, QUIRE_LOG_OFF);
}

TEST(Log, SilentUnlessAsked) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Log().write(QUIRE_LOG_ERROR, "test", "nobody hears this");
  Log(*parse_log_filter("info")).write(QUIRE_LOG_DEBUG, "test", "too low");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  Log(*parse_log_filter("info")).write(QUIRE_LOG_INFO, "test", "heard {} %s");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("test: heard {} %s"), std::string::npos);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

// A driver without a file. It counts its instances, so that a test sees them go.
std::atomic<int> instances{0};

std::vector<uint32_t> local_cpus;
quire_code local_create(const quire_driver_options* options, quire_driver_instance** out, quire_error*) {
  instances++;
  local_cpus.assign(options->cpus, options->cpus + options->num_cpus);
  *out = reinterpret_cast<quire_driver_instance*>(new int(0));
  return QUIRE_OK;
}
void local_destroy(quire_driver_instance* instance) {
  instances--;
  delete reinterpret_cast<int*>(instance);
}
quire_code local_count(quire_driver_instance*, uint32_t* count, quire_error*) {
  *count = 1;
  return QUIRE_OK;
}
quire_code local_open(quire_driver_instance*, uint32_t, quire_driver_device** out, quire_error*) {
  *out = reinterpret_cast<quire_driver_device*>(new int(0));
  return QUIRE_OK;
}
void local_close(quire_driver_device* device) { delete reinterpret_cast<int*>(device); }
quire_code local_info(quire_driver_device*, quire_device_info* info, quire_error*) {
  info->device_type = QUIRE_DEVICE_CPU;
  info->alignment = 64;
  return QUIRE_OK;
}

quire_code local_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_driver_api api = [] {
    quire_driver_api table{};
    table.struct_size = sizeof table;
    table.create = local_create;
    table.destroy = local_destroy;
    table.device_count = local_count;
    table.device_open = local_open;
    table.device_close = local_close;
    table.device_info = local_info;
    return table;
  }();
  static const quire_manifest manifest = {QUIRE_MODULE_MAGIC,
                                          sizeof(quire_manifest),
                                          QUIRE_MODULE_DRIVER,
                                          QUIRE_DRIVER_ABI_VERSION,
                                          "local",
                                          "1",
                                          QUIRE_MODULE_SANITIZERS,
                                          &api,
                                          nullptr};
  *out = &manifest;
  return QUIRE_OK;
}

quire_code broken_query(const quire_query*, const quire_manifest** out, quire_error*) {
  static const quire_manifest manifest = {};
  *out = &manifest;
  return QUIRE_OK;
}

TEST(RegisteredDriver, IsFoundSharedAndKeptByItsChildren) {
  ASSERT_TRUE(register_module(ModuleKind::kDriver, local_query).ok());
  EXPECT_EQ(register_module(ModuleKind::kDriver, local_query).code(), QUIRE_ALREADY_EXISTS);
  EXPECT_EQ(register_module(ModuleKind::kDriver, broken_query).code(), QUIRE_INCOMPATIBLE_ABI);
  Lines lines;
  auto options = defaults();
  options.driver = text("local");
  options.log = &Lines::take;
  options.log_user = &lines;
  options.cpus = text("1,4-5");
  auto runtime = Runtime::create(options);
  ASSERT_TRUE(runtime.ok());
  auto first = (*runtime)->driver();
  auto second = (*runtime)->driver();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(instances, 1);
  EXPECT_EQ(local_cpus, (std::vector<uint32_t>{1, 4, 5}));
  ASSERT_EQ(lines.all.size(), 1U);
  EXPECT_EQ(lines.all[0], "2 driver driver 'local' selected by options.driver=local");
  auto device = Device::open(*first, 0);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(Device::open(*first, 1).status().code(), QUIRE_OUT_OF_RANGE);
  *first = nullptr;
  *second = nullptr;
  *runtime = nullptr;
  EXPECT_EQ(instances, 1);
  *device = nullptr;
  EXPECT_EQ(instances, 0);
}

}  // namespace
}  // namespace quire
