#include "transfers.h"

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/client.h"
#include "core/records/checksum.h"
#include "fixtures.h"

namespace quire::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kKeyBytes = 32;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

Pages::Pages() {
  data = static_cast<char*>(mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (data == MAP_FAILED) std::abort();
  uint64_t random = 1;
  for (uint64_t at = 0; at < kPoolBytes; at += 8) {
    const uint64_t word = next_random(&random);
    std::memcpy(data + at, &word, sizeof word);
  }
}

Pages::~Pages() { munmap(data, kPoolBytes); }

Transfers::Transfers(const Shape& shape) : shape_(shape), order_(shuffled(kPoolBytes / shape.piece_bytes, 3)) {
  const std::string folder = QUIRE_MODULES;
  auto options = client::sized<quire_runtime_options>();
  options.header_abi = QUIRE_ABI_VERSION;
  options.connector_path = client::to_str(folder);
  quire_error err = fresh_error();
  require(quire_runtime_create(&options, &runtime_, &err), err);
  require(quire_connector_open(runtime_, client::to_str(shape.connector), client::to_str(shape.config), &connector_, &err), err);
}

Transfers::~Transfers() {
  quire_connector_release(connector_);
  quire_runtime_release(runtime_);
}

double Transfers::call(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece) {
  make_tickets(kind, first_key, first_piece);
  const auto begin = Clock::now();
  submit_and_wait(shape_.object_bytes);
  return seconds_since(begin);
}

double Transfers::call_each(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece, bool sums) {
  make_tickets(kind, first_key, first_piece);
  const auto begin = Clock::now();
  submit_each(sums);
  return seconds_since(begin);
}

void Transfers::make_tickets(quire_ticket_kind kind, uint64_t first_key, uint64_t first_piece) {
  const uint64_t objects = shape_.call_bytes / shape_.object_bytes;
  const uint64_t pieces = shape_.object_bytes / shape_.piece_bytes;
  tickets_.assign(objects, {});
  runs_.assign(objects * pieces, {});
  keys_.assign(objects * kKeyBytes, 0);
  for (uint64_t i = 0; i < objects; ++i) {
    const uint64_t key = first_key + i;
    std::memcpy(keys_.data() + i * kKeyBytes, &key, sizeof key);
    quire_ticket& t = tickets_[i];
    t.ticket = next_ticket_++;
    t.kind = kind;
    t.first_run = i * pieces;
    t.num_runs = static_cast<uint32_t>(pieces);
    t.num_keys = 1;
    t.key_offset = i * kKeyBytes;
    t.key_bytes = kKeyBytes;
    t.object_bytes = kind == QUIRE_TICKET_STORE ? shape_.object_bytes : 0;
    t.deadline_ns = -1;
    for (uint64_t p = 0; p < pieces; ++p) {
      quire_ticket_run& run = runs_[i * pieces + p];
      run.address = reinterpret_cast<uintptr_t>(piece(first_piece + i * pieces + p));
      run.bytes = shape_.piece_bytes;
      run.count = 1;
      run.object_offset = p * shape_.piece_bytes;
    }
  }
}

void Transfers::sum(const quire_ticket& ticket) {
  const uint64_t end = ticket.first_run + ticket.num_runs;
  for (uint64_t r = ticket.first_run; r < end; ++r) {
    if (r + 1 < end) prefetch_piece(reinterpret_cast<const void*>(runs_[r + 1].address), runs_[r + 1].bytes);
    sum_ += checksum(reinterpret_cast<const void*>(runs_[r].address), runs_[r].bytes);
  }
  benchmark::DoNotOptimize(sum_);
}

void Transfers::submit_each(bool sums) {
  quire_error err = fresh_error();
  uint64_t ended = 0;
  for (const quire_ticket& ticket : tickets_) {
    if (sums && ticket.kind == QUIRE_TICKET_STORE) sum(ticket);
    for (uint64_t n = 0; n == 0;) {
      require(quire_connector_submit(connector_, &ticket, 1, runs_.data(), runs_.size(), keys_.data(), keys_.size(), &n, &err), err);
      if (n == 0) ended += poll(-1, shape_.object_bytes, sums);
    }
  }
  while (ended < tickets_.size()) ended += poll(-1, shape_.object_bytes, sums);
}

uint64_t Transfers::poll(int64_t timeout_ns, uint64_t bytes, bool sums) {
  quire_error err = fresh_error();
  quire_completion ends[256];
  uint64_t n = 0;
  require(quire_connector_poll(connector_, timeout_ns, ends, 256, &n, &err), err);
  for (uint64_t i = 0; i < n; ++i) {
    if (ends[i].code != QUIRE_OK || ends[i].bytes != bytes) {
      std::fprintf(stderr, "ticket %llu ended with code %d\n", static_cast<unsigned long long>(ends[i].ticket), ends[i].code);
      std::exit(1);
    }
    if (!sums) continue;
    const quire_ticket& ticket = tickets_[ends[i].ticket - tickets_[0].ticket];
    if (ticket.kind == QUIRE_TICKET_LOAD) sum(ticket);
  }
  return n;
}

char* Transfers::piece(uint64_t number) const { return pool_.data + order_[number % order_.size()] * shape_.piece_bytes; }

double Transfers::look_up(uint64_t keys, uint64_t first_key) {
  keys_.assign(keys * kKeyBytes, 0);
  for (uint64_t i = 0; i < keys; ++i) {
    const uint64_t key = first_key + i;
    std::memcpy(keys_.data() + i * kKeyBytes, &key, sizeof key);
  }
  sizes_.resize(keys);
  tickets_.assign(1, {});
  tickets_[0].ticket = next_ticket_++;
  tickets_[0].kind = QUIRE_TICKET_LOOKUP;
  tickets_[0].num_keys = static_cast<uint32_t>(keys);
  tickets_[0].key_bytes = kKeyBytes;
  tickets_[0].sizes = sizes_.data();
  tickets_[0].deadline_ns = -1;
  const auto begin = Clock::now();
  submit_and_wait(0);
  return seconds_since(begin);
}

double Transfers::copy(quire_ticket_kind kind, uint64_t first_piece, uint64_t arena_at) {
  if (arena_ == nullptr) arena_ = std::make_unique<Pages>();
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < shape_.call_bytes / shape_.piece_bytes; ++i) {
    char* const there = arena_->data + (arena_at + i * shape_.piece_bytes) % kPoolBytes;
    char* const here = piece(first_piece + i);
    kind == QUIRE_TICKET_STORE ? std::memcpy(there, here, shape_.piece_bytes) : std::memcpy(here, there, shape_.piece_bytes);
    benchmark::ClobberMemory();
  }
  return seconds_since(begin);
}

void Transfers::submit_and_wait(uint64_t bytes) {
  quire_error err = fresh_error();
  for (uint64_t given = 0, ended = 0; ended < tickets_.size();) {
    uint64_t n = 0;
    if (given < tickets_.size()) {
      require(quire_connector_submit(connector_, tickets_.data() + given, tickets_.size() - given, runs_.data(), runs_.size(), keys_.data(),
                                     keys_.size(), &n, &err),
              err);
      given += n;
    }
    ended += poll(-1, bytes, false);
  }
}

}  // namespace quire::bench
