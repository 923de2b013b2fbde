#include "plugins/ucx/ucx_fabric.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace quire::ucx {
namespace {

constexpr unsigned kMessageId = 1;
constexpr unsigned kDataId = 2;
constexpr size_t kMostKnocks = 64;

std::string text_of(ucs_status_t status) { return ucs_status_string(status); }

struct FreeConfig {
  void operator()(ucp_config_t* of) const { ucp_config_release(of); }
};

uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

ucp_request_param_t host_list(uint64_t more) {
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE | more;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

}  // namespace

Outcome Fabric::open() {
  const Quiet quiet(&log_);
  if (Outcome outcome = open_context(); !outcome.ok()) return outcome;
  if (Outcome outcome = open_worker(); !outcome.ok()) return outcome;
  return config_.listen ? listen() : Outcome();
}

// What the environment says of these is not taken: the transports decide what is safe.
Outcome Fabric::open_context() {
  ucp_config_t* raw = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &raw); status != UCS_OK) {
    return {QUIRE_INTERNAL, 0, "UCX has no configuration: " + text_of(status)};
  }
  const std::unique_ptr<ucp_config_t, FreeConfig> own(raw);
  const std::string devices = config_.devices.empty() ? "all" : config_.devices;
  // An owner that starts again has its port at once; versions of UCX differ in the name of that.
  const std::pair<const char*, const char*> settings[] = {{"TLS", config_.transports.c_str()},
                                                          {"NET_DEVICES", devices.c_str()},
                                                          {"SOCKADDR_TLS_PRIORITY", "tcp"},
                                                          {"CM_REUSEADDR", "y"},
                                                          {"TCP_CM_REUSEADDR", "y"}};
  for (const auto& [name, value] : settings) {
    const auto status = ucp_config_modify(own.get(), name, value);
    const bool is_needed = std::strcmp(name, "TLS") == 0 || std::strcmp(name, "NET_DEVICES") == 0;
    if (status != UCS_OK && is_needed) return {QUIRE_INTERNAL, 0, std::string("UCX does not take ") + name + ": " + text_of(status)};
  }
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (const auto status = ucp_init(&params, own.get(), &ucx_); status != UCS_OK) {
    return {QUIRE_UNAVAILABLE, 0,
            "UCX has none of the transports " + config_.transports + " on the devices " + devices + ": " + text_of(status)};
  }
  return {};
}

Outcome Fabric::open_worker() {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (const auto status = ucp_worker_create(ucx_, &params, &worker_); status != UCS_OK) {
    return {QUIRE_UNAVAILABLE, 0, "UCX's worker could not be made: " + text_of(status)};
  }
  if (const auto status = ucp_worker_get_efd(worker_, &fd_); status != UCS_OK) {
    return {QUIRE_UNAVAILABLE, 0, "UCX has no descriptor to wait for: " + text_of(status)};
  }
  for (const unsigned id : {kMessageId, kDataId}) {
    ucp_am_handler_param_t entry = {};
    entry.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    entry.id = id;
    entry.cb = id == kMessageId ? on_message : on_data;
    entry.arg = this;
    if (const auto status = ucp_worker_set_am_recv_handler(worker_, &entry); status != UCS_OK) {
      return {QUIRE_INTERNAL, 0, "UCX takes no handler of messages: " + text_of(status)};
    }
  }
  return {};
}

Outcome Fabric::listen() {
  ucp_listener_params_t params = {};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&config_.listen->storage);
  params.sockaddr.addrlen = config_.listen->bytes;
  params.conn_handler.cb = on_knock;
  params.conn_handler.arg = this;
  if (const auto status = ucp_listener_create(worker_, &params, &listener_); status != UCS_OK) {
    return {QUIRE_UNAVAILABLE, 0, "config field listen: UCX cannot listen at " + config_.listen->text + ": " + text_of(status)};
  }
  ucp_listener_attr_t attributes = {};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  if (const auto status = ucp_listener_query(listener_, &attributes); status != UCS_OK) {
    return {QUIRE_INTERNAL, 0, "UCX does not say its port: " + text_of(status)};
  }
  port_ = port_of(attributes.sockaddr);
  return {};
}

Fabric::~Fabric() {
  const Quiet quiet(&log_);
  for (const Arrival& arrival : arrivals_) {
    if (arrival.waiting != nullptr) ucp_am_data_release(worker_, arrival.waiting);
  }
  if (listener_ != nullptr) {
    for (ucp_conn_request_h knock : knocks_) ucp_listener_reject(listener_, knock);
    ucp_listener_destroy(listener_);
  }
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (ucx_ != nullptr) ucp_cleanup(ucx_);
}

