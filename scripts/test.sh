#!/bin/bash
# Builds quire and runs its tests. Needs nothing but a Debian 12; installs the packages that are missing.
#   scripts/test.sh                  one build and all tests: what a newcomer waits for
#   scripts/test.sh --stage NAME...  further stages, as many as are named; `--stage ci` is everything that CI runs:
#     tests      the preset release and every test in it (what a call without arguments does)
#     stamps     two minutes of tests/stamps with new seeds for every commit
#     format     clang-format
#     installed  what users of the package do, against scratch installations
#     tidy       clang-tidy over the units that changed and a tenth of the others
#     asan       AddressSanitizer, UBSan and LeakSanitizer, by the second compiler and with checks on
#     tsan       ThreadSanitizer, over the tests that start threads
#     mutants    five bugs that some test must catch, other ones with every commit
#     gpu        the modules of the GPU drivers, and what can be said of them without a GPU
#     aarch64    not in CI: unit and conformance tests of the cross build for 64-bit Arm, under QEMU (scripts/setup.sh --aarch64)
#     recorded   not in CI: transformers, from PyPI, makes the logits of tests/golden/data/lm again, and computes them over quire's caches
#   scripts/test.sh --full           all stages and what is too long for CI: random tests that go on longer, repeated with new
#                                    seeds, two hours of stamps, every test in every preset, the second compiler without sanitizers, clang-tidy over
#                                    every unit, libFuzzer, two builds that must be equal, recorded logits, all GPU targets, valgrind
#   scripts/test.sh --mutants        all mutants
# Prints how far a stage is, then each stage's share of the time, then as its last line "N passed, M failed"; exits with 0
# when M is 0. N counts the entries of every ctest run and the checks of the tree. Logs: build/logs/<stage>.log.
set -u
cd "$(dirname "$0")/.." || exit 1

ci_stages="format tests installed stamps tidy asan tsan mutants gpu"
other_stages="aarch64 recorded"
full=0
stages=""
usage() { echo "test: $1 (known: --stage NAME, --full, --mutants; stages: $ci_stages ci $other_stages)" >&2; exit 2; }
while [ $# -gt 0 ]; do
  case "$1" in
    --full) full=1; stages="$ci_stages" ;;
    --mutants) stages="$stages all_mutants" ;;
    --stage)
      [ $# -gt 1 ] || usage "--stage needs a name"
      shift
      case " $ci_stages ci $other_stages " in
        *" $1 "*) [ "$1" = ci ] && stages="$stages $ci_stages" || stages="$stages $1" ;;
        *) usage "unknown stage '$1'" ;;
      esac ;;
    *) usage "unknown argument '$1'" ;;
  esac
  shift
done
[ -n "$stages" ] || stages=tests

jobs=$(nproc)
logs=build/logs
passed=0
failed=0
names=()
seconds=()
results=()
skips=()
failures=()  # what is repeated at the end, where it is found
mkdir -p "$logs"

record() {  # record STAGE SECONDS RESULT
  names+=("$1"); seconds+=("$2"); results+=("$3")
}

skip() {  # skip STAGE SENTENCE: says what was not done and why
  echo "== $1: skipped: $2"
  skips+=("$1: $2")
  record "$1" 0 skipped
}

watcher=""
stop_watcher() { [ -z "$watcher" ] || { kill "$watcher" 2>/dev/null; wait "$watcher" 2>/dev/null; watcher=""; }; }
trap stop_watcher EXIT
trap 'exit 130' INT TERM

progress() {  # progress LOG: how far ninja or ctest is, in place on a terminal, otherwise a line now and then
  local line shown="" every=30 before="   " after="\n"
  [ -t 1 ] && { every=1; before="\r\033[K   "; after=""; }
  while sleep "$every" >&-; do
    line=$(tail -c 20000 "$1" | grep -aoE '^\[[0-9]+/[0-9]+\]|^ *[0-9]+/[0-9]+ Test' | tail -n 1 | tr -d '[] ' | sed 's/Test/ tests/')
    if [ -n "$line" ] && [ "$line" != "$shown" ]; then
      printf "$before%s, %s s$after" "$line" "$SECONDS"
      shown=$line
    fi
  done
}

