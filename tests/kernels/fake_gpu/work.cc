// Streams and events. Queued work runs when somebody waits for it, a piece at each query, and never sooner.
#include <cstring>

#include "tests/kernels/fake_gpu/machine.h"

namespace quire::fake {
namespace {

void finish(Stream* stream, uint64_t ticket);

// One piece of work.
void advance(Stream* stream) {
  Machine& m = machine();
  const Item item = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (m.lost == 0 && item.other != nullptr) finish(item.other.get(), item.ticket);
  int code = 0;
  if (m.lost == 0 && item.run != nullptr) {
    if (fails("work", &code)) {
      m.lost = code;
    } else {
      const Open open;
      item.run();
    }
  }
  ++stream->done;
}

void finish(Stream* stream, uint64_t ticket) {
  while (stream->done < ticket) advance(stream);
}

// The legacy default stream is nobody's to make or to end.
bool is_default(const void* handle) { return reinterpret_cast<uintptr_t>(handle) == 1; }

Stream* stream_of(int device, void* handle) {
  if (is_default(handle) && machine().streams.count(handle) == 0) {
    machine().streams[handle] = std::make_shared<Stream>();
    machine().streams[handle]->device = device;
  }
  const auto found = machine().streams.find(handle);
  return found == machine().streams.end() || found->second->device != device ? nullptr : found->second.get();
}

int poll(Stream* stream, uint64_t ticket) {
  if (stream->done < ticket && !machine().held) advance(stream);
  if (machine().lost != 0) return machine().lost;
  return stream->done < ticket ? kNotReady : kOk;
}

}  // namespace

void finish_all() {
  for (const auto& [handle, stream] : machine().streams) finish(stream.get(), stream->queued);
}

Event* event_of(int device, void* handle) {
  const auto found = machine().events.find(handle);
  return found == machine().events.end() || found->second->device != device ? nullptr : found->second.get();
}

int queue(int device, void* handle, Item item) {
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->records) {
    stream->recorded.push_back(std::move(item));
    return kOk;
  }
  stream->queue.push_back(std::move(item));
  ++stream->queued;
  return kOk;
}

bool spoils() {
  if (machine().records == 0) return false;
  for (const auto& [handle, stream] : machine().streams) stream->spoilt = stream->spoilt || stream->records;
  return true;
}

int create_stream(int device, void** stream) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  auto made = std::make_shared<Stream>();
  made->device = device;
  *stream = made.get();
  m.streams[made.get()] = made;
  ++m.alive;
  return kOk;
}

int destroy_stream(int device, void* handle) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Stream* stream = is_default(handle) ? nullptr : stream_of(device, handle);
  if (stream == nullptr) return kInvalidHandle;
  finish(stream, stream->queued);
  m.streams.erase(handle);
  --m.alive;
  return kOk;
}

int query_stream(int device, void* handle) {
  const Lock lock(machine().mutex);
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->records) return spoils(), kRecording;
  return poll(stream, stream->queued);
}

int synchronize_stream(int device, void* handle) {
  const Lock lock(machine().mutex);
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->records) return spoils(), kRecording;
  finish(stream, stream->queued);
  return machine().lost;
}

int is_recording(int device, void* handle, bool* yes) {
  const Lock lock(machine().mutex);
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr) return kInvalidHandle;
  *yes = stream->records;
  return kOk;
}

int create_event(int device, void** event) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  auto made = std::make_unique<Event>();
  made->device = device;
  *event = made.get();
  m.events[made.get()] = std::move(made);
  ++m.alive;
  return kOk;
}

int destroy_event(int device, void* event) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (event_of(device, event) == nullptr) return kInvalidHandle;
  m.events.erase(event);
  --m.alive;
  return kOk;
}

int record_event(int device, void* event, void* handle) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Event* e = event_of(device, event);
  Stream* stream = stream_of(device, handle);
  if (e == nullptr || stream == nullptr) return kInvalidHandle;
  if (stream->records) return kOk;
  e->stream = m.streams[handle];
  e->ticket = stream->queued;
  return kOk;
}

