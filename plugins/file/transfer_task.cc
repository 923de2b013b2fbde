#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "plugins/file/task.h"

namespace quire::file {

void Task::start(Request* request) {
  request->owner = this;
  ++in_kernel_;
  store_.kernel->start(request);
}

void Task::ended(Request* request, int32_t result) {
  --in_kernel_;
  step(request, result);
}

void Task::answer(quire_code code, uint64_t bytes, uint32_t flags, uint64_t num_found) {
  if (is_answered_) return;
  is_answered_ = true;
  store_.mailbox->complete({ticket_->fields.ticket, code, flags, bytes, num_found});
}

TransferTask::TransferTask(Store* store, std::unique_ptr<Ticket> ticket, bool writes)
    : Task(store, std::move(ticket)), pieces_(ticket_->runs), path_(object_path(ticket_->key())), writes_(writes) {}

TransferTask::~TransferTask() {
  if (file_.is_open()) store_.closing.close(store_.kernel, std::move(file_));
}

void TransferTask::set_direct(int other_flags) {
  file_flags_ = other_flags;
  is_direct_ = store_.is_direct && fcntl(file_.number(), F_SETFL, other_flags | O_DIRECT) == 0;
  if (is_direct_) return;
  if (store_.is_direct) {
    store_.log.say_once(Topic::kNoDirect, QUIRE_LOG_WARN,
                        "the file system refuses O_DIRECT (" + error_text(errno) + "): reads and writes go through the page cache");
    store_.is_direct = false;
  }
  fcntl(file_.number(), F_SETFL, other_flags);
}

void TransferTask::begin_moving(uint64_t end) {
  is_moving_ = true;
  moves_to_ = end;
  if (!plan()) all_moved();
}

// False: everything has been planned, and nothing is left to be started.
bool TransferTask::plan() {
  while (planned_.empty() && planned_to_ < moves_to_) {
    const auto next = pieces_.next(planned_to_);
    if (!next || *next >= moves_to_) {
      planned_to_ = moves_to_;
      break;
    }
    const uint64_t end = std::min((*next / kWindow + 1) * kWindow, moves_to_);
    std::vector<Part> parts;
    plan_parts(pieces_, *next, end, is_direct_, &parts);
    planned_.assign(std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
    planned_to_ = end;
  }
  return !planned_.empty();
}

bool TransferTask::transfer() {
  if (!is_moving_ || is_stopping() || !plan()) return false;
  auto made = std::make_unique<Move>();
  made->rest.reserve(planned_.front().memory.size() + 1);
  moves_.reserve(moves_.size() + 1);
  uint8_t* staging = nullptr;
  if (planned_.front().memory.empty()) {
    staging = store_.staging.take();
    if (staging == nullptr) {
      if (!store_.staging.is_used()) stop(QUIRE_RESOURCE_EXHAUSTED);  // no host memory for a single buffer
      return false;
    }
  }
  moves_.push_back(std::move(made));
  Move* const move = moves_.back().get();
  move->is_move = true;
  move->act = writes_ ? Act::kWrite : Act::kRead;
  move->file = file_.number();
  move->part = std::move(planned_.front());
  move->staging = staging;
  planned_.pop_front();
  if (staging == nullptr) ++num_direct_;
  if (staging != nullptr && writes_) pieces_.gather(move->part.begin, move->part.end, staging);
  issue(move);
  return true;
}

// What is left of it.
void TransferTask::issue(Move* move) {
  const Part& part = move->part;
  move->rest.clear();
  uint64_t skip = move->done;
  if (move->staging != nullptr) move->rest.push_back({move->staging + skip, part.end - part.begin - skip});
  for (const iovec& vector : part.memory) {
    if (move->staging != nullptr) break;
    if (skip < vector.iov_len) move->rest.push_back({static_cast<uint8_t*>(vector.iov_base) + skip, vector.iov_len - skip});
    skip -= std::min<uint64_t>(skip, vector.iov_len);
  }
  move->memory = move->rest;
  move->offset = part.begin + move->done;
  ++store_.transfers;
  start(move);
}

void TransferTask::step(Request* request, int32_t result) {
  if (request->is_move) {
    --store_.transfers;
    moved(static_cast<Move*>(request), result);
  } else {
    advance(request, result);
  }
}

void TransferTask::moved(Move* move, int32_t result) {
  if (is_stopping()) return finish(move);
  if (result < 0) {
    if (try_again(move, -result)) return;
    finish(move);
    return stop(code_of(-result));
  }
  const uint64_t before = move->done;
  move->done += static_cast<uint64_t>(result);
  const Part& part = move->part;
  if (part.begin + move->done < (writes_ ? part.end : part.needed_end)) {
    if (is_direct_) move->done = page_floor(move->done);
    if (move->done > before) return issue(move);
    finish(move);
    return stop(writes_ ? code_of(EIO) : QUIRE_DATA_LOSS);  // the file ends early: somebody cut it
  }
  if (move->staging != nullptr && !writes_) pieces_.scatter(part.begin, part.needed_end, move->staging);
  finish(move);
  if (!plan() && moves_.empty()) {
    is_moving_ = false;
    all_moved();
  }
}

// Without what was refused.
bool TransferTask::try_again(Move* move, int error) {
  if (error == EINTR || error == EAGAIN) {
    issue(move);
    return true;
  }
  if (error == EINVAL && (is_direct_ || !store_.is_direct) && !move->is_plain) {  // perhaps another move has said so already
    move->is_plain = true;
    store_.log.say_once(Topic::kNoDirect, QUIRE_LOG_WARN,
                        "the file system refuses O_DIRECT at multiples of 4096: reads and writes go through the page cache");
    store_.is_direct = false;
    is_direct_ = false;
    fcntl(move->file, F_SETFL, file_flags_);
    issue(move);
    return true;
  }
  if (error == EFAULT && move->staging == nullptr && (move->staging = store_.staging.take()) != nullptr) {
    store_.log.say_once(Topic::kNoDirectMemory, QUIRE_LOG_WARN,
                        "the kernel cannot move bytes to or from the memory of a ticket (memory of a device driver?): they are copied");
    --num_direct_;
    move->done = 0;
    if (writes_) pieces_.gather(move->part.begin, move->part.end, move->staging);
    issue(move);
    return true;
  }
  return false;
}

// The kernel is done with it.
void TransferTask::finish(Move* move) {
  if (move->staging != nullptr) {
    store_.staging.give_back(move->staging);
  } else {
    --num_direct_;
  }
  std::erase_if(moves_, [&](const auto& each) { return each.get() == move; });
  if (is_stopping() && num_direct_ == 0) answer(stop_code_);
}

void TransferTask::stop(quire_code code) {
  if (is_answered() || is_stopping()) return;
  stop_code_ = code;
  for (const auto& move : moves_) store_.kernel->cancel(move.get());
  if (num_direct_ == 0) answer(code);
}

}  // namespace quire::file