run() {  # run STAGE COMMAND...: 0 when the command succeeds; its output goes to the stage's log
  local stage=$1 start=$EPOCHREALTIME code
  shift
  echo "== $stage"
  : >"$logs/$stage.log"
  progress "$logs/$stage.log" &
  watcher=$!
  "$@" >"$logs/$stage.log" 2>&1
  code=$?
  stop_watcher
  [ -t 1 ] && printf '\r\033[K'
  stage_seconds=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }')
  if [ $code -ne 0 ]; then
    echo "   FAILED (exit $code); the end of $logs/$stage.log:"
    tail -n 60 "$logs/$stage.log"
    failures+=("$(echo "$stage:"; grep -aE -A 6 ': Failure$|\*\*\*(Failed|Timeout|Exception)|ERROR: |error: |^MISMATCH|^again: ' "$logs/$stage.log" | head -n 40)")
  fi
  return $code
}

check() {  # check STAGE COMMAND...: a stage that is one check
  if run "$@"; then
    passed=$((passed + 1)); record "$1" "$stage_seconds" passed
  else
    failed=$((failed + 1)); record "$1" "$stage_seconds" FAILED
  fi
}

built=" "
build() {  # build PRESET [cmake arguments]: once; a stage that is no test, unless it fails
  case "$built" in *" $1 "*) return 0 ;; esac
  if run "build-$1" build_preset "$@"; then
    record "build-$1" "$stage_seconds" built
    built="$built$1 "
  else
    failed=$((failed + 1)); record "build-$1" "$stage_seconds" FAILED
    return 1
  fi
}

memcheck() {  # the CPU driver's kernels for AVX2 (valgrind knows no AVX-512) through a part of the kit; 77: this machine has no AVX2
  valgrind -q --error-exitcode=9 build/release/bin/quire_conformance --driver=cpu --flags=2 \
    --gtest_filter='Bytes.*:Append.SidesApart:Attention.TreeMask:Properties.AppendThenAttend:GatedDelta.OddDimensions:*.StatesOnTheWay'
  local code=$?
  [ $code -eq 0 ] || [ $code -eq 77 ]
}

build_preset() { cmake --preset "$@" && cmake --build --preset "$1" -j "$jobs"; }

tests() {  # tests PRESET [ctest arguments]: counts every entry of ctest. Many tests wait for a disk or a deadline, so there are more than cores
  local preset=$1 stage="${stage_name:-test-$1}" summary bad total left_out
  run "$stage" ctest --preset "$preset" -j $((jobs + (jobs + 1) / 2)) "${@:2}"
  summary=$(grep -E '[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$logs/$stage.log" | tail -n 1)
  bad=$(sed -E 's/.*passed, ([0-9]+) tests? failed.*/\1/' <<<"$summary")
  total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$summary")
  if [ -z "$summary" ]; then
    bad=1; total=1
    echo "   FAILED: ctest ran no test"
  fi
  left_out=$(grep -cE '\*\*\*Skipped' "$logs/$stage.log")  # what was not run failed
  passed=$((passed + total - bad - left_out))
  failed=$((failed + bad))
  record "$stage" "$stage_seconds" "$((total - bad - left_out)) passed, $bad failed, $left_out skipped"
  skipped_cases "$preset"
}

skipped_cases() {  # every skipped test, and every skipped case of a test, says why
  local log="build/$1/Testing/Temporary/LastTest.log" reason
  [ -f "$log" ] || return 0
  while read -r reason; do
    skips+=("$reason")
  done < <(grep -E -A 1 ': Skipped$' "$log" | grep -vE ': Skipped$|^--$';
    grep -E '^skipped: |: nothing is checked$' "$log" | sed 's/^skipped: //')
}

sources() {  # what cargo builds below bindings is nobody's source
  find abi core drivers plugins tools bindings samples tests \( -name target -o -name vendor \) -prune -o \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cc' \) -print | sort
}

format_check() { sources | xargs clang-format --dry-run -Werror; }

changed() {  # what the last ten commits and the tree changed; of a header, the first unit that includes it as well
  local file
  { git diff --name-only HEAD; git log -n 10 --format= --name-only; } 2>/dev/null | sort -u | while read -r file; do
    echo "$file"
    case "$file" in
      *.h|*.hpp)
        grep -rlE "#include [\"<](.*$(basename "$(dirname "$file")")/)?$(basename "$file")[\">]" --include='*.cc' --include='*.c' \
          abi core drivers plugins tools bindings samples | sort | head -n 1 ;;
    esac
  done | sed "s|^|$PWD/|" | sort -u
}

