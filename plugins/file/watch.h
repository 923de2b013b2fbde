// What other processes do in the folders of a store, as inotify tells it: which names came and
// went. The kernel queues an event before the call that caused it returns, so whoever has read all
// events knows all that happened.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/file/directory.h"

namespace quire::file {

class Watch {
 public:
  // False: this kernel has no inotify left for us; then nothing is watched.
  bool open();
  bool is_open() const { return file_.is_open(); }
  void leave() { file_.reset(); }
  bool add(unsigned number, const File& folder);
  bool has_all() const { return folders_.size() == kNumFolders; }

  // came: a file of that name came, else it went.
  using Visit = std::function<void(unsigned folder, std::string_view name, bool came)>;
  // Calls visit for everything that happened since. False: events were lost, so anything may have
  // happened anywhere.
  bool read(const Visit& visit);

 private:
  File file_;
  std::unordered_map<int, unsigned> folders_;  // by inotify's number
  std::vector<bool> watched_ = std::vector<bool>(kNumFolders);
  std::vector<char> events_ = std::vector<char>(65536);
};

}  // namespace quire::file
