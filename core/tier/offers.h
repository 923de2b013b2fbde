// What sequences have, offered to other processes. An offer is the records of a prefix, each one a
// store that does not end before its reader is done or its lease is over: the connector reads the
// pool until then, so the offer holds the blocks. Records are those that tiers keep, but for blocks
// that the sequence has no more: of windows and chunks an offer has what resuming at its end needs.
//
// Of shards on devices the connector reads copies in host memory, which are the offer's until it
// ends. Where all shards are on devices, blocks are held until the records with their copies were
// submitted.
//
// An offer that grows has its records planned when it begins. Those of units that are committed are
// held and submitted in every call of start_ready(), in the order of the prompt, after those of an
// encoder; what describes the offer goes first. So a reader that finds the description, and not a
// record, knows that the record is to come.
#pragma once

#include <quire/tier.h>

#include <array>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/tier/held_records.h"
#include "core/tier/offer_description.h"
#include "core/tier/offer_memory.h"
#include "core/tier/tier_state.h"

namespace quire {

class Offers {
 public:
  static constexpr size_t kMost = 4096;

  explicit Offers(TierState& state);  // borrowed; its tiers are there

  // end_token: 0 = as far as is committed; it grows if that is more.
  Result<quire_offer> begin(SequenceId sequence, std::span<const quire_symbol> symbols,  //
                            uint64_t end_token, uint32_t tier);
  Status info(const OfferHandle& handle, quire_offer_info* info) const;
  Status end(const OfferHandle& handle);

  // Adds what was committed, and gives the connectors what can be read now.
  void start_ready() noexcept;
  // For a connector, for streams, or for another call; not for commits.
  bool any_waits() const;
  // False: it is the end of no record.
  bool ended(uint32_t tier, const quire_completion& end) noexcept;
  size_t num_offers() const { return offers_.size(); }
  // Records that are read or copied.
  uint64_t num_under_way(uint32_t tier) const;
  // Withdraws all, and ends those that can end now.
  void stop() noexcept;
  // Connectors may read them for ever.
  void leave_behind(std::vector<std::shared_ptr<void>>* left) noexcept;

 private:
  struct Record {
    HeldRange range;  // hold 0: not yet, or the sequence does not have it and nobody needs it
    PrefixNames names;
    uint32_t part = 0;
    uint64_t header_at = 0, header_bytes = 0;
    uint64_t bytes = 0;  // with its header; at most, until it is held
    uint64_t mark = 0;   // of the streams: the kernels that wrote it
    HostPlace place;     // of a payload on a device: its copy
    uint64_t copy = 0;   // number of it; 0: none was queued
  };
  struct Offer {
    OfferHandle handle{};
    uint32_t tier = 0;
    SequenceId sequence;  // it grows with
    uint64_t end_token = 0;
    uint64_t encoder = 0;      // tokens of cross attention
    bool grew = false;         // it did not have all of it when it began
    uint64_t held_tokens = 0;  // of the sequence
    uint64_t bytes = 0;
    std::vector<quire_hold_id> holds;
    std::vector<Record> records;     // the encoder's, then by their ends
    size_t num_held = 0;             // of these; the others are to come
    size_t next_copy = 0;            // record that is copied next, or need not be
    size_t next = 0;                 // record that is submitted next
    uint64_t description_at = 0;     // in `headers`; it is submitted first
    uint64_t description_bytes = 0;  // 0: the connector takes none that long
    bool is_described = false;
    std::vector<uint64_t> tickets;  // in flight
    bool is_withdrawn = false;
    RawBytes headers;

    bool grows() const { return num_held < records.size(); }
    bool is_complete() const { return is_described && next == records.size(); }
    bool waits() const { return !is_withdrawn && (next < num_held || !is_described); }
  };

  Offer* find(const OfferHandle& handle) const;
  // Its tokens are not those of the prompt.
  bool is_of_encoder(const Record& record) const {  //
    return state_.plan->parts()[record.part].live.fixed;
  }
  Status check(uint32_t tier) const;
  // Where the offer ends, whether it grows, and what it has of an encoder.
  Status choose_end(SequenceId sequence, uint64_t end_token, Offer* offer, bool* grows) const;
  // Its records as they will be, and the description.
  Status plan_records(SequenceId sequence, std::span<const quire_symbol> symbols, bool grows,  //
                      Offer* offer);
  void plan_record(uint32_t part, uint64_t end, const PrefixNames& names, Offer* offer) const;
  void place_headers(Offer* offer) const;
  // What the sequence has of a record. Errors: FAILED_PRECONDITION (resuming at `end_token` needs
  // more of it).
  Status measure(uint64_t end_token, Record* record);
  // Of an offer that does not grow.
  Status hold_all(SequenceId sequence, Offer* offer);
  // What was committed since. Errors: it can never be complete.
  Status grow(Offer* offer);
  // prefix: at its end. Its bytes follow those of the headers.
  void describe(std::string_view identity, const PrefixNames& prefix, Offer* offer) const;
  // Submits what can be submitted now. kFull: the connector takes no more, or enough was summed.
  Submitted start(Offer* offer, uint64_t* summed);
  Submitted submit(Offer* offer, const Record& record);
  Submitted submit_description(Offer* offer);
  // Queues copies of what the kernels have written, a little ahead of what is submitted.
  Status copy_ready(Offer* offer);
  Result<bool> is_copied(const Record& record) const;
  uint64_t num_copies(const Offer& offer) const noexcept;  // on their way
  // Blocks that nobody reads any more.
  void let_go(Offer* offer) noexcept;
  void give_back(const Offer& offer) noexcept;
  // Its runs are in ticket_runs.
  Submitted submit_runs(Offer* offer, const RecordKey& name, uint64_t bytes);
  void withdraw(Offer* offer) noexcept;
  // The device's fault: its log says it, and the offer is withdrawn.
  void report(const Offer& offer, const Status& status) const;
  // Ends those that nobody reads and nobody will.
  void close_ended() noexcept;

  TierState& state_;
  std::vector<std::unique_ptr<Offer>> offers_;
  std::unordered_map<uint64_t, Offer*> by_ticket_;
  uint64_t next_ticket_ = 1;
  RecordHeader header_;
  std::vector<PayloadRun> runs_;
  HeldIds ids_;
  OfferMemory memory_;
  uint64_t copied_ahead_ = 0;  // bytes that were copied, or will be, and not submitted
};

}  // namespace quire
