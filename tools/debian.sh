# Sourced by recipes that need Debian's packages: names what is missing, and installs it where that is allowed.
# shellcheck shell=sh

say() { printf '%s\n' "$*"; }

# Debian's Rust comes with the source of its standard library, which can so be built for systems that rustup has no
# compiled one for here; cargo is the usual one.
rust_packages() {
    [ -x /usr/bin/rustc ] && [ -e /usr/lib/rustlib/src/rust/library/Cargo.lock ] || say rustc-web rust-web-src
}

# install_packages PURPOSE PACKAGE…: all of these, or the end with what to install
install_packages() {
    purpose=$1
    shift
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing Debian packages: $*"
        log=$(mktemp)
        if apt-get update -qq >"$log" 2>&1 && DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "$@" </dev/null >>"$log" 2>&1; then
            rm -f "$log"
            return 0
        fi
        tail -n 3 "$log" >&2
        rm -f "$log"
    fi
    say "error: $purpose: these Debian packages are missing: $*" >&2
    say "" >&2
    say "hint: apt-get install --no-install-recommends $* (Debian 12, as root)" >&2
    exit 2
}
