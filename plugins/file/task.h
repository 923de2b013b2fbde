// A ticket at work: a chain of requests, driven by their ends. Its completion is sent as soon as
// nothing may touch the memory of the ticket any more (C-6). The task itself stays until its last
// request has ended.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "plugins/file/file_parts.h"
#include "plugins/file/file_store.h"

namespace quire::file {

class Task : public Owner {
 public:
  Task(Store* store, std::unique_ptr<Ticket> ticket) : store_(*store), ticket_(std::move(ticket)) {}

  virtual void begin() = 0;
  // Starts one more read or write. False: there is none to be started now.
  virtual bool transfer() { return false; }
  // Whether it waits for what only time brings; called again and again then.
  virtual bool retry() { return false; }
  // Cancelled, overdue or failed: ends as early as it may.
  virtual void stop(quire_code code) { answer(code); }
  void ended(Request* request, int32_t result) final;

  const Ticket& ticket() const { return *ticket_; }
  bool is_answered() const { return is_answered_; }
  bool is_over() const { return is_answered_ && in_kernel_ == 0; }

 protected:
  virtual void step(Request* request, int32_t result) = 0;
  void start(Request* request);
  bool is_in_kernel() const { return in_kernel_ != 0; }
  // Once; later answers are ignored.
  void answer(quire_code code, uint64_t bytes = 0, uint32_t flags = 0, uint64_t num_found = 0);

  Store& store_;
  std::unique_ptr<Ticket> ticket_;

 private:
  uint32_t in_kernel_ = 0;
  bool is_answered_ = false;
};

std::unique_ptr<Task> make_task(Store* store, std::unique_ptr<Ticket> ticket);
std::unique_ptr<Task> make_store_task(Store* store, std::unique_ptr<Ticket> ticket);
std::unique_ptr<Task> make_load_task(Store* store, std::unique_ptr<Ticket> ticket);

// A ticket that moves bytes between an object's file and memory.
class TransferTask : public Task {
 public:
  TransferTask(Store* store, std::unique_ptr<Ticket> ticket, bool writes);
  ~TransferTask() override;
  bool transfer() override;
  void stop(quire_code code) override;

 protected:
  // Moves [0, end) of the object, or what the runs name of it; then all_moved is called.
  void begin_moving(uint64_t end);
  virtual void all_moved() = 0;
  virtual quire_code code_of(int error) = 0;
  void step(Request* request, int32_t result) final;
  // Every other request.
  virtual void advance(Request* request, int32_t result) = 0;

  bool is_stopping() const { return stop_code_ != QUIRE_OK; }
  // Whether the file is open with O_DIRECT from now on, as far as the store wants it.
  void set_direct(int other_flags);

  Pieces pieces_;
  std::string path_;
  File file_;

 private:
  struct Move : Request {
    Part part;
    uint8_t* staging = nullptr;
    uint64_t done = 0;
    bool is_plain = false;  // tried again without O_DIRECT
    std::vector<iovec> rest;
  };
  bool plan();
  void issue(Move* move);
  void moved(Move* move, int32_t result);
  bool try_again(Move* move, int error);
  void finish(Move* move);

  const bool writes_;
  bool is_direct_ = false;
  bool is_moving_ = false;
  int file_flags_ = 0;
  uint64_t planned_to_ = 0;
  uint64_t moves_to_ = 0;
  std::deque<Part> planned_;
  std::vector<std::unique_ptr<Move>> moves_;
  uint32_t num_direct_ = 0;  // moves whose memory is the ticket's
  quire_code stop_code_ = QUIRE_OK;
};

}  // namespace quire::file
