# SPDX-License-Identifier: Apache-2.0

# build_preset PRESET [TARGET...]: configures when needed, builds, quietly.
build_preset() {
  local preset=$1 targets=()
  shift
  [ $# -gt 0 ] && targets=(--target "$@")
  need_build
  [ "$preset" = fuzz ] && need "${PACKAGES_CLANG[@]}"
  if [ ! -f "build/$preset/build.ninja" ] || [ CMakePresets.json -nt "build/$preset/build.ninja" ]; then
    quietly "configure-$preset" cmake --preset "$preset" || return 1
  fi
  quietly "build-$preset" cmake --build "build/$preset" --parallel "$JOBS" "${targets[@]}"
}

cmd_build() {
  local preset=${1:-release}
  [ $# -gt 0 ] && shift
  case $preset in
    release | dev | asan | tsan | fuzz) ;;
    *) die "no preset '$preset': release, dev, asan, tsan or fuzz" ;;
  esac
  build_preset "$preset" "$@" || exit 1
  say "built build/$preset"
}

cpp_files() { git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' '*.hpp' '*.cu'; }

cmd_format() {
  need "${PACKAGES_FORMAT[@]}"
  if [ "${1:-}" = --check ]; then
    local differ
    differ=$(cpp_files | xargs -r clang-format --dry-run --Werror 2>&1 | grep -oE '^[^:]+:[0-9]+' | sort -t: -k1,1 -u) || true
    [ -z "$differ" ] && return 0
    echo "not as clang-format wants it (first place in each file); ./dev format mends them:" >&2
    echo "$differ" >&2
    return 1
  fi
  cpp_files | xargs -r clang-format -i
}

# The reference is made from the code: --write makes it anew, for which the programs must be built. Without it, what needs the
# sources only is compared here, the rest by a test of the label unit.
cmd_docs() {
  need python3
  if [ "${1:-}" = --write ]; then
    build_preset release redsumd redsumctl redsumrun redsum-perf || exit 1
    "$PYTHON" scripts/reference --bin build/release/bin --write
  else
    "$PYTHON" scripts/reference
  fi
  "$PYTHON" tests/lint/docs.py
}

cmd_cases() {
  need python3
  "$PYTHON" tests/lint/cases.py
}

cmd_lint() {
  need python3
  local status=0
  "$PYTHON" tests/lint/lint.py || status=1
  "$PYTHON" tests/lint/docs.py || status=1
  "$PYTHON" scripts/reference || status=1
  cmd_format --check || status=1
  [ $status -eq 0 ] && say "lint: OK"
  return $status
}
