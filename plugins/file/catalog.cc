#include "plugins/file/catalog.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "plugins/common/nanoseconds.h"

namespace quire::file {
namespace {

using plugins::kSecond;
// A use that follows a written one this closely is not written: after a crash, and for other processes, times are so inexact.
constexpr int64_t kUseGrain = 60 * kSecond;
// Leases are written as longer than they are, so that an object that is asked for all the time is written rarely.
constexpr int64_t kLeaseGrain = 60 * kSecond;
constexpr int64_t kLongestLease = int64_t{25} * 3600 * kSecond;  // what lies further ahead was written by a wrong clock
constexpr size_t kScanThreads = 4;
constexpr unsigned kFoldersPerSlice = 4;
constexpr size_t kUsesPerSlice = 32;
constexpr uint32_t kTicksBetweenScans = 10;
constexpr uint32_t kTicksOfCleaning = 30;

}  // namespace

Outcome Catalog::open() {
  if (Outcome outcome = directory_.open(config_.directory, config_.read_only); !outcome.ok()) return outcome;
  if (!directory_.remark().empty()) log_->say(QUIRE_LOG_WARN, directory_.remark());
  clean_up_until_ = kTicksOfCleaning;
  remove_leftovers();
  scan_all();
  return {};
}

void Catalog::leave() {
  directory_.leave();
  watch_.leave();
}

// The kernel may still be busy with the files of a process that was killed a moment ago: then again, for a while.
void Catalog::remove_leftovers() {
  if (directory_.write_error() != 0) return;
  unsigned removed = 0, in_use = 0;
  directory_.remove_leftovers(&removed, &in_use);
  if (removed != 0) log_->say(QUIRE_LOG_INFO, std::to_string(removed) + " files of stores that were interrupted have been removed");
  if (in_use == 0) clean_up_until_ = 0;
}

// Times in the future are those of wrong clocks: as of now.
Entry* Catalog::put(const FoundFile& found) {
  const int64_t now = time_of_files();
  Entry* const known = index_.find_any(found.key);
  if (known != nullptr) return index_.put(found.key, found.bytes, known->used);
  Entry* const entry = index_.put(found.key, found.bytes, std::min(found.used, now));
  if (found.lease > now && found.lease - now <= kLongestLease) entry->foreign_end = found.lease;
  return entry;
}

// Any thread. The folder is watched first, so that nothing happens between the two.
Catalog::Content Catalog::read_folder(unsigned folder) {
  Content content;
  const File file = directory_.open_folder(folder);
  if (!file.is_open()) {
    const int error = errno;
    content.is_foreign = directory_.is_foreign(folder);
    content.is_known = error == ENOENT || content.is_foreign;
    return content;
  }
  bool is_watched = false;
  int error = 0;
  {
    const std::lock_guard lock(watch_mutex_);
    is_watched = !config_.is_told || watch_.add(folder, file);
    error = errno;
    if (!is_watched) {
      log_->say_once(
          Topic::kNoWatch, QUIRE_LOG_WARN,
          "inotify is not available (" + error_text(error) + "): what other processes store or remove is noticed within seconds");
    }
  }
  content.is_known = directory_.scan(file, folder, &content.files) == 0;
  return content;
}

// After its files were put into the index.
void Catalog::accept(unsigned folder, const Content& content) {
  foreign_[folder] = content.is_foreign;
  unknown_[folder] = !content.is_known;
  if (content.is_foreign) {
    log_->say(QUIRE_LOG_WARN, directory_.path() + "/" + folder_name(folder) + " is no directory: nothing is kept there");
  }
  for (const FoundFile& found : content.files) {
    if (found.bytes == 0) remove_damaged(found.key);
  }
  if (!content.is_known) return;
  for (Entry* entry : index_.unseen(folder)) index_.erase(entry);
}

// What a store of ours is naming is its own.
void Catalog::put_found(const FoundFile& found) {
  if (found.bytes != 0 && naming_.find(found.key) == naming_.end()) put(found);
}

void Catalog::scan_folder(unsigned folder) {
  stale_.reset(folder);
  const Content content = read_folder(folder);
  index_.begin_scan();
  for (const FoundFile& found : content.files) put_found(found);
  accept(folder, content);
}

// Several threads wait for the disk. The least recently used objects come first, for the order's sake.
void Catalog::scan_all() {
  stale_.reset();
  if (config_.is_told) watch_.open();
  std::vector<Content> contents(kNumFolders);
  std::atomic<unsigned> next = 0;
  const auto read = [&] {
    for (unsigned folder = next++; folder < kNumFolders; folder = next++) {
      try {
        contents[folder] = read_folder(folder);
      } catch (const std::bad_alloc&) {
        contents[folder].is_known = false;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      while (threads.size() + 1 < kScanThreads) threads.emplace_back(read);
    } catch (const std::exception&) {  // fewer, then
    }
    read();
  }
  std::vector<const FoundFile*> all;
  for (const Content& content : contents) {
    for (const FoundFile& found : content.files) all.push_back(&found);
  }
  std::sort(all.begin(), all.end(), [](const FoundFile* a, const FoundFile* b) { return a->used < b->used; });
  index_.begin_scan();
  for (const FoundFile* found : all) put_found(*found);
  for (unsigned folder = 0; folder < kNumFolders; ++folder) accept(folder, contents[folder]);
}

void Catalog::follow() {
  if (is_down_ || !watch_.is_open()) return;
  std::string key;
  const bool whole = watch_.read([&](unsigned folder, std::string_view name, bool came) {
    if (!parse_object_name(folder, name, &key)) return;
    if (came && (index_.find_any(key) != nullptr || naming_.find(key) != naming_.end())) return;  // our own, as a rule
    refresh(key);
  });
  if (!whole) lose_trust();
}

Entry* Catalog::refresh(std::string_view key) {
  FoundFile found;
  const int error = directory_.look(key, &found);
  Entry* const entry = index_.find_any(key);
  if (error == 0 && found.bytes != 0) return put(found);
  if (error == 0) {
    remove_damaged(std::string(key));
    return nullptr;
  }
  if (error == ENOENT && entry != nullptr) index_.erase(entry);
  return nullptr;
}

void Catalog::remove_damaged(std::string_view key) {
  ++num_damaged_;
  const int error = config_.read_only ? 0 : directory_.remove(key);
  log_->say(QUIRE_LOG_WARN, "object " + object_path(key) + " is damaged" +
                                (error != 0          ? ", and cannot be removed: " + error_text(error)
                                 : config_.read_only ? ""
                                                     : " and was removed"));
  if (Entry* const entry = index_.find_any(key); entry != nullptr) index_.erase(entry);
}

bool Catalog::check_there() {
  if (!is_down_ && directory_.is_there()) return true;
  if (const Outcome outcome = directory_.reopen(); !outcome.ok()) {
    is_down_ = true;
    log_->say_once(Topic::kDown, QUIRE_LOG_ERROR, "the directory is gone: " + outcome.text);
    return false;
  }
  is_down_ = false;
  scan_all();
  log_->forget(Topic::kDown);
  log_->say(QUIRE_LOG_WARN,
            "directory " + directory_.path() + " is another one than before, with " + std::to_string(index_.num_objects()) + " objects");
  return true;
}

void Catalog::tick() {
  if (!check_there()) return;
  directory_.check_writable();
  follow();
  if (ticks_ < clean_up_until_) remove_leftovers();
  if (++ticks_ % kTicksBetweenScans == 0 && (!is_told() || unknown_.any())) lose_trust();
}

bool Catalog::work() {
  if (is_down_) return false;
  const bool had_any = stale_.any() || !to_write_.empty();
  unsigned scanned = 0;
  for (unsigned folder = 0; folder < kNumFolders && scanned < kFoldersPerSlice && stale_.any(); ++folder) {
    if (!stale_[folder]) continue;
    scan_folder(folder);
    ++scanned;
  }
  write_uses();
  return had_any;
}

void Catalog::use(Entry* entry, int64_t used) {
  index_.touch(entry, used);
  if (entry->wants_writing || entry->used - entry->written_use < kUseGrain || directory_.write_error() != 0) return;
  to_write_.push_back(entry->slot);
  entry->wants_writing = true;
}

void Catalog::begin_naming(std::string_view key) { ++naming_[std::string(key)]; }

void Catalog::end_naming(std::string_view key) {
  const auto at = naming_.find(key);
  if (at != naming_.end() && --at->second == 0) naming_.erase(at);
}

void Catalog::put_own(std::string_view key, uint64_t bytes, int64_t used) {
  try {
    Entry* const entry = index_.put(key, bytes, used);
    index_.touch(entry, used);
    entry->written_use = used;
  } catch (const std::bad_alloc&) {
    lose_trust();  // the directory knows it
  }
}

void Catalog::write_uses() {
  for (size_t i = 0; i < kUsesPerSlice && !to_write_.empty(); ++i) {
    const Entry* const there = index_.in_slot(to_write_.front());
    to_write_.pop_front();
    Entry* const entry = there != nullptr ? index_.find_any(there->key) : nullptr;
    if (entry == nullptr || !entry->wants_writing) continue;  // it left, and another one has its slot
    entry->wants_writing = false;
    const int error = directory_.write_times(entry->key, entry->used, 0);
    if (error == 0) entry->written_use = entry->used;
    if (error != 0 && error != ENOENT) {
      log_->say_once(Topic::kTimes, QUIRE_LOG_WARN, "the order of use cannot be kept in the files: utimensat: " + error_text(error));
    }
  }
}

bool Catalog::lease(Entry* entry, int64_t host_end, int64_t wall_end) {
  entry->lease_end = std::max(entry->lease_end, host_end);
  if (wall_end == 0 || directory_.write_error() != 0) return false;
  if (entry->written_lease >= wall_end || entry->foreign_end >= wall_end) return true;
  const int64_t end = wall_end + kLeaseGrain;
  if (directory_.write_times(entry->key, entry->used, end) != 0) return false;
  entry->written_use = entry->used;
  entry->written_lease = end;
  return true;
}

bool Catalog::may_leave(const Entry& entry, int64_t host_now, int64_t wall_now) const {
  return !entry.leaving && entry.loads == 0 && entry.lease_end <= host_now && entry.foreign_end <= wall_now;
}

bool Catalog::accept_times(Entry* entry, int64_t used, int64_t lease, int64_t wall_now) {
  bool is_free = true;
  if (used > entry->written_use && used <= wall_now) {
    entry->written_use = used;
    if (used > entry->used) {
      index_.move(entry, used);
      is_free = false;
    }
  }
  if (lease != entry->written_lease && lease > wall_now && lease - wall_now <= kLongestLease) {
    entry->foreign_end = lease;
    is_free = false;
  }
  return is_free;
}

}  // namespace quire::file
