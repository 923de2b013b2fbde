// The file connector above a kernel that fails, waits and does things by halves: every ticket ends with the right code, the store goes on,
// and nothing is left behind.
#include <fcntl.h>

#include <chrono>
#include <set>
#include <thread>

#include "file_rig.h"

namespace quire::file {
namespace {

using kit::key;

constexpr uint64_t kObject = 2 * kMiB + 1000;  // two windows and a tail
constexpr uint64_t kPages = 2 * kMiB;          // no tail
constexpr uint64_t kCharge = 2 * kMiB + 4096;  // of kObject

struct Refusal {
  Act act;
  int error;
  quire_code code;
};

std::string name(const Refusal& refusal) {
  return "act " + std::to_string(static_cast<int>(refusal.act)) + ", " + error_text(refusal.error);
}

// A store fails at any step: nothing of it is left, no room stays taken, and the next one succeeds once the pause is over.
TEST_F(FileStore, AStoreThatFailsLeavesNothing) {
  const Refusal refusals[] = {{Act::kOpen, EIO, QUIRE_UNAVAILABLE},           {Act::kOpen, EMFILE, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kOpen, ENOSPC, QUIRE_RESOURCE_EXHAUSTED}, {Act::kOpen, EROFS, QUIRE_PERMISSION_DENIED},
                              {Act::kOpen, EACCES, QUIRE_PERMISSION_DENIED},  {Act::kAllocate, ENOSPC, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kAllocate, EIO, QUIRE_UNAVAILABLE},       {Act::kAllocate, EDQUOT, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kWrite, EIO, QUIRE_UNAVAILABLE},          {Act::kWrite, ENOSPC, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kSync, EIO, QUIRE_UNAVAILABLE},           {Act::kSync, ENOSPC, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kLink, EIO, QUIRE_UNAVAILABLE},           {Act::kLink, ENOSPC, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kLink, EROFS, QUIRE_PERMISSION_DENIED}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(name(refusal));
    const Folder folder;
    Script script;
    StoreRig rig(config(folder.store(), kCharge), &script);  // the next one needs all of it
    ASSERT_TRUE(rig.outcome().ok()) << rig.outcome().text;
    const Bytes object = content(1, kObject);
    script.fault(failing(refusal.act, refusal.error));
    EXPECT_EQ(rig.store(key(1), object, 8).code, refusal.code);
    EXPECT_EQ(rig.sizes({key(1)})[0], 0u);
    EXPECT_TRUE(files_below(folder.store()).empty());
    EXPECT_EQ(rig.shown().used_bytes, 0u);
    EXPECT_TRUE(rig.host().said(error_text(refusal.error)) != 0 || refusal.error == EMFILE);
    script.fault([](const Request&) { return std::nullopt; });
    rig.host().advance(61 * kSecond);
    EXPECT_EQ(rig.store(key(1), object, 8).code, QUIRE_OK);
    EXPECT_TRUE(rig.holds(key(1), object));
    EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_UP);
  }
}

TEST_F(FileStore, ALoadThatFailsIsAFailureOfThatTicket) {
  const Folder folder;
  Script script;
  StoreRig rig(config(folder.store()), &script);
  const Bytes object = content(1, kObject);
  ASSERT_EQ(rig.store(key(1), object).code, QUIRE_OK);
  const Refusal refusals[] = {{Act::kOpen, EIO, QUIRE_UNAVAILABLE},
                              {Act::kOpen, ENFILE, QUIRE_RESOURCE_EXHAUSTED},
                              {Act::kOpen, EACCES, QUIRE_PERMISSION_DENIED},
                              {Act::kRead, EIO, QUIRE_UNAVAILABLE},
                              {Act::kRead, ENOMEM, QUIRE_RESOURCE_EXHAUSTED}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(name(refusal));
    for (const uint64_t misalignment : {0, 8}) {
      script.fault(failing(refusal.act, refusal.error));
      EXPECT_EQ(rig.load(key(1), kObject, nullptr, misalignment).code, refusal.code);
      script.fault(failing(refusal.act, refusal.error, 1));
      EXPECT_EQ(rig.load(key(1), kObject, nullptr, misalignment).code, refusal.code) << "of several reads one fails";
      script.fault([](const Request&) { return std::nullopt; });
      EXPECT_TRUE(rig.holds(key(1), object));
    }
  }
  EXPECT_EQ(rig.state(), QUIRE_CONNECTOR_UP);
  EXPECT_NE(rig.host().said("of this store"), 0u) << "failures are counted in the log";
}

// What only needs to be done again, or in another way, is no failure.
TEST_F(FileStore, WhatIsRefusedInOneWayIsDoneInAnother) {
  struct Detour {
    Act act;
    int error;
    int times;
    const char* said;
  };
  const Detour detours[] = {{Act::kWrite, EAGAIN, 3, ""},        {Act::kWrite, EINTR, 3, ""},
                            {Act::kRead, EAGAIN, 3, ""},         {Act::kRead, EINTR, 3, ""},
                            {Act::kAllocate, EOPNOTSUPP, 9, ""}, {Act::kWrite, EINVAL, 1, "O_DIRECT"},
                            {Act::kRead, EINVAL, 1, "O_DIRECT"}, {Act::kRead, EFAULT, 2, "copied"},
                            {Act::kWrite, EFAULT, 2, "copied"},  {Act::kOpen, EOPNOTSUPP, 1, "O_TMPFILE"},
                            {Act::kOpen, EISDIR, 1, "O_TMPFILE"}};
  for (const Detour& detour : detours) {
    SCOPED_TRACE("act " + std::to_string(static_cast<int>(detour.act)) + ", " + error_text(detour.error));
    const Folder folder;
    Script script;
    StoreRig rig(config(folder.store()), &script);
    script.fault(failing(detour.act, detour.error, detour.times));
    for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(rig.store(key(i), content(i, kPages)).code, QUIRE_OK);
    for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(rig.holds(key(i), content(i, kPages)));
    EXPECT_EQ(rig.host().said(detour.said), *detour.said != 0 ? 1u : 0u) << "it is said once, or nothing is said";
    EXPECT_EQ(files_below(folder.store()).size(), 3u);
  }
}

TEST_F(FileStore, WithoutDirectIoBytesAreRight) {
  const Folder folder;
  Script script;
  script.fault([left = 2](const Request& request) mutable {  // of two parts at once
    return request.act == Act::kWrite && request.is_move && left-- > 0 ? std::optional<int32_t>(-EINVAL) : std::nullopt;
  });
  StoreRig rig(config(folder.store()), &script);
  for (const uint64_t misalignment : {0, 8}) {
    ASSERT_EQ(rig.store(key(misalignment), content(misalignment, kObject), misalignment).code, QUIRE_OK);
    EXPECT_TRUE(rig.holds(key(misalignment), content(misalignment, kObject)));
  }
}

// A rename that keeps what is there, or a link: whichever the file system has.
TEST_F(FileStore, WithoutTemporaryFilesNamesAreGivenOnce) {
  for (const bool renames : {true, false}) {
    const Folder folder;
    Script script;
    script.fault([=](const Request& request) -> std::optional<int32_t> {
      const bool temporary = request.act == Act::kOpen && (request.how.flags & O_TMPFILE) == O_TMPFILE;
      if (temporary) return -EOPNOTSUPP;
      return request.act == Act::kRename && !renames ? std::optional<int32_t>(-EINVAL) : std::nullopt;
    });
    StoreRig rig(config(folder.store()), &script);
    std::vector<std::unique_ptr<Ticket>> tickets;
    std::vector<Buffer> buffers;
    for (uint64_t i = 0; i < 8; ++i) buffers.emplace_back(kObject);
    for (uint64_t i = 0; i < 8; ++i) {
      buffers[i].fill(content(i, kObject));
      tickets.push_back(rig.ticket(QUIRE_TICKET_STORE, {key(1)}, {buffers[i].run()}));
    }
    const uint64_t first = tickets[0]->fields.ticket;
    rig.submit_all(std::move(tickets));
    int stored = 0;
    for (uint64_t i = 0; i < 8; ++i) {
      const auto end = rig.end_of(first + i);
      ASSERT_TRUE(end && end->code == QUIRE_OK);
      if ((end->flags & QUIRE_COMPLETION_EXISTED) == 0) {
        EXPECT_TRUE(rig.holds(key(1), content(i, kObject)));
      }
      stored += (end->flags & QUIRE_COMPLETION_EXISTED) == 0 ? 1 : 0;
    }
    EXPECT_EQ(stored, 1);
    rig.close();
    EXPECT_EQ(files_below(folder.store()).size(), 1u);
    EXPECT_EQ(script.count(Act::kLink) == 0, renames);
  }
}

TEST_F(FileStore, ReadsAndWritesByHalvesAreContinued) {
  for (const uint64_t misalignment : {0, 8}) {
    const Folder folder;
    Script script;
    script.shorten([](const Request& request) { return request.is_move; });
    StoreRig rig(config(folder.store()), &script);
    const Bytes object = content(1, kObject);
    ASSERT_EQ(rig.store(key(1), object, misalignment).code, QUIRE_OK);
    Bytes out;
    ASSERT_EQ(rig.load(key(1), kObject, &out, misalignment).code, QUIRE_OK);
    EXPECT_EQ(out, object);
  }
}

// C-6: a read or write that the kernel holds keeps its ticket if it uses the ticket's memory, and only then.
TEST_F(FileStore, CancelledTicketsEndWhenNothingTouchesTheirMemory) {
  for (const bool stores : {true, false}) {
    for (const bool is_aligned : {true, false}) {
      for (const bool by_deadline : {true, false}) {
        SCOPED_TRACE(std::string(stores ? "store" : "load") + (is_aligned ? ", aligned" : ", staged") + (by_deadline ? ", overdue" : ""));
        const Folder folder;
        Script script;
        FakeHost host;
        StoreRig rig(config(folder.store()), &script, &host);
        const Bytes object = content(1, kPages);
        if (!stores) {
          ASSERT_EQ(rig.store(key(1), object).code, QUIRE_OK);
        }
        script.hold(all(stores ? Act::kWrite : Act::kRead));
        const Buffer buffer(kPages, is_aligned ? 0 : 8);
        buffer.fill(object);
        const int64_t deadline = by_deadline ? host.now() + 60 * kSecond : -1;
        const uint64_t ticket = stores ? rig.begin_store(key(1), buffer, deadline) : rig.begin_load(key(1), buffer, deadline);
        ASSERT_TRUE(script.wait_held(2));
        if (!by_deadline) {
          rig.cancel(ticket);
        } else {
          host.advance(61 * kSecond);
          EXPECT_EQ(rig.sizes({key(7)})[0], 0u) << "the store looks at its clock";
        }
        const quire_code code = by_deadline ? QUIRE_DEADLINE_EXCEEDED : QUIRE_CANCELLED;
        auto end = rig.end_of(ticket, is_aligned ? 150 * kMillisecond : 20 * kSecond);
        EXPECT_EQ(end.has_value(), !is_aligned);
        // Others go on meanwhile, and staging is not given out twice.
        EXPECT_EQ(rig.sizes({key(7)})[0], 0u);
        const Bytes before(kPages, 0x55);
        if (!is_aligned) buffer.fill(before);
        script.hold([](const Request&) { return false; });
        script.release();
        if (is_aligned) end = rig.end_of(ticket);
        ASSERT_TRUE(end.has_value());
        EXPECT_EQ(end->code, code);
        EXPECT_EQ(rig.sizes({key(1)})[0], stores ? 0 : kPages);
        rig.close();
        if (!is_aligned) {
          EXPECT_EQ(buffer.bytes(), before) << "after the end";
        }
        EXPECT_EQ(host.buffers, 0) << "staging is given back";
        EXPECT_EQ(files_below(folder.store()).size(), stores ? 0u : 1u);
      }
    }
  }
}

// Steps that use no memory of the ticket do not keep it; one that names the object ends with the truth.
TEST_F(FileStore, CancelsAtEachStepOfAStore) {
  for (const Act act : {Act::kOpen, Act::kAllocate, Act::kSync, Act::kLink}) {
    SCOPED_TRACE(static_cast<int>(act));
    const Folder folder;
    Script script;
    StoreRig rig(config(folder.store()), &script);
    script.hold(all(act));
    const Buffer buffer(kObject);
    buffer.fill(content(1, kObject));
    const uint64_t ticket = rig.begin_store(key(1), buffer);
    ASSERT_TRUE(script.wait_held(1));
    rig.cancel(ticket);
    auto end = rig.end_of(ticket, act == Act::kLink ? 100 * kMillisecond : 20 * kSecond);
    EXPECT_EQ(end.has_value(), act != Act::kLink);
    script.hold([](const Request&) { return false; });
    script.release();
    if (!end) end = rig.end_of(ticket);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->code, act == Act::kLink ? QUIRE_OK : QUIRE_CANCELLED);
    EXPECT_EQ(rig.sizes({key(1)})[0], act == Act::kLink ? kObject : 0);
    rig.close();
    EXPECT_EQ(files_below(folder.store()).size(), act == Act::kLink ? 1u : 0u);
  }
}

