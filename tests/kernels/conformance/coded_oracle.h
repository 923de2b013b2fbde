// What rows of codes with scales mean, from the definitions of their formats: one bit and one element at a time, in fp64. Where a formula
// of a published kernel rounds to fp32 on its way, so does this one, by name.
#pragma once

#include <quire/ops.h>

#include <cstdint>
#include <vector>

namespace quire::oracle {

double coded_element(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim);
// Quantises a row and writes it.
void append_coded(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, const std::vector<double>& x);
// By how much an element of a row may differ from what it was: half the distance of neighbouring numbers there.
double coded_step(const quire_paged_kv& kv, uint32_t side, int64_t id, int64_t token, int64_t head, int64_t dim, double was);

}  // namespace quire::oracle
