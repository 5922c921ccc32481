#!/bin/sh
# Builds the Linux wheels in dist/: glibc 2.28 and musl, x86-64 and ARM64. Zig links, so that no C library of this machine
# gets in; the standard library is rustup's where it has one for the system (rustup target add), else built with Debian's Rust.
# Usage: build.sh PYTHON FOLDER_OF_TOOLS [TARGET…]
# shellcheck disable=SC2086 # lists of options
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tools/debian.sh
. tools/debian.sh
PYTHON=$1 TOOLS=$2
shift 2
[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl
CRATES=$("$PYTHON" tools/wheels/assemble.py --crates)
export CARGO_TARGET_DIR="$PWD/build/wheels/target" PATH="$TOOLS:$PATH"
# As setuptools-rust has it: symbols of Python are left for the Python that loads the module.
export PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1

for target in "$@"; do
    say "== $target"
    case $target in
    *-gnu) named=$target.2.28 flags= ;;
    *) named=$target flags="-C target-feature=-crt-static" ;; # else rustc makes no shared library for musl
    esac
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
        RUSTFLAGS=$flags cargo-zigbuild zigbuild --quiet --locked --release --lib --target "$named" $CRATES
    else
        # shellcheck disable=SC2046 # a list of packages
        install_packages "cannot build for $target" $(rust_packages)
        RUSTFLAGS=$flags RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo-zigbuild zigbuild --quiet --locked --release --lib \
            --target "$named" -Zbuild-std=std,panic_unwind $CRATES
    fi
    case $target in
    *-musl) [ -e /lib/x86_64-linux-musl/libc.so ] || install_packages "cannot prove the wheel for $target" musl ;;
    esac
    "$PYTHON" tools/wheels/assemble.py "$target" "$CARGO_TARGET_DIR/$target/release" dist
done
