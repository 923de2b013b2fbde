// What the fakes are made of inside.
#pragma once

#include "tests/kernels/fake_gpu/fake.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace quire::fake {

struct Region {
  size_t bytes;
  int place;    // as place_of
  bool import;  // a mapping of another process's memory
  int opened;   // how often it was imported
  std::string handle;
};

struct Stream;
struct Item {
  std::function<void()> run;
  std::shared_ptr<Stream> other;  // or: up to `ticket` of that one
  uint64_t ticket = 0;
};

struct Stream {
  int device = 0;
  std::deque<Item> queue;
  uint64_t queued = 0;
  uint64_t done = 0;
  bool records = false;
  bool spoilt = false;
  std::vector<Item> recorded;
};

struct Graph {
  std::vector<Item> items;
};

struct Event {
  int device = 0;
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;
};

struct Module {
  int device;
  uint32_t number;
};

struct Function {
  Module* module;
  uint32_t kernel;
  uint32_t shared;
};

struct Failure {
  uint32_t after;
  int code;
};

struct Machine {
  std::recursive_mutex mutex;
  int arena_file = -1;
  char* arena = nullptr;
  std::map<char*, Region> regions;
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::unique_ptr<Event>> events;
  std::map<void*, std::unique_ptr<Graph>> graphs;
  std::map<void*, std::unique_ptr<Module>> modules;
  std::map<void*, std::unique_ptr<Function>> functions;
  std::vector<const void*> images;
  std::map<std::string, uint64_t> calls;
  std::map<std::string, Failure> failures;
  int lost = 0;
  int open = 0;
  int records = 0;
  bool held = false;
  int64_t alive = 0;
};

Machine& machine();
using Lock = std::lock_guard<std::recursive_mutex>;

// Device memory is the host's to touch while this lives, and at no other time.
class Open {
 public:
  Open();
  ~Open();
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

const std::pair<char* const, Region>* region_of(const void* address);
// Whether the bytes are one region's, or nobody's: then they are the process's own.
bool is_whole(const void* address, size_t bytes);
// Whether a test wants this call to fail, and how.
bool fails(const char* call, int* code);
// What is not allowed while a stream records spoils what it has recorded.
bool spoils();
void finish_all();
int queue(int device, void* handle, Item item);
Event* event_of(int device, void* handle);

}  // namespace quire::fake
