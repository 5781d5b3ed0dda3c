#!/usr/bin/env bash
# Fuzzes each target for FUZZ_SECONDS (default 20), beginning with the kept corpus in a scratch copy. A
# crash, a hang or too much memory fails it, and so does a corpus that does not replay.
# With KEEP=1 the corpus is minimised afterwards, with what was found, and kept.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}
# What the seeds show is enough to begin with; longer inputs are found from there.
bounds=(-rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 -max_len=4096)

echo "== the kept corpus, replayed without a fuzzer"
cargo test --profile tests --workspace --all-features --test corpus

if ! cargo fuzz --version >/dev/null 2>&1; then
  cargo install cargo-fuzz --locked
fi
if cargo +nightly --version >/dev/null 2>&1; then
  toolchain=+nightly
  sanitizer=address
else
  toolchain=
  sanitizer=none
  echo "!! NO NIGHTLY TOOLCHAIN: fuzzing WITHOUT the address sanitizer." >&2
  echo "!! For a whole run: rustup toolchain install nightly --profile minimal" >&2
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The crate's own versions of its dependencies.
cp Cargo.lock tests/fuzz/Cargo.lock
fuzz=(--fuzz-dir tests/fuzz --target-dir target/fuzz --sanitizer "$sanitizer")
cargo $toolchain fuzz build "${fuzz[@]}"

run() {
  local target=$1 corpus=$scratch/$1 log=$scratch/$1.log status=0
  cp -r "tests/corpus/$target" "$corpus"
  local before after executions
  before=$(find "$corpus" -type f | wc -l)
  cargo $toolchain fuzz run "${fuzz[@]}" "$target" "$corpus" -- \
    "${bounds[@]}" -max_total_time="$seconds" -print_final_stats=1 >"$log" 2>&1 || status=$?
  after=$(find "$corpus" -type f | wc -l)
  executions=$(awk '/stat::number_of_executed_units/ { print $2 }' "$log")
  echo "fuzz $target: ${executions:-0} executions in $seconds s, $((after - before)) new corpus" \
    "entries, $((status == 0 ? 0 : 1)) crashes"
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$log"
    return 1
  fi
  # A fuzzer that did nothing must not look like one that found nothing.
  if [ "${executions:-0}" -lt "$before" ]; then
    echo "the kept corpus alone is $before executions" >&2
    return 1
  fi
}

# Keeps an input for each branch.
keep() {
  local target=$1 seed
  # And not for how often it is taken, which makes for ten times as many.
  cargo $toolchain fuzz cmin "${fuzz[@]}" "$target" "$scratch/$target" -- "${bounds[@]}" -use_counters=0 \
    >/dev/null 2>&1
  find "tests/corpus/$target" -type f ! -name 'seed-*' -delete
  for seed in "$scratch/$target"/*; do
    case "$(basename "$seed")" in seed-*) ;; *) cp "$seed" "tests/corpus/$target/" ;; esac
  done
}

failed=0
for target in header extractor; do
  run "$target" || failed=1
  if [ "$failed" -eq 0 ] && [ "${KEEP:-0}" = 1 ]; then keep "$target"; fi
done
exit "$failed"
