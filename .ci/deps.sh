# Shared by ./quickstart, ./test and .ci/run: finds out what is missing and installs it. Sourced, not run.
# Debian 12/13 and Ubuntu 22.04/24.04; as root or with sudo.

RUST_WANTED=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

RUN_PACKAGES="build-essential pkg-config libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
  gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav"
TEST_PACKAGES="libgstrtspserver-1.0-dev gstreamer1.0-rtsp gstreamer1.0-tools gstreamer1.0-x mosquitto mosquitto-clients curl xvfb"

say() {
  if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi
}
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Installs those of the given packages that are not there.
need_packages() {
  command -v dpkg-query >/dev/null || die "this script installs its needs with apt; on another system install by hand: $*"
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "Installing: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  # A fresh machine updates itself in its first minutes and holds apt's lock meanwhile.
  local patience=(-o DPkg::Lock::Timeout=300)
  "${as_root[@]}" apt-get "${patience[@]}" update -qq || say "apt-get update failed; trying with the package lists that are there"
  # sudo drops the environment, so the variable is set behind it. What dpkg says is of interest only where it fails.
  local said
  if ! said=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${patience[@]}" install -y -qq --no-install-recommends "${missing[@]}" 2>&1); then
    printf '%s\n' "$said" | tail -n 20 >&2
    die "apt-get could not install: ${missing[*]}"
  fi
}

# Where cargo puts what it builds; a user's own configuration may have moved it.
target_folder() { cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'; }

# Checks the Rust toolchain, and says the one command that brings it.
need_rust() {
  local fix="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default --default-toolchain $RUST_WANTED && . ~/.cargo/env"
  command -v curl >/dev/null || fix="sudo apt-get install -y curl ca-certificates && $fix"
  [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
  if ! command -v cargo >/dev/null; then
    [ -z "${SUDO_USER:-}" ] || die "root has no Rust; run this as $SUDO_USER, without sudo: it asks for sudo itself where it installs packages"
    die "Rust is not installed. This brings it:
  $fix"
  fi
  local have
  have=$(cargo --version | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
  if [ "$(printf '%s\n%s\n' "$RUST_WANTED" "$have" | sort -V | head -n 1)" != "$RUST_WANTED" ]; then
    die "Rust $have is too old, $RUST_WANTED or newer is needed. This brings it:
  rustup toolchain install $RUST_WANTED && rustup default $RUST_WANTED      (or, without rustup: $fix)"
  fi
}
