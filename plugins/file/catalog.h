// The objects of a directory as they are now: the index, kept equal to the directory by reading
// what the kernel tells of changes, or by looking again now and then where it does not tell
// (network file systems).
#pragma once

#include <quire/driver.h>

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/file/directory.h"
#include "plugins/file/file_config.h"
#include "plugins/file/file_index.h"
#include "plugins/file/file_log.h"
#include "plugins/file/watch.h"

namespace quire::file {

class Catalog {
 public:
  Catalog(const Config& config, Log* log) : config_(config), log_(log) {}

  // Opens the directory and reads what is in it. Errors: those of Directory::open.
  Outcome open();

  // In a child of fork(): closes files.
  void leave();

  Directory& directory() { return directory_; }
  Index& index() { return index_; }
  // The directory is gone. It is looked for again in tick().
  bool is_down() const { return is_down_; }
  // An object that the index does not know does not exist.
  bool is_complete() const { return !is_down_ && is_told() && stale_.none() && unknown_.none(); }

  // Something else has the name of the key's folder, a symbolic link for example: nothing is done
  // there.
  bool is_foreign(std::string_view key) const { return foreign_[folder_of(key)]; }

  // What other processes did meanwhile. Before anything is answered from the index.
  void follow();
  // A slice of work that can wait. False: there was none.
  bool work();
  // About once a second.
  void tick();
  // Looks whether the directory is still there. False: the store is down.
  bool check_there();

  // Reads the whole directory again, now or in slices of work().
  void scan_all();
  void lose_trust() { stale_.set(); }

  // What the directory says of one key now.
  Entry* refresh(std::string_view key);
  void use(Entry* entry, int64_t used);
  // Around the moment when a store of this process gives an object its name: until its end is known
  // the object is the store's.
  void begin_naming(std::string_view key);
  void end_naming(std::string_view key);
  // An object that was just stored, with its use in the file's times.
  void put_own(std::string_view key, uint64_t bytes, int64_t used);
  // The object stays until then, whoever wants room. wall_end: in the time of files; 0: of this
  // process alone. False: other processes could not be told.
  bool lease(Entry* entry, int64_t host_end, int64_t wall_end);
  bool may_leave(const Entry& entry, int64_t host_now, int64_t wall_now) const;
  // Times of an object's file, as just read. False: somebody else uses it, so it does not leave
  // now.
  bool accept_times(Entry* entry, int64_t used, int64_t lease, int64_t wall_now);
  // A file that cannot be an object, or is no longer what it was: it is removed and counted.
  void remove_damaged(std::string_view key);

  uint64_t num_damaged() const { return num_damaged_; }

 private:
  bool is_told() const { return config_.is_told && directory_.is_local() && watch_.has_all(); }
  // What a folder holds. is_known is false if it could not be read.
  struct Content {
    bool is_known = false;
    bool is_foreign = false;
    std::vector<FoundFile> files;
  };
  Content read_folder(unsigned folder);
  void accept(unsigned folder, const Content& content);
  void scan_folder(unsigned folder);
  Entry* put(const FoundFile& found);
  void put_found(const FoundFile& found);
  void write_uses();
  void remove_leftovers();

  Config config_;
  Log* log_;
  Directory directory_;
  Watch watch_;
  std::mutex watch_mutex_;  // of the threads of scan_all
  Index index_;
  std::bitset<kNumFolders> stale_;  // folders to be read again
  std::bitset<kNumFolders> foreign_;
  std::bitset<kNumFolders> unknown_;                     // folders that could not be read
  std::map<std::string, uint32_t, std::less<>> naming_;  // keys, and how many stores name them
  // Slots of objects whose use the file does not say yet.
  std::deque<uint32_t> to_write_;
  uint64_t num_damaged_ = 0;
  uint32_t ticks_ = 0;
  uint32_t clean_up_until_ = 0;  // tick
  bool is_down_ = false;
};

}  // namespace quire::file
