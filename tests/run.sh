#!/usr/bin/env bash
# Finds or installs redis-server, then runs every test. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."

install_redis() {
  case "$(uname -s)" in
    Linux)
      if command -v apt-get >/dev/null; then
        local sudo=""
        if [ "$(id -u)" -ne 0 ]; then
          command -v sudo >/dev/null || return 1
          sudo="sudo"
        fi
        $sudo apt-get update -q
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y redis-server
        return
      fi
      ;;
    Darwin)
      if command -v brew >/dev/null; then
        brew install redis
        return
      fi
      ;;
  esac
  return 1
}

# The tests start servers of their own; only the program has to be there.
if ! command -v redis-server >/dev/null && ! { install_redis && command -v redis-server >/dev/null; }; then
  echo "The tests need redis-server 6.2 or later on the PATH: please install it and run this again." >&2
  exit 1
fi
redis-server --version

exec cargo test --release --all-features "$@"
