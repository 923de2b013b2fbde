#include "core/records/checksum_code.h"

#if XXH_VECTOR != XXH_AVX512
#error "to be compiled with -mavx512f"
#endif

namespace quire {

const ChecksumCode kChecksumAvx512 = {"avx512", sum_bytes, update_state};

}  // namespace quire
