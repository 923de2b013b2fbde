// request_file.h: requests as JSON, one object per line:
//   {"prompt": "text"}  or {"tokens": [1, 2]}  or {"user": "text"} for a turn of a conversation
//   and, if wanted: "id", "after" (the id of the request whose conversation goes on; several may
//   branch off one), "max_tokens", "samples", "temperature", "top_k", "top_p", "seed", "salt"
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "lm_session.h"

namespace lm {

struct FileRequest {
  std::string id;
  std::string after;
  std::string user;
  Request request;  // without prompt for turns, which chat.h writes
};

// Errors name the line.
std::vector<FileRequest> read_requests(std::istream& in, const Session& session);

}  // namespace lm
