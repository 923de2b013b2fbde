// A part at work on a connection: the commands that it sends, the answers that it expects, and what
// becomes of them. hiredis' reader would collect a whole answer in a buffer of its own before it
// gives it away. So the bytes of objects go around it: from the pieces of a store to the socket,
// and from the socket to the pieces of a load, each without a copy where pieces are long.
//
// The thread of the connection alone touches the memory of a ticket, and an exchange that was
// stopped touches it no more: it swallows what still comes.
//
//   store    SET key value NX [PX ttl]
//   load     STRLEN key [PEXPIRE key ttl] GETRANGE key first last ...
//            in MULTI and EXEC if there are several ranges, so that all are of one object; a server
//            that is full refuses MULTI, and then one range is read from the first byte to the last
//   look-up  STRLEN key [PEXPIRE key ttl] ...
//   remove   DEL key
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/common/pieces.h"
#include "plugins/redis/redis_tickets.h"

namespace quire::redis {

inline constexpr size_t kScratchBytes = size_t{256} * 1024;
inline constexpr uint64_t kMostObjectBytes = uint64_t{512} << 20;  // what a server takes

// Memory of a connection for bytes that nobody wants, and for pieces that are many and short.
using Scratch = std::unique_ptr<uint8_t[]>;

// An answer of one line. Of a bulk: the line before its bytes.
struct Reply {
  enum class Kind { kStatus, kError, kInteger, kNil, kBulk, kArray };
  Kind kind = Kind::kStatus;
  int64_t number = 0;     // an integer, the bytes of a bulk, the elements of an array
  std::string_view text;  // of a status or an error
};
// Without its end. False: no server answers so.
bool parse_reply(std::string_view line, Reply* out);
// What an error of a server means for a ticket.
quire_code code_of_error(std::string_view text);

// Bytes of an object, read by one command.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};
// What to read so that all pieces are in it, in order: short gaps are read, too, and of many pieces
// that lie far apart all gaps.
std::vector<Range> plan_ranges(std::span<const quire_ticket_run> runs);

class Exchange {
 public:
  // never_evicts: the server keeps what it has, so that leases can be granted.
  Exchange(std::unique_ptr<Part> part, const Config& config, bool never_evicts);

  const Part* part() const { return part_.get(); }  // nullptr: it was stopped
  uint64_t weight() const { return weight_; }       // bytes on the wire, of both directions

  bool has_begun() const { return sent_ != 0; }
  bool is_sent() const { return sent_ == to_send_; }
  uint64_t unsent() const { return to_send_ - sent_; }
  // What to send next. False: it is in `scratch`, which is then taken.
  bool outgoing(std::vector<iovec>* out, const Scratch& scratch);
  // Takes what is its own of n bytes that were sent, and returns the rest.
  size_t sent(size_t n);

  bool is_answered() const { return num_replies_ == most_replies_; }
  // False: no server answers this so.
  bool take(const Reply& reply);
  // Where to put the next bytes of a bulk of which `left` are to come. Returns how many.
  size_t place(uint64_t left, std::vector<iovec>* out, const Scratch& scratch);
  void placed(size_t n, const Scratch& scratch);
  // The same for bytes that lie elsewhere.
  void put(std::span<const uint8_t> bytes);
  void end_bulk() { ++num_replies_; }

  // Whether its part may end before the answer: nobody needs or touches the ticket's memory then.
  // must: even if what is done cannot be told.
  bool can_stop(bool must) const;
  // When it has to end at the latest: so long after the first call.
  int64_t end_by(int64_t now, int64_t grace);
  // The end of the part. code: of what cut it short; OK: it was answered.
  PartEnd end(quire_code code);
  // The server refused MULTI: the part starts again, with one range.
  bool needs_one_range() const;
  // Gives the part back, to be started again.
  std::unique_ptr<Part> give_back() { return std::move(part_); }
  // What the server said, if it was an error.
  std::string_view complaint() const { return complaint_; }

 private:
  void plan_store(const Config& config, std::string_view key);
  void plan_load(const Config& config, std::string_view key);
  void plan_look_up(const Config& config);
  bool take_one(const Reply& reply);
  bool take_load(const Reply& reply);
  bool take_size(const Reply& reply);
  void fail(const Reply& reply);
  bool is_wanted() const { return part_ != nullptr && code_ == QUIRE_OK; }

  std::unique_ptr<Part> part_;
  plugins::Pieces pieces_;
  std::vector<Range> ranges_;
  std::vector<plugins::Extent> extents_;
  std::string head_, tail_;  // around the object of a store
  uint64_t sent_ = 0;
  uint64_t to_send_ = 0;
  uint64_t weight_ = 0;
  uint64_t num_replies_ = 0;
  uint64_t most_replies_ = 1;
  uint64_t first_item_ = 0;  // of a load: replies before that of STRLEN
  uint64_t at_ = 0;          // of the object: where the next bytes of a bulk belong
  uint32_t per_key_ = 1;     // replies
  bool is_staged_ = false;   // place() gave scratch
  int64_t end_by_ = 0;       // 0: end_by() was not called
  quire_code code_ = QUIRE_OK;
  uint32_t flags_ = 0;
  std::string complaint_;
};

// What was asked, in the order in which answers come; and the ends of parts that were not told yet.
struct Pipeline {
  std::deque<std::unique_ptr<Exchange>> asked;
  std::vector<PartEnd> ends;
  uint64_t weight = 0;
  size_t num_sent = 0;       // of `asked`, the first ones
  uint64_t num_answers = 0;  // ever

  // Takes answered exchanges away. look: called with each of them before it ends; it may take the
  // part.
  template <typename Look>
  void take_answered(Look look) {
    while (!asked.empty() && asked.front()->is_answered()) {
      Exchange& first = *asked.front();
      look(&first);
      if (first.part() != nullptr) ends.push_back(first.end(QUIRE_OK));
      weight -= first.weight();
      asked.pop_front();
      if (num_sent != 0) --num_sent;
      ++num_answers;
    }
  }
};

}  // namespace quire::redis
