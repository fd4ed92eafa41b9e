# SPDX-License-Identifier: Apache-2.0
# The commands that run what was built.

DIGITS=.cache/digits.csv.gz
DIGITS_SHA256=46abec6b12486ad9e51943373abcf22bbea1b5a51a1619b361570d8893f1464a

# The UCI handwritten digits, 57 KB, out of the Debian package that carries them; the package is not installed.
fetch_digits() {
  [ -f "$DIGITS" ] && return 0
  say "fetching the handwritten digits out of Debian's python3-sklearn"
  local folder=.cache/digits.download
  rm -rf "$folder"
  mkdir -p "$folder"
  if ! (cd "$folder" && quietly digits-download apt-get download -qq python3-sklearn); then
    local as_root=()
    [ "$(id -u)" -ne 0 ] && as_root=(sudo)
    quietly apt-update "${as_root[@]}" apt-get update -qq || true
    (cd "$folder" && quietly digits-download apt-get download -qq python3-sklearn) || die "cannot download python3-sklearn"
  fi
  dpkg-deb --fsys-tarfile "$folder"/python3-sklearn_*.deb |
    tar -xOf - ./usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz >"$folder/digits.csv.gz"
  echo "$DIGITS_SHA256  $folder/digits.csv.gz" | sha256sum --check --quiet || die "digits.csv.gz is not the known file"
  mv "$folder/digits.csv.gz" "$DIGITS"
  rm -rf "$folder"
}

cmd_demo() {
  build_preset release redsumd redsumrun train_digits || exit 1
  fetch_digits
  local bin=build/release/bin
  "$bin/redsumrun" -np 4 --reducers 2 "$bin/train_digits" --data "$DIGITS" "$@" || return $?
  echo "demo: OK"
}

cmd_sim() {
  local preset=release arg
  for arg in "$@"; do case $arg in --mutant*) preset=dev ;; esac done
  build_preset $preset sim_world || exit 1
  exec "build/$preset/tests/sim_world" "$@"
}

# prepare_peers PROGRAM...: Gloo or Open MPI, which only benchmarks need; one that cannot be had is skipped by its name.
prepare_peers() {
  [ -x build/release/bin/gloo_peer ] && { [ "$1" = lab ] || [ -x build/release/bin/mpi_peer ]; } && return 0
  need_build
  want "${PACKAGES_GLOO[@]}"
  [ "$1" = lab ] || want "${PACKAGES_MPI[@]}"
  quietly configure-release cmake --preset release -DREDSUM_PEERS=ON
}

cmd_bench() {
  if [ $# -eq 0 ]; then
    build_preset release || exit 1
    say "benchmarks: $(cd build/release/bin && ls -d bench-* 2>/dev/null | sed 's/^bench-//' | tr '\n' ' ')"
    return
  fi
  local name=$1
  shift
  case "$name $*" in 'peers '* | 'lab '*--peer*) prepare_peers "$name" || exit 1 ;; esac
  build_preset release || exit 1
  [ "$name" != lab ] || need "${PACKAGES_LAB[@]}"
  [ -x "build/release/bin/bench-$name" ] || die "no benchmark '$name'; ./dev bench lists them"
  exec "build/release/bin/bench-$name" "$@"
}

cmd_lab() {
  need "${PACKAGES_LAB[@]}"
  exec "$PYTHON" scripts/lab.py "$@"
}

cmd_chaos() {
  build_preset release redsumd chaos_worker || exit 1
  want "${PACKAGES_LAB[@]}"
  exec "$PYTHON" -B scripts/chaos "$@"
}

# Findings and new inputs of a run go to build/fuzz; what is worth keeping is copied to tests/fuzz/corpus by hand.
cmd_fuzz() {
  local only=${1:-} seconds=${2:-60} target status=0 seen=no
  build_preset fuzz || exit 1
  for target in build/fuzz/fuzz/fuzz_*; do
    [ -x "$target" ] || continue
    local name=${target##*/fuzz_}
    [ -n "$only" ] && [ "$only" != "$name" ] && continue
    mkdir -p "build/fuzz/found/$name" "tests/fuzz/corpus/$name"
    say "fuzz $name for $seconds s"
    quietly "fuzz-$name" "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/found/$name/crash-" "build/fuzz/found/$name" "tests/fuzz/corpus/$name" || status=1
    tail -n 12 "$LOGS/fuzz-$name.log" | grep -E 'number_of_executed_units|new_units_added' || true
    seen=yes
  done
  [ $seen = yes ] || die "no fuzz target '$only'"
  return $status
}

cmd_abi() {
  need_build
  need "${PACKAGES_CHECK[@]}"
  exec "$PYTHON" scripts/abi.py "$@"
}

cmd_test() {
  need_build
  need "${PACKAGES_CHECK[@]}"
  case ${1:-} in
    '') need "${PACKAGES_FORMAT[@]}" "${PACKAGES_LAB[@]}"; exec "$PYTHON" scripts/tiers.py push ;;
    quick) need "${PACKAGES_FORMAT[@]}"; exec "$PYTHON" scripts/tiers.py quick ;;
    *) need "${PACKAGES_LAB[@]}"; exec "$PYTHON" scripts/tiers.py label "$@" ;;
  esac
}

cmd_ci() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_LAB[@]}" "${PACKAGES_CHECK[@]}" "${PACKAGES_FORMAT[@]}" "${PACKAGES_CLANG[@]}" "${PACKAGES_TIDY[@]}" "${PACKAGES_ARM[@]}"
  exec "$PYTHON" scripts/tiers.py full "$@"
}