bool Fabric::progress(Events* events) {
  const unsigned happened = ucp_worker_progress(worker_);
  ends_.take(events);  // a peer has sent its messages after it took what ended
  // Handlers may cause further events; those of now are taken first.
  for (Arrival& arrival : std::exchange(arrivals_, {})) {
    if (arrival.link->is_closed) {
      drop(&arrival);
    } else {
      events->arrived(&arrival);
      drop(&arrival);
    }
  }
  ends_.take(events);
  if (any_lost_) take_lost(events);
  for (ucp_conn_request_h knock : std::exchange(knocks_, {})) events->knocked({knock, -1});
  if (any_closed_ && arrivals_.empty()) forget_closed();
  return happened != 0 || !ends_.empty();
}

void Fabric::take_lost(Events* events) {
  for (size_t i = 0; i < links_.size(); ++i) {
    FabricLink* const link = links_[i].get();
    if (link->is_lost && !link->is_closed) events->lost(link);
    if (link->is_lost) close(link);
  }
  any_lost_ = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->is_lost && !link->is_closed; });
}

void Fabric::forget_closed() {
  std::erase_if(links_, [](const auto& link) { return link->is_closed && link->closing == nullptr && link->in_flight == 0; });
  any_closed_ = std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->is_closed; });
}

bool Fabric::arm() { return ends_.empty() && arrivals_.empty() && ucp_worker_arm(worker_) == UCS_OK; }

// ---- Connections ----

FabricLink* Fabric::add(ucp_ep_params_t params) {
  auto link = std::make_unique<FabricLink>();
  link->medium = link->fabric = this;
  links_.reserve(links_.size() + 1);
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = link.get();
  if (ucp_ep_create(worker_, &params, &link->endpoint) != UCS_OK) return nullptr;
  FabricLink* const own = link.get();
  links_.push_back(std::move(link));
  by_endpoint_.emplace(own->endpoint, own);
  return own;
}

Link* Fabric::connect(const Address& address) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&address.storage);
  params.sockaddr.addrlen = address.bytes;
  return add(params);
}

Link* Fabric::accept(ucp_conn_request_h request) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  Link* const link = add(params);
  if (link != nullptr) link->is_served = true;
  return link;
}

void Fabric::reject(ucp_conn_request_h request) { ucp_listener_reject(listener_, request); }

void Fabric::close(Link* link) {
  if (link->is_closed) return;
  link->is_closed = true;
  any_closed_ = true;
  auto* const own = static_cast<FabricLink*>(link);
  by_endpoint_.erase(own->endpoint);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = on_closed;
  param.user_data = own;
  void* const request = ucp_ep_close_nbx(own->endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) own->closing = request;
}

void Fabric::on_closed(void* request, ucs_status_t /*status*/, void* link) {
  static_cast<FabricLink*>(link)->closing = nullptr;
  ucp_request_free(request);
}

void Fabric::on_error(void* link, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto* const own = static_cast<FabricLink*>(link);
  own->is_lost = true;
  own->why = ucs_status_string(status);
  own->fabric->any_lost_ = true;
}

void Fabric::on_knock(ucp_conn_request_h request, void* own) {
  auto* const self = static_cast<Fabric*>(own);
  try {
    if (self->knocks_.size() < kMostKnocks) return self->knocks_.push_back(request);
  } catch (const std::bad_alloc&) {  // as if there were too many
  }
  ucp_listener_reject(self->listener_, request);
}

// ---- Bytes ----

bool Fabric::send(Link* link, Bytes message) {
  if (link->unsent >= kMostUnsent) return false;
  auto transfer = std::make_unique<Transfer>();
  transfer->link = link;
  transfer->is_message = true;
  transfer->staged = std::move(message);
  ++link->unsent;
  post(std::move(transfer), host_list(UCP_OP_ATTR_FIELD_FLAGS), kMessageId);
  return true;
}

void Fabric::send(Link* link, std::unique_ptr<Transfer> transfer) {
  transfer->link = link;
  try {
    if (transfer->make_header) transfer->header = transfer->make_header();
  } catch (const std::bad_alloc&) {
    ++link->in_flight;
    link->why = "no memory for what it asks for";
    link->is_lost = any_lost_ = true;
    return ends_.add(transfer.release(), UCS_ERR_NO_MEMORY);
  }
  post(std::move(transfer), host_list(UCP_OP_ATTR_FIELD_FLAGS), kDataId);
}

