#include "plugins/ucx/ucx_near_name.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {
namespace {

uint16_t port_in(const Address& address) {
  if (address.storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
}

std::string_view host_in(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr), sizeof(in6_addr)};
  }
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr), sizeof(in_addr)};
}

bool is_of_this_host(const Address& address) {
  const auto* const own = reinterpret_cast<const sockaddr*>(&address.storage);
  if (own->sa_family == AF_INET && host_in(own)[0] == 127) return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool is_own = false;
  for (const ifaddrs* at = all; at != nullptr && !is_own; at = at->ifa_next) {
    is_own = at->ifa_addr != nullptr && at->ifa_addr->sa_family == own->sa_family && host_in(at->ifa_addr) == host_in(own);
  }
  freeifaddrs(all);
  return is_own;
}

}  // namespace

std::string near_name(const Address& address, uint16_t port) {
  char host[INET6_ADDRSTRLEN] = "";
  const auto* const own = reinterpret_cast<const sockaddr*>(&address.storage);
  inet_ntop(own->sa_family, host_in(own).data(), host, sizeof host);
  std::string name(1, '\0');
  return name + "quire/ucx/" + std::to_string(kVersion) + "/" + host + "/" + std::to_string(port);
}

// Addresses move between hosts: a process that has kept one is not asked.
std::vector<std::string> near_names(const Address& address) {
  if (!is_of_this_host(address)) return {};
  const uint16_t port = port_in(address);
  return {near_name(address, port), near_name(*parse_address(address.storage.ss_family == AF_INET6 ? "[::]:1" : "0.0.0.0:1"), port)};
}

bool is_same_user(int socket) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

}  // namespace quire::ucx
