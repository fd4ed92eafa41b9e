# SPDX-License-Identifier: Apache-2.0
# What all parts of ./dev share: messages, quiet runs with a log, the environment of the compiler cache.

JOBS=${JOBS:-$(nproc)}
LOGS=$ROOT/build/logs
PYTHON=/usr/bin/python3 # Debian's, which has Debian's pytest
export JOBS LOGS PYTHON PYTHONDONTWRITEBYTECODE=1

# The cache lives in the user's home, so that a second clone builds quickly too: paths below the clone count as relative.
if [ -z "${CCACHE_DIR:-}" ] && [ ! -w "${HOME:-/nonexistent}" ]; then export CCACHE_DIR=$ROOT/.cache/ccache; fi
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=time_macros,include_file_mtime,include_file_ctime
export CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-5G}

say() { echo "dev: $*"; }
die() {
  echo "dev: $*" >&2
  exit 1
}

# quietly NAME COMMAND...: output goes to build/logs/NAME.log; on failure its end is shown.
quietly() {
  local name=$1 status=0
  shift
  mkdir -p "$LOGS"
  "$@" >"$LOGS/$name.log" 2>&1 </dev/null || status=$?
  if [ $status -ne 0 ]; then
    echo "dev: $name failed (exit $status); the end of build/logs/$name.log:" >&2
    # The first error of a build is worth more than its last line.
    { grep -m 12 -E '(error|FAILED|Error)[: ]' "$LOGS/$name.log" && echo ...; tail -n 25 "$LOGS/$name.log"; } >&2 || true
  fi
  return $status
}
