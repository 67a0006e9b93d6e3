# Shared by ./quickstart, ./test and .ci/run: installs missing packages. Sourced, not run.
# Debian 12/13 and Ubuntu 22.04/24.04; as root or with sudo.

RUST_WANTED=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

RUN_PACKAGES="build-essential pkg-config libclang-dev libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
  gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav"
TEST_PACKAGES="libgstrtspserver-1.0-dev gstreamer1.0-rtsp gstreamer1.0-tools gstreamer1.0-x mosquitto mosquitto-clients memcached curl xvfb
  python3-jsonschema"

say() {
  if [ -t 2 ] && [ -z "${NO_COLOR:-}" ]; then printf '\033[1m%s\033[0m\n' "$*" >&2; else printf '%s\n' "$*" >&2; fi
}
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Installs the missing ones of the given packages.
need_packages() {
  command -v dpkg-query >/dev/null || die "this script needs apt; on another system install these packages by hand: $*"
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "Installing: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "no root rights and no sudo; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  # A fresh machine updates itself in its first minutes and holds apt's lock.
  local wait_for_lock=(-o DPkg::Lock::Timeout=300)
  "${as_root[@]}" apt-get "${wait_for_lock[@]}" update -qq || say "apt-get update failed; using the present package lists"
  # sudo drops the environment, so the variable is set behind it. The output is shown on failure only.
  local output
  if ! output=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_lock[@]}" install -y -qq --no-install-recommends "${missing[@]}" 2>&1); then
    printf '%s\n' "$output" | tail -n 20 >&2
    die "apt-get could not install: ${missing[*]}"
  fi
}

# Cargo's target folder, which the user's configuration may have moved.
target_folder() { cargo metadata --format-version 1 --no-deps --locked | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'; }

# Checks the Rust toolchain; an error has the command that installs it.
need_rust() {
  local fix="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default --default-toolchain $RUST_WANTED && . ~/.cargo/env"
  command -v curl >/dev/null || fix="sudo apt-get install -y curl ca-certificates && $fix"
  [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
  if ! command -v cargo >/dev/null; then
    [ -z "${SUDO_USER:-}" ] || die "root has no Rust; run this as $SUDO_USER, without sudo: it uses sudo itself to install packages"
    die "Rust is not installed. Install it with:
  $fix"
  fi
  local have
  have=$(cargo --version | sed -n 's/^cargo \([0-9]*\.[0-9]*\).*/\1/p')
  if [ "$(printf '%s\n%s\n' "$RUST_WANTED" "$have" | sort -V | head -n 1)" != "$RUST_WANTED" ]; then
    die "Rust $have is too old, $RUST_WANTED or newer is needed. Install it with:
  rustup toolchain install $RUST_WANTED && rustup default $RUST_WANTED      (or, without rustup: $fix)"
  fi
}