int wait_event(int device, void* event, void* handle) {
  const Lock lock(machine().mutex);
  const auto found = machine().events.find(event);  // of any device
  if (found == machine().events.end() || stream_of(device, handle) == nullptr) return kInvalidHandle;
  const Event& e = *found->second;
  if (e.stream == nullptr) return kOk;  // never recorded
  return queue(device, handle, {nullptr, e.stream, e.ticket});
}

int query_event(int device, void* event) {
  const Lock lock(machine().mutex);
  Event* e = event_of(device, event);
  if (e == nullptr) return kInvalidHandle;
  return e->stream == nullptr ? machine().lost : poll(e->stream.get(), e->ticket);
}

int synchronize_event(int device, void* event) {
  const Lock lock(machine().mutex);
  Event* e = event_of(device, event);
  if (e == nullptr) return kInvalidHandle;
  if (spoils()) return kRecording;
  if (e->stream != nullptr) finish(e->stream.get(), e->ticket);
  return machine().lost;
}

int queue_copy(int device, void* stream, void* to, const void* from, size_t bytes) {
  const Lock lock(machine().mutex);
  if (!is_whole(to, bytes) || !is_whole(from, bytes)) return kInvalid;
  return queue(device, stream, {[=] { memcpy(to, from, bytes); }, nullptr, 0});
}

int queue_fill(int device, void* stream, void* to, uint8_t value, size_t bytes) {
  const Lock lock(machine().mutex);
  if (region_of(to) == nullptr || !is_whole(to, bytes)) return kInvalid;
  return queue(device, stream, {[=] { memset(to, value, bytes); }, nullptr, 0});
}

int read_now(void* to, const void* from, size_t bytes) {
  const Lock lock(machine().mutex);
  if (region_of(from) == nullptr || !is_whole(from, bytes)) return kInvalid;
  const Open open;
  memcpy(to, from, bytes);
  return kOk;
}

int begin_recording(int device, void* handle) {
  const Lock lock(machine().mutex);
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr || stream->records) return kInvalidHandle;
  stream->recorded.clear();
  stream->records = true;
  stream->spoilt = false;
  ++machine().records;
  return kOk;
}

int end_recording(int device, void* handle, void** graph) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  Stream* stream = stream_of(device, handle);
  if (stream == nullptr || !stream->records) return kInvalidHandle;
  stream->records = false;
  --m.records;
  if (stream->spoilt) return kRecording + 1;
  auto made = std::make_unique<Graph>(Graph{stream->recorded});
  *graph = made.get();
  m.graphs[made.get()] = std::move(made);
  ++m.alive;
  return kOk;
}

int instantiate(void* graph, void** out) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.graphs.find(graph);
  if (found == m.graphs.end()) return kInvalidHandle;
  auto made = std::make_unique<Graph>(*found->second);
  *out = made.get();
  m.graphs[made.get()] = std::move(made);
  ++m.alive;
  return kOk;
}

int destroy_graph(void* graph) {
  const Lock lock(machine().mutex);
  if (machine().graphs.erase(graph) == 0) return kInvalidHandle;
  --machine().alive;
  return kOk;
}

int launch_graph(int device, void* graph, void* handle) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.graphs.find(graph);
  if (found == m.graphs.end() || stream_of(device, handle) == nullptr) return kInvalidHandle;
  for (const Item& item : found->second->items) queue(device, handle, item);
  return kOk;
}

}  // namespace quire::fake

using quire::fake::machine;

extern "C" {

void quire_fake_record(void* stream) { quire::fake::begin_recording(machine().streams.at(stream)->device, stream); }

int quire_fake_end_record(void* stream) {
  const quire::fake::Lock lock(machine().mutex);
  quire::fake::Stream& s = *machine().streams.at(stream);
  s.records = false;
  --machine().records;
  return s.spoilt ? 0 : 1;
}

void quire_fake_replay(void* stream) {
  const quire::fake::Lock lock(machine().mutex);
  quire::fake::Stream& s = *machine().streams.at(stream);
  for (const auto& item : s.recorded) s.queue.push_back(item);
  s.queued += s.recorded.size();
}

}  // extern "C"
