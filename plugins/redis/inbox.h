// What a server sends: answers in the order of what was asked. Lines are parsed here; the bytes of
// bulks go where their exchange says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/redis/exchange.h"
#include "plugins/redis/link.h"

namespace quire::redis {

class Inbox {
 public:
  enum class Got {
    kNothing,
    kSome,      // and perhaps there is more
    kAll,       // that came so far
    kLost,      // see errno
    kNonsense,  // what no server answers to what was asked; nothing that follows has a meaning
  };

  Inbox();
  // Reads once. What is answered stays in the pipeline, for it to take away.
  Got read(Link* link, Pipeline* pipeline, const Scratch& scratch);
  void clear();

 private:
  bool parse(Pipeline* pipeline);
  bool parse_line(Exchange* front);
  // What the next answer belongs to.
  static Exchange* front(const Pipeline& pipeline, size_t* number);

  const std::unique_ptr<uint8_t[]> bytes_;
  size_t begin_ = 0;  // of what is not parsed
  size_t end_ = 0;
  uint64_t body_left_ = 0;  // of a bulk; while it is not 0, nothing waits to be parsed
  uint32_t end_left_ = 0;   // of the two bytes behind a bulk
  size_t number_ = 0;       // of the exchange in the pipeline that is being answered
  std::vector<iovec> places_;
};

}  // namespace quire::redis