void Fabric::post(std::unique_ptr<Transfer> transfer, const ucp_request_param_t& base, unsigned id) {
  Transfer* const own = transfer.release();
  ++own->link->in_flight;
  ucp_request_param_t param = base;
  param.cb.send = on_sent;
  param.user_data = own;
  param.flags = UCP_AM_SEND_FLAG_REPLY;
  const void* from = own->staged.data();
  size_t count = own->staged.size();
  if (own->places.empty()) {
    param.flags |= UCP_AM_SEND_FLAG_EAGER;
  } else {
    param.flags |= UCP_AM_SEND_FLAG_RNDV;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    from = own->places.data();
    count = own->places.size();
  }
  void* const request =
      ucp_am_send_nbx(static_cast<FabricLink*>(own->link)->endpoint, id, own->header.data(), own->header.size(), from, count, &param);
  if (!UCS_PTR_IS_PTR(request)) ends_.add(own, UCS_PTR_STATUS(request));
}

void Fabric::receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) {
  transfer->link = link;
  Transfer* const own = transfer.release();
  ++link->in_flight;
  ucp_request_param_t param = host_list(UCP_OP_ATTR_FIELD_DATATYPE);
  param.datatype = ucp_dt_make_iov();
  param.cb.recv_am = on_received;
  param.user_data = own;
  void* const request =
      ucp_am_recv_data_nbx(worker_, std::exchange(arrival->waiting, nullptr), own->places.data(), own->places.size(), &param);
  if (UCS_PTR_IS_PTR(request)) {
    own->request = request;
  } else {
    ends_.add(own, UCS_PTR_STATUS(request));
  }
}

void Fabric::drop(Arrival* arrival) {
  if (arrival->waiting != nullptr) ucp_am_data_release(worker_, std::exchange(arrival->waiting, nullptr));
}

void Fabric::on_sent(void* request, ucs_status_t status, void* transfer) {
  auto* const own = static_cast<Transfer*>(transfer);
  ucp_request_free(request);
  static_cast<FabricLink*>(own->link)->fabric->ends_.add(own, status);
}

void Fabric::on_received(void* request, ucs_status_t status, size_t length, void* transfer) {
  auto* const own = static_cast<Transfer*>(transfer);
  ucp_request_free(request);
  if (status == UCS_OK && length != own->bytes) status = UCS_ERR_MESSAGE_TRUNCATED;
  static_cast<FabricLink*>(own->link)->fabric->ends_.add(own, status);
}

FabricLink* Fabric::link_of(const ucp_am_recv_param_t* param) {
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) return nullptr;
  const auto found = by_endpoint_.find(param->reply_ep);
  return found != by_endpoint_.end() ? found->second : nullptr;
}

ucs_status_t Fabric::on_message(void* own, const void* /*header*/, size_t header_length, void* data, size_t length,
                                const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<Fabric*>(own);
  FabricLink* const link = self->link_of(param);
  if (link == nullptr) return UCS_OK;
  try {
    const bool is_right = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && header_length == 0 && length <= kMostMessage;
    if (is_right) {
      Arrival arrival;
      arrival.link = link;
      arrival.message.assign(static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + length);
      self->arrivals_.push_back(std::move(arrival));
      return UCS_OK;
    }
    link->why = "a message that cannot be";
    link->is_wrong = true;
  } catch (const std::bad_alloc&) {
    link->why = "no memory for a message";
  }
  link->is_lost = self->any_lost_ = true;
  return UCS_OK;
}

ucs_status_t Fabric::on_data(void* own, const void* header, size_t header_length, void* data, size_t length,
                             const ucp_am_recv_param_t* param) {
  auto* const self = static_cast<Fabric*>(own);
  FabricLink* const link = self->link_of(param);
  if (link == nullptr) return UCS_OK;
  const bool waits = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  try {
    if (header_length <= kMostMessage && (waits ? length <= kMostWanted : length <= kMostEager)) {
      Arrival arrival;
      arrival.link = link;
      arrival.is_data = true;
      arrival.length = length;
      arrival.message.assign(static_cast<const uint8_t*>(header), static_cast<const uint8_t*>(header) + header_length);
      if (!waits) arrival.bytes.assign(static_cast<const uint8_t*>(data), static_cast<const uint8_t*>(data) + length);
      if (waits) arrival.waiting = data;
      self->arrivals_.push_back(std::move(arrival));
      return waits ? UCS_INPROGRESS : UCS_OK;
    }
    link->why = "bytes that cannot be";
    link->is_wrong = true;
  } catch (const std::bad_alloc&) {
    link->why = "no memory for bytes";
  }
  link->is_lost = self->any_lost_ = true;
  return UCS_OK;
}

}  // namespace quire::ucx