# clang-tidy over the units of the preset clang, which need not be built for it. In CI those that changed and a tenth of the others, for the next commit another
# tenth: a unit takes 10 s, and one that did not change has been checked as it is.
tidy_check() {
  local units number total
  cmake --preset clang >"$logs/configure-clang.log" 2>&1 || return
  units=$(sed -nE 's/^ *"file": "(.*)",?$/\1/p' build/clang/compile_commands.json | grep -v "^$PWD/build/" | sort -u)
  [ "$full" = 1 ] || units=$(grep -v "^$PWD/tests/" <<<"$units")
  [ -n "$units" ] || { echo "no units to check"; return 1; }
  if [ "$full" != 1 ]; then
    number=${QUIRE_TIDY_FROM:-$(git rev-list --count HEAD 2>/dev/null || date +%j)}
    total=$(wc -l <<<"$units")
    units=$({ grep -xFf <(changed) <<<"$units"; awk -v r=$((number % 10)) 'NR % 10 == r' <<<"$units"; } | sort -u)
    skips+=("clang-tidy: $((total - $(wc -l <<<"$units"))) of $total units did not change and are checked with other commits, or by --full")
  fi
  echo "$units"
  xargs -P "$jobs" -n 4 clang-tidy -p build/clang --quiet <<<"$units" 2> >(grep -vE '^[0-9]+ warnings? generated' >&2)
}

# What users of the package do, against scratch installations of one build alone: cargo test, clippy and rustfmt, go vet and go test -race,
# the C++ tests, every sample in C, C++, Rust and Go on the drivers cpu and null, the code of the guides, a driver built outside of the tree.
installed() { stage_name=test-installed tests release -L installed; }

gpu() {  # the drivers' modules and what can be said of them without a GPU, for one target each unless --full; their kernels run in every
  # preset, emulated
  local preset=gpu-ci target=quire_gpu_modules label=gpu_module
  [ "$full" != 1 ] || preset=gpu target=quire_gpu_tests label=gpu
  if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    skip gpu-cuda "no nvcc is installed, so the CUDA driver is not built here"
  fi
  command -v hipcc >/dev/null || skip gpu-rocm "no hipcc is installed, so the ROCm driver is not built here"
  if run build-gpu build_gpu $preset $target; then
    record build-gpu "$stage_seconds" built
    tests $preset -L $label
  else
    failed=$((failed + 1)); record build-gpu "$stage_seconds" FAILED
  fi
}

