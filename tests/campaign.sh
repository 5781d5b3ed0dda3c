#!/usr/bin/env bash
# The campaigns that take too long for each change. Arguments name those to run; without any, all are run:
#
#   seeds     20,000 seeds of the simulation, over the sources without seeded bugs
#   bugs      every seeded bug, in up to 5,000 runs each
#   model     every instance of the model
#   servers   the Redis tests on Redis 6.2, Redis 8.2 and Valkey 9.1
#   faults    the fault table on the same
#   failover  25 runs of the failover in all kinds
#   cluster   16 faults of a cluster
#   foreign   other systems' writers for a minute each
#   outage    an outage of half a minute each
#   cases     the properties, with 20 other seeds
#   fuzz      the fuzzers for ten minutes each
#   order     by Miri, whether a copy's bits are seen before its position; needs a nightly toolchain with `miri` and `rust-src`
set -euo pipefail
cd "$(dirname "$0")/.."

# The sources with the seeded bugs' questions in them, and without.
with_bugs=(--profile tests --workspace --all-features --test simulation)
clean=(--profile campaign -p bloom-guard-simulation --test simulation)

seeds() {
  # Both go the same way.
  local one other
  one=$(SIM_SEEDS=500 cargo test "${with_bugs[@]}" | tee /dev/stderr | grep -o 'trace [0-9a-f]*')
  other=$(SIM_CLEAN=1 SIM_SEEDS=500 cargo test "${clean[@]}" | tee /dev/stderr | grep -o 'trace [0-9a-f]*')
  test "$one" = "$other"
  SIM_CLEAN=1 SIM_SEEDS="${SIM_SEEDS:-20000}" cargo test "${clean[@]}"
}
bugs() { SIM_BUG="" SIM_TRIES="${SIM_TRIES:-5000}" cargo test "${with_bugs[@]}"; }
model() { MODEL=all cargo test --profile tests -p bloom-guard-model --test model; }
servers() { bash tests/other_servers.sh; }
faults() { bash tests/other_servers.sh faults; }
failover() { FAILOVER_RUNS="${FAILOVER_RUNS:-25}" bash tests/run.sh --test failover -- --nocapture; }
cluster() { CLUSTER_RUNS="${CLUSTER_RUNS:-16}" bash tests/run.sh --test cluster -- --nocapture; }
foreign() { FOREIGN_SECONDS="${FOREIGN_SECONDS:-60}" bash tests/run.sh --test foreign -- --nocapture; }
outage() { OUTAGE_SECONDS="${OUTAGE_SECONDS:-30}" bash tests/run.sh --test outage -- --nocapture; }
cases() {
  local first=${CASES_FROM:-$RANDOM} turn
  for turn in {0..19}; do
    PROPTEST_RNG_SEED=$((first + turn)) bash tests/run.sh --test edge --test format
  done
}
fuzz() { FUZZ_SECONDS="${FUZZ_SECONDS:-600}" bash tests/fuzz.sh; }
order() { MIRIFLAGS="-Zmiri-many-seeds=0..4" cargo +nightly miri test --lib --no-default-features --features redis whoever_sees; }

if [ "$#" -eq 0 ]; then
  set -- seeds bugs model servers faults failover foreign outage cases fuzz order
fi
for campaign in "$@"; do
  echo "== $campaign"
  "$campaign"
done
