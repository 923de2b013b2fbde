#include "core/records/checksum_code.h"

#if XXH_VECTOR != XXH_AVX2
#error "to be compiled with -mavx2"
#endif

namespace quire {

const ChecksumCode kChecksumAvx2 = {"avx2", sum_bytes, update_state};

}  // namespace quire
