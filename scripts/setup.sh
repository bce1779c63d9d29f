#!/usr/bin/env bash
# Everything a fresh machine needs: a C compiler, Java 17 or newer, Chromium, zsh and fish (for tests), and .venv with every development extra.
# As root on Debian or Ubuntu it installs what is missing; elsewhere it prints the command to run.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { # need WHAT PACKAGES...: install Debian packages, or say how
  local what=$1
  shift
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing $what ($*)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
  else
    echo "setup: $what is missing. Run: sudo apt-get install $* (or your system's equivalent), then try again." >&2
    exit 1
  fi
}

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'; }

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: Python 3.11 or newer is needed, found $("$python" --version). Set PYTHON=/path/to/python3.11." >&2
  exit 1
}
command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || need "a C compiler" gcc libc6-dev
major=$(command -v java >/dev/null && java_major || echo 0)
[ "${major:-0}" -ge 17 ] || need "Java 17 or newer" openjdk-17-jre-headless
# The console is tested in a browser, completion in shells; without them, and no right to install them, those tests are skipped.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  command -v chromium >/dev/null || need "a browser for the tests of the console" chromium
  { command -v zsh && command -v fish; } >/dev/null || need "shells for the tests of completion" zsh fish
fi

stamp=.venv/.viewlet-ready
if [ ! -x .venv/bin/python ]; then
  "$python" -m venv .venv 2>/dev/null || { need "the venv module" python3-venv && "$python" -m venv .venv; }
fi
if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  echo "setup: installing Python packages into .venv (a few minutes the first time)"
  .venv/bin/python -m pip install --quiet --upgrade pip
  .venv/bin/python -m pip install --quiet --editable '.[dev]'
  touch "$stamp"
fi
