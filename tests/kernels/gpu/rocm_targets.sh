#!/bin/bash
# Targets of the ROCm driver: one that the compiler knows is taken, one that it makes no code for is left out and named. What the sources make
# of a target is told by its macros, also of those that no compiler here has code for (that they compile is known of the others only).
#   rocm_targets.sh SOURCE CMAKE CXX
set -u
source=$1 cmake=$2 cxx=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*"; exit 1; }

# A compiler that knows one newer target and one of the base.
cat >"$folder/hipcc" <<'EOF'
#!/bin/sh
for argument in "$@"; do
  case $argument in --offload-arch=gfx90a | --offload-arch=gfx950) exit 0 ;; esac
done
echo "error: invalid target ID" >&2
exit 1
EOF
chmod +x "$folder/hipcc"
cat >"$folder/ask.cmake" <<'EOF'
cmake_minimum_required(VERSION 3.25)
include(${SOURCE}/drivers/rocm/targets.cmake)
quire_rocm_targets(known ${FOLDER}/hipcc ${FOLDER} ${WANTED})
string(JOIN " " names ${known})
message(STATUS "known: ${names}.")
EOF
ask() { "$cmake" -DSOURCE="$source" -DFOLDER="$folder" -DWANTED="$1" -P "$folder/ask.cmake" 2>&1; }
said=$(ask all) || fail "$said"
grep -qx -- '-- known: gfx90a gfx950\.' <<<"$said" || fail "all: $said"
grep -q 'makes no code for gfx940, gfx1030, gfx942, gfx1100, gfx1101, gfx1200, gfx1201, so' <<<"$said" || fail "all does not name what is left out: $said"
said=$(ask 'gfx950;gfx90a') || fail "$said"
grep -qx -- '-- known: gfx950 gfx90a\.' <<<"$said" || fail "named: $said"
grep -q 'makes no code for' <<<"$said" && fail "named ones that are known: $said"
said=$(ask gfx1201) || fail "$said"
grep -qx -- '-- known: \.' <<<"$said" || fail "unknown alone: $said"

# target, macros beside its own, waves, matrix instructions: 0, Cdna or Rdna
mkdir -p "$folder/hip"
cat >"$folder/hip/hip_runtime.h" <<'EOF'
#define __shared__
#define __device__
EOF
printf '#include "drivers/gpu/mma.h"\nTOLD matrix QUIRE_GPU_MATRIX\n' >"$folder/probe.cc"
tried=0
while read -r target family wave matrix; do
  text=$("$cxx" -E -P -w -std=c++20 -x c++ -I"$source" -I"$source/abi/include" -I"$folder" -D__HIPCC__=1 "-D__${target}__=1" "-D__${family}__=1" \
    "$folder/probe.cc") || fail "$target: the sources do not preprocess"
  flat=$(tr '\n' ' ' <<<"$text")
  grep -qE "inline constexpr uint32_t kWave = $wave;" <<<"$flat" || fail "$target: waves are not of $wave lanes"
  grep -qE "TOLD matrix $([ "$matrix" = 0 ] && echo 0 || echo 1)" <<<"$flat" || fail "$target: matrix instructions, $matrix is wanted"
  [ "$matrix" = 0 ] || grep -qE "using Matrix = $matrix;" <<<"$flat" || fail "$target: not the maps of $matrix"
  case $matrix in
    Cdna) grep -q __builtin_amdgcn_mfma_f32_16x16x16bf16_1k <<<"$flat" || fail "$target: no MFMA" ;;
    Rdna) grep -q __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32 <<<"$flat" || fail "$target: no WMMA" ;;
    0) grep -qE '__builtin_amdgcn_(mfma|wmma)' <<<"$flat" && fail "$target: matrix instructions that it has not" ;;
  esac
  tried=$((tried + 1))
done <<'EOF'
gfx908 GFX9 64 0
gfx90a GFX9 64 Cdna
gfx940 GFX9 64 Cdna
gfx942 GFX9 64 Cdna
gfx950 GFX9 64 Cdna
gfx1030 GFX10 32 0
gfx1100 GFX11 32 Rdna
gfx1101 GFX11 32 Rdna
gfx1200 GFX12 32 0
gfx1201 GFX12 32 0
EOF
[ $tried -eq 10 ] || fail "$tried targets were tried"
echo "$tried targets"
