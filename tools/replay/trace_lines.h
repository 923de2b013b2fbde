// A trace file, line by line. Lines are bounded, and what cannot be read is reported.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <string>

namespace quire::replay {

class Lines {
 public:
  // gzip allowed; "-" = standard input. Throws std::runtime_error.
  explicit Lines(std::string path);

  // The next line without its end; false after the last one. Throws std::runtime_error.
  bool next(std::string* line);
  // The rest of the file, line ends included, at most `most` bytes. Throws std::runtime_error.
  std::string rest(size_t most);
  // The next character without taking it; -1 = none.
  int peek();
  int take();
  uint64_t number() const { return number_; }  // of the line read last, from 1 on
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  void check_read() const;

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  uint64_t number_ = 0;
};

}  // namespace quire::replay
