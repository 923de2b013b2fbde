#!/bin/bash
# fake_defects.sh KIT: the kit of connectors must fail with each defect of the fake store (fake_kit.cc). It must pass without one.
set -u
kit=$1
failed=0
run() {  # run DEFECT TESTS [SECONDS]
  QUIRE_FAKE_DEFECT=$1 timeout "${3:-120}" "$kit" --gtest_filter="*$2*" >/dev/null 2>&1
}
expect() {  # expect DEFECT TESTS...: each of these tests finds it
  local defect=$1 test
  shift
  for test in "$@"; do
    run none "$test" || { echo "FAILED: $test fails without a defect"; failed=1; }
    if run "$defect" "$test"; then echo "FAILED: $test does not see '$defect'"; failed=1; else echo "$test sees '$defect'"; fi
  done
}
expect flips StoresAndLoadsRandomRuns TenThousandOperations LoadsOfOneObjectMayOverlap
expect short-loads StoresAndLoadsRandomRuns
expect foreign TenThousandOperations
expect loses-stores KeepsObjectsOfEverySize TenThousandOperations OpenedAgain
expect cuts-stores KeepsObjectsOfEverySize ManyThreadsSubmit
expect fails RemovedObjects KeysAreBytes
# It waits for a minute, which is not waited for.
run none LoadsOfOneObjectMayOverlap || { echo "FAILED: LoadsOfOneObjectMayOverlap fails without a defect"; failed=1; }
if run never-ends LoadsOfOneObjectMayOverlap 10; then echo "FAILED: a ticket that never ends is not seen"; failed=1; else echo "it waits for every ticket"; fi
exit $failed