TEST_F(FileStore, CloseSaysThatItWaits) {
  const Folder folder;
  Script script;
  FakeHost host;
  StoreRig rig(config(folder.store()), &script, &host);
  script.hold(all(Act::kWrite));
  const Buffer buffer(kPages);
  rig.begin_store(key(1), buffer);
  ASSERT_TRUE(script.wait_held(2));
  std::thread closer([&] { rig.close(); });
  for (int i = 0; i < 1000 && host.said("close waits since") == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(host.said("close waits since"), 1u);
  script.hold([](const Request&) { return false; });
  script.release();
  closer.join();
  EXPECT_TRUE(files_below(folder.store()).empty());
}

// Staging is bounded, and a ticket waits for a buffer. Without a single one it fails.
TEST_F(FileStore, StagingIsBounded) {
  const Folder folder;
  FakeHost host;
  Config two = config(folder.store(), 256 * kMiB);
  two.depth = 2;
  {
    StoreRig rig(two, nullptr, &host);
    std::vector<Buffer> buffers;
    std::vector<uint64_t> tickets;
    for (uint64_t i = 0; i < 12; ++i) buffers.emplace_back(kObject * 2, 8);
    for (uint64_t i = 0; i < 12; ++i) tickets.push_back(rig.begin_store(key(i), buffers[i]));
    for (const uint64_t ticket : tickets) {
      const auto end = rig.end_of(ticket);
      EXPECT_TRUE(end && end->code == QUIRE_OK);
      EXPECT_LE(host.buffers, 2);
    }
    EXPECT_EQ(host.buffers, 2);
  }
  EXPECT_EQ(host.buffers, 0);
  host.most_buffers = 0;
  StoreRig rig(config(folder.store()), nullptr, &host);
  EXPECT_EQ(rig.store(key(100), content(1, kObject), 8).code, QUIRE_RESOURCE_EXHAUSTED);
  EXPECT_EQ(rig.store(key(100), content(1, kPages), 0).code, QUIRE_OK) << "whole pages need none";
}

// Of tickets that wait, those of higher priority start first.
TEST_F(FileStore, PriorityDecidesAmongThoseThatWait) {
  const Folder folder;
  Script script;
  Config narrow = config(folder.store());
  narrow.depth = 1;  // four tickets at work
  StoreRig rig(narrow, &script);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(rig.store(key(i), content(i, 4096)).code, QUIRE_OK);
  script.hold(all(Act::kOpen));
  std::vector<Buffer> buffers;
  for (uint64_t i = 0; i < 10; ++i) buffers.emplace_back(4096);
  std::vector<uint64_t> tickets;
  for (uint64_t i = 0; i < 4; ++i) tickets.push_back(rig.begin_load(key(i), buffers[i]));
  ASSERT_TRUE(script.wait_held(4));
  for (uint64_t i = 4; i < 10; ++i) tickets.push_back(rig.begin_load(key(i), buffers[i], -1, static_cast<int32_t>(i)));
  std::vector<std::string> order;
  std::mutex mutex;
  script.hold([&](const Request& request) {
    const std::lock_guard lock(mutex);
    if (request.act == Act::kOpen) order.push_back(request.path);
    return false;
  });
  rig.sizes({key(0)});  // all tickets have arrived
  script.release();
  for (const uint64_t ticket : tickets) EXPECT_TRUE(rig.end_of(ticket).has_value());
  std::vector<std::string> wanted;
  for (uint64_t i = 9; i >= 4; --i) {
    const Key name = key(i);
    wanted.push_back(object_path(name));
  }
  EXPECT_EQ(order, wanted);
}

// Tickets that end as they begin make room for others at once.
TEST_F(FileStore, ThousandsOfTicketsThatNeedNoKernel) {
  const Folder folder;
  StoreRig rig(config(folder.store()));
  ASSERT_EQ(rig.store(key(0), content(0, 4096)).code, QUIRE_OK);
  const Buffer buffer(4096);
  std::vector<uint64_t> sizes(4000);
  const auto begin = std::chrono::steady_clock::now();
  for (const quire_ticket_kind kind : {QUIRE_TICKET_STORE, QUIRE_TICKET_LOAD, QUIRE_TICKET_LOOKUP}) {
    std::vector<std::unique_ptr<Ticket>> tickets;
    for (uint64_t i = 0; i < 4000; ++i) {
      const bool moves = kind != QUIRE_TICKET_LOOKUP;
      tickets.push_back(rig.ticket(kind, {key(kind == QUIRE_TICKET_LOAD ? 1 : 0)}, moves ? kit::Runs{buffer.run()} : kit::Runs{}));
      if (!moves) tickets.back()->fields.sizes = &sizes[i];
    }
    const uint64_t first = tickets[0]->fields.ticket;
    rig.submit_all(std::move(tickets));
    for (uint64_t i = 0; i < 4000; ++i) {
      const auto end = rig.end_of(first + i);
      ASSERT_TRUE(end && end->code == (kind == QUIRE_TICKET_LOAD ? QUIRE_NOT_FOUND : QUIRE_OK));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "12,000 tickets";
}

// However many stores are at work, a load begins.
TEST_F(FileStore, StoresDoNotKeepLoadsFromBeginning) {
  const Folder folder;
  Script script;
  Config narrow = config(folder.store());
  narrow.depth = 1;
  StoreRig rig(narrow, &script);
  ASSERT_EQ(rig.store(key(0), content(0, 4096)).code, QUIRE_OK);
  script.hold(all(Act::kSync));
  const Buffer buffer(4096);
  std::vector<uint64_t> stores;
  for (uint64_t i = 1; i <= 20; ++i) stores.push_back(rig.begin_store(key(i), buffer));
  ASSERT_TRUE(script.wait_held(4));
  EXPECT_TRUE(rig.holds(key(0), content(0, 4096)));
  EXPECT_EQ(script.num_held(), 4u) << "of the stores, four are at work";
  script.hold([](const Request&) { return false; });
  script.release();
  for (const uint64_t ticket : stores) {
    const auto end = rig.end_of(ticket);
    EXPECT_TRUE(end && end->code == QUIRE_OK);
  }
}

// The ring may be missing: containers forbid it as a rule.
TEST_F(FileStore, WithoutARingNothingIsOpened) {
  const Folder folder;
  FakeHost host;
  Mailbox mailbox;
  ASSERT_TRUE(mailbox.open().ok());
  Worker worker(config(folder.store()), host.api(), &mailbox, [](uint32_t, std::string* why) {
    *why = "io_uring_setup: Operation not permitted";
    return nullptr;
  });
  const Outcome outcome = worker.open();
  EXPECT_EQ(outcome.code, QUIRE_UNAVAILABLE);
  EXPECT_NE(outcome.text.find("io_uring_setup"), std::string::npos);
}

}  // namespace
}  // namespace quire::file
