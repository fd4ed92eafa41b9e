# SPDX-License-Identifier: Apache-2.0
# Debian packages, by what needs them. Nothing is installed twice and nothing is asked when all are there.

PACKAGES_BUILD=(g++ cmake ninja-build ccache libboost1.81-dev prometheus-cpp-dev libcli11-dev libtomlplusplus-dev
  libspdlog-dev libexpected-dev nlohmann-json3-dev libssl-dev zlib1g-dev libgtest-dev libgmock-dev libbenchmark-dev
  pkg-config python3 python3-pytest)
PACKAGES_LAB=(iproute2)
PACKAGES_FORMAT=(clang-format)
PACKAGES_CLANG=(clang libclang-rt-14-dev)
PACKAGES_CHECK=(abigail-tools mandoc) # abidiff for the binary interface, mandoc for the manual pages
PACKAGES_TIDY=(clang-tidy)
PACKAGES_ARM=(g++-aarch64-linux-gnu qemu-user)
PACKAGES_GLOO=(libgloo-dev)
PACKAGES_MPI=(libopenmpi-dev openmpi-bin)

# need PACKAGE...: installs those that are missing.
need() {
  command -v dpkg-query >/dev/null || { say "no dpkg here: install by hand what is missing of: $*"; return 0; }
  local package missing=()
  for package in "$@"; do
    case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) in ii*) ;; *) missing+=("$package") ;; esac
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "missing packages, and neither root nor sudo: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  # An update that fails (one mirror down) is no reason to stop: the install tells what it misses.
  quietly apt-update "${as_root[@]}" apt-get update -qq || true
  quietly apt-install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    "${missing[@]}" || die "could not install: ${missing[*]}"
}

# want PACKAGE...: like need, for what the caller can do without.
want() { (need "$@") || say "going on without $*"; }

need_build() { need "${PACKAGES_BUILD[@]}"; }

cmd_setup() {
  need "${PACKAGES_BUILD[@]}" "${PACKAGES_LAB[@]}" "${PACKAGES_FORMAT[@]}"
  say "everything for build, demo, lab, test and lint is installed; fuzz, ci and bench install more when called"
}
