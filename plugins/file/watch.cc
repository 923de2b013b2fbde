#include "plugins/file/watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace quire::file {

bool Watch::open() {
  folders_.clear();
  watched_.assign(kNumFolders, false);
  file_ = File(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  return file_.is_open();
}

bool Watch::add(unsigned number, const File& folder) {
  if (!file_.is_open() || watched_[number]) return file_.is_open();
  const std::string path = "/proc/self/fd/" + std::to_string(folder.number());
  const int watch = inotify_add_watch(file_.number(), path.c_str(), IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR);
  if (watch < 0) return false;
  folders_[watch] = number;
  watched_[number] = true;
  return true;
}

bool Watch::read(const Visit& visit) {
  bool whole = true;
  while (file_.is_open()) {
    const ssize_t bytes = ::read(file_.number(), events_.data(), events_.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return whole;  // EAGAIN: that is all
    for (ssize_t at = 0; at < bytes;) {
      inotify_event event;
      std::memcpy(&event, events_.data() + at, sizeof event);
      const char* const name = events_.data() + at + sizeof event;
      at += static_cast<ssize_t>(sizeof event + event.len);
      if ((event.mask & IN_Q_OVERFLOW) != 0) whole = false;
      const auto folder = folders_.find(event.wd);
      if (folder == folders_.end()) continue;
      if ((event.mask & IN_IGNORED) != 0) {  // the folder is gone
        watched_[folder->second] = false;
        folders_.erase(folder);
        whole = false;
      } else if (event.len != 0) {
        visit(folder->second, std::string_view(name), (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0);
      }
    }
  }
  return whole;
}

}  // namespace quire::file