build_gpu() { cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs" --target "$2"; }

mutants() {  # mutants ARGUMENT...: bugs that some test must catch; what was caught by which test is printed
  check mutants tests/mutants/run.sh build/release "$@"
  grep -E ' s  |caught' "$logs/mutants.log"
}

stamps() {  # caches of all kinds of models until the time is up; prints what was done
  local seed=${QUIRE_SEED:-$(($(git rev-list --count HEAD 2>/dev/null || date +%j) * 1000000))} limit=120
  [ "$full" != 1 ] || { seed=${QUIRE_SEED:-$(date +%s%N)}; limit=7200; }
  check stamps build/release/tests/quire_stamps --seed="$seed" --seconds="$limit"
  grep -aE '^MISMATCH|^again: |^seed |^skipped: | operations, ' "$logs/stamps.log"
}

table() {
  local total i
  total=$(printf '%s\n' "${seconds[@]}" | awk '{ s += $1 } END { printf "%.1f", s }')
  echo
  printf '%-16s %9s %7s  %s\n' stage seconds share result
  for i in "${!names[@]}"; do
    printf '%-16s %9.1f %6.1f%%  %s\n' "${names[$i]}" "${seconds[$i]}" \
      "$(awk -v s="${seconds[$i]}" -v t="$total" 'BEGIN { print (t > 0) ? 100 * s / t : 0 }')" "${results[$i]}"
  done
  printf '%-16s %9.1f %6.1f%%\n' total "$total" 100
  if [ ${#skips[@]} -gt 0 ]; then
    echo
    printf '%s\n' "${skips[@]}" | sort | uniq -c | sed -E 's/^ *([0-9]+) (.*)/skipped: \2 (\1 times)/'
  fi
}

# What starts no thread of its own is not even built where threads are watched.
alone='^conformance_cpu_(portable|avx2)$'
one_thread=OFF
repeat=()
[ "$full" = 1 ] && { repeat=(--repeat until-fail:3); alone='^$'; one_thread=ON; export QUIRE_FULL=1; }

# GPU kernels emulated under AddressSanitizer take minutes: a quarter of them runs with a commit, another quarter with the next one; half of
# them where the last ten commits changed the GPU drivers or their tests. Prints what is left out, as a regular expression.
other_emulations() {
  local kernels='drivers/(gpu|cuda|rocm)/|tests/kernels/(conformance|emulation)/' parts=4
  [ "$full" != 1 ] || { echo '^$'; return; }
  ! changed | grep -qE "^$PWD/($kernels)" || parts=2
  ctest --preset asan -N | sed -nE 's/^ *Test +#[0-9]+: (emulation_\w+)$/\1/p' |
    awk -v p=$parts -v n="$(git rev-list --count HEAD 2>/dev/null || date +%j)" 'NR % p != n % p' | paste -sd '|' | sed 's/.*/^(&)$/'
}

# From nothing in fewer and larger units; a build that is there stays as it is, so that a change costs little.
build_release() {
  local unity=()
  [ -f build/release/CMakeCache.txt ] || unity=(-DQUIRE_UNITY=ON)
  build release "${unity[@]}"
}

stage_tests() { build_release && tests release -LE installed "${repeat[@]}"; }
stage_format() { check format format_check; }
stage_stamps() { build_release && stamps; }
stage_installed() { build_release && installed; }
stage_tidy() { check clang-tidy tidy_check; }
stage_asan() {
  local others
  build asan || return
  others=$(other_emulations)
  [ "$others" = '^$' ] || skips+=("AddressSanitizer: GPU kernels whose emulation runs with other commits: $others")
  tests asan -E "$others" "${repeat[@]}"
}
stage_tsan() {
  build tsan -DQUIRE_ONE_THREAD=$one_thread && tests tsan -E "$alone" "${repeat[@]}"
}
stage_mutants() { mutants --rotate 5; }
stage_all_mutants() { cmake --preset release >"$logs/build-release.log" 2>&1 && mutants --all; }
stage_gpu() { gpu; }

stage_aarch64() {
  local package
  for package in g++-aarch64-linux-gnu qemu-user libspdlog-dev:arm64 libxxhash-dev:arm64 libssl-dev:arm64 libffi-dev:arm64 libgtest-dev:arm64; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
      { skip aarch64 "the package $package is not installed; scripts/setup.sh --aarch64 does it"; return; }
  done
  local unity=()
  [ -f build/aarch64/CMakeCache.txt ] || unity=(-DQUIRE_UNITY=ON)
  build aarch64 "${unity[@]}" && tests aarch64
}

stage_recorded() {
  local python=${QUIRE_LM_PYTHON:-build/lm-python/bin/python3} imports='import cffi, numpy, safetensors, torch, transformers'
  if [ -z "${QUIRE_LM_PYTHON:-}" ] && ! "$python" -c "$imports" 2>/dev/null; then
    echo "== packages from PyPI"
    { python3 -m venv build/lm-python && build/lm-python/bin/pip install -q -r tests/lm/requirements.txt; } >"$logs/recorded-packages.log" 2>&1
  fi
  if "$python" -c "$imports" 2>/dev/null; then
    check recorded "$python" tests/lm/record.py --check tests/golden/data/lm --box samples/lm/box/model --parts
    build_release && check parity env QUIRE_LIBRARY="$PWD/build/release/lib/libquire.so.0" PYTHONPATH=bindings/python "$python" tests/lm/parity.py
  else
    skip recorded "$python has no torch, transformers, safetensors and cffi, or PyPI cannot be reached"
  fi
}

longer() {  # what only --full does
  build dev && tests dev "${repeat[@]}"
  build clang && tests clang "${repeat[@]}"
  build fuzz && tests fuzz
  stage_aarch64
  check twice tests/install/twice.sh .
  stage_recorded
  if command -v valgrind >/dev/null; then check valgrind memcheck; else skip valgrind "valgrind is not installed"; fi
}

main() {
  local stage extras=--extras
  [ "$stages" = tests ] && extras=""  # the tools of other languages are for other stages
  # shellcheck disable=SC2086
  scripts/setup.sh $extras || exit $?
  for stage in $stages; do "stage_$stage"; done
  [ "$full" = 1 ] && longer
  table
  [ ${#failures[@]} -eq 0 ] || printf '\n== failed: %s\n' "${failures[@]}"
  echo
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

main
