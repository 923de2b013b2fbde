#include "plugins/mooncake/answers.h"

#include <algorithm>
#include <iterator>

namespace quire::mooncake {
namespace {

struct Answer {
  int64_t number;
  const char* name;
  quire_code code;
  bool is_settled;  // it comes before bytes move, or after all have
};

constexpr Answer kAnswers[] = {
    {-1, "INTERNAL_ERROR", QUIRE_INTERNAL, false},
    {-10, "BUFFER_OVERFLOW", QUIRE_RESOURCE_EXHAUSTED, true},
    {-100, "SHARD_INDEX_OUT_OF_RANGE", QUIRE_INTERNAL, true},
    {-101, "SEGMENT_NOT_FOUND", QUIRE_UNAVAILABLE, true},
    {-102, "SEGMENT_ALREADY_EXISTS", QUIRE_FAILED_PRECONDITION, true},
    {-103, "CLIENT_NOT_FOUND", QUIRE_UNAVAILABLE, true},
    {kNoRoom, "NO_AVAILABLE_HANDLE", QUIRE_RESOURCE_EXHAUSTED, true},
    {-300, "INVALID_VERSION", QUIRE_FAILED_PRECONDITION, true},
    {-400, "INVALID_KEY", QUIRE_INVALID_ARGUMENT, true},
    {-500, "WRITE_FAIL", QUIRE_UNAVAILABLE, false},
    {kInvalidParameters, "INVALID_PARAMS", QUIRE_INVALID_ARGUMENT, true},
    {-601, "ILLEGAL_CLIENT", QUIRE_UNAVAILABLE, true},
    {-700, "INVALID_WRITE", QUIRE_FAILED_PRECONDITION, false},
    {-701, "INVALID_READ", QUIRE_FAILED_PRECONDITION, false},
    {-702, "INVALID_REPLICA", QUIRE_NOT_FOUND, true},
    {-703, "REPLICA_IS_NOT_READY", QUIRE_NOT_FOUND, true},
    {-704, "OBJECT_NOT_FOUND", QUIRE_NOT_FOUND, true},
    {kAlreadyExists, "OBJECT_ALREADY_EXISTS", QUIRE_ALREADY_EXISTS, true},
    {-706, "OBJECT_HAS_LEASE", QUIRE_FAILED_PRECONDITION, true},
    {kLeaseExpired, "LEASE_EXPIRED", QUIRE_NOT_FOUND, true},
    {-708, "OBJECT_HAS_REPLICATION_TASK", QUIRE_FAILED_PRECONDITION, true},
    {-709, "OBJECT_NO_REPLICATION_TASK", QUIRE_FAILED_PRECONDITION, true},
    {-710, "REPLICA_NOT_FOUND", QUIRE_NOT_FOUND, true},
    {-711, "REPLICA_ALREADY_EXISTS", QUIRE_FAILED_PRECONDITION, true},
    {-712, "REPLICA_IS_GONE", QUIRE_NOT_FOUND, true},
    {-713, "REPLICA_NOT_IN_LOCAL_MEMORY", QUIRE_NOT_FOUND, true},
    {-714, "OBJECT_REPLICA_BUSY", QUIRE_FAILED_PRECONDITION, true},
    {-800, "TRANSFER_FAIL", QUIRE_UNAVAILABLE, false},
    {-801, "CHECKSUM_MISMATCH", QUIRE_DATA_LOSS, false},
    // Of a read: before bytes move. Of a write: when all were sent, or before.
    {-900, "RPC_FAIL", QUIRE_UNAVAILABLE, true},
    {-901, "RPC_TIMEOUT", QUIRE_UNAVAILABLE, true},
    {-1000, "ETCD_OPERATION_ERROR", QUIRE_UNAVAILABLE, true},
    {-1001, "ETCD_KEY_NOT_EXIST", QUIRE_UNAVAILABLE, true},
    {-1002, "ETCD_TRANSACTION_FAIL", QUIRE_UNAVAILABLE, true},
    {-1003, "ETCD_CTX_CANCELLED", QUIRE_UNAVAILABLE, true},
    {-1004, "OPLOG_ENTRY_NOT_FOUND", QUIRE_UNAVAILABLE, true},
    {-1005, "K8S_LEASE_OPERATION_ERROR", QUIRE_UNAVAILABLE, true},
    {-1006, "K8S_LEASE_NOT_FOUND", QUIRE_UNAVAILABLE, true},
    {-1007, "INCOMPLETE_OPLOG_CATCH_UP", QUIRE_UNAVAILABLE, true},
    {-1010, "UNAVAILABLE_IN_CURRENT_STATUS", QUIRE_UNAVAILABLE, true},
    {-1011, "UNAVAILABLE_IN_CURRENT_MODE", QUIRE_UNAVAILABLE, true},
    {-1012, "NOT_SUPPORTED", QUIRE_UNIMPLEMENTED, true},
    {-1100, "FILE_NOT_FOUND", QUIRE_NOT_FOUND, false},
    {-1101, "FILE_OPEN_FAIL", QUIRE_UNAVAILABLE, false},
    {-1102, "FILE_READ_FAIL", QUIRE_UNAVAILABLE, false},
    {-1103, "FILE_WRITE_FAIL", QUIRE_UNAVAILABLE, false},
    {-1104, "FILE_INVALID_BUFFER", QUIRE_UNAVAILABLE, false},
    {-1105, "FILE_LOCK_FAIL", QUIRE_UNAVAILABLE, false},
    {-1106, "FILE_INVALID_HANDLE", QUIRE_UNAVAILABLE, false},
    {-1200, "BUCKET_NOT_FOUND", QUIRE_NOT_FOUND, false},
    {-1201, "BUCKET_ALREADY_EXISTS", QUIRE_FAILED_PRECONDITION, false},
    {-1202, "KEYS_EXCEED_BUCKET_LIMIT", QUIRE_RESOURCE_EXHAUSTED, false},
    {-1203, "KEYS_ULTRA_LIMIT", QUIRE_RESOURCE_EXHAUSTED, false},
    {-1300, "UNABLE_OFFLOAD", QUIRE_UNAVAILABLE, false},
    {-1301, "UNABLE_OFFLOADING", QUIRE_UNAVAILABLE, false},
    {-1400, "TASK_NOT_FOUND", QUIRE_FAILED_PRECONDITION, false},
    {-1401, "TASK_PENDING_LIMIT_EXCEEDED", QUIRE_RESOURCE_EXHAUSTED, false},
    {-1402, "JOB_NOT_FOUND", QUIRE_FAILED_PRECONDITION, false},
    {-1500, "SERIALIZE_UNSUPPORTED", QUIRE_UNIMPLEMENTED, false},
    {-1501, "SERIALIZE_FAIL", QUIRE_UNAVAILABLE, false},
    {-1502, "DESERIALIZE_FAIL", QUIRE_UNAVAILABLE, false},
    {-1503, "PERSISTENT_FAIL", QUIRE_UNAVAILABLE, false},
    {-1600, "DFS_NETWORK_TIMEOUT", QUIRE_UNAVAILABLE, false},
    {-1601, "DFS_SERVICE_UNAVAILABLE", QUIRE_UNAVAILABLE, false},
    {-1602, "DFS_QUOTA_EXCEEDED", QUIRE_RESOURCE_EXHAUSTED, false},
    {-1603, "DFS_PERMISSION_DENIED", QUIRE_PERMISSION_DENIED, false},
    {-1604, "DFS_STALE_HANDLE", QUIRE_UNAVAILABLE, false},
    {-1605, "DFS_PARTIAL_WRITE", QUIRE_UNAVAILABLE, false},
    {-1700, "TENANT_QUOTA_EXCEEDED", QUIRE_RESOURCE_EXHAUSTED, true},
    {-1701, "TENANT_NOT_REGISTERED", QUIRE_PERMISSION_DENIED, true},
    {-1702, "TENANT_NOT_EMPTY", QUIRE_FAILED_PRECONDITION, true},
};

const Answer* find(int64_t number) {
  const auto* const found = std::find_if(std::begin(kAnswers), std::end(kAnswers), [&](const Answer& a) { return a.number == number; });
  return found != std::end(kAnswers) ? found : nullptr;
}

}  // namespace

quire_code code_of(int64_t answer) {
  if (answer >= 0) return QUIRE_OK;
  const Answer* const known = find(answer);
  return known != nullptr ? known->code : QUIRE_INTERNAL;
}

std::string name_of(int64_t answer) {
  const Answer* const known = find(answer);
  return std::string(known != nullptr ? known->name : "an error that is not known") + " (" + std::to_string(answer) + ")";
}

bool is_settled(int64_t answer) {
  if (answer >= 0) return true;
  const Answer* const known = find(answer);
  return known != nullptr && known->is_settled;
}

}  // namespace quire::mooncake
