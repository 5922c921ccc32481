#!/bin/sh
# Builds iotrace-recorder as one static file (musl) in dist/, for hosts where nothing may be installed.
# The compiler is Debian's, since rustup's standard library for musl may not be there; cargo is the usual one.
set -eu
cd "$(dirname "$0")/../.."
PLACE=$PWD/build/standalone
MACHINE=$(uname -m)
TARGET=$MACHINE-unknown-linux-musl
say() { printf '%s\n' "$*"; }

missing=
[ -x /usr/bin/rustc ] && [ -e /usr/lib/rustlib/src/rust/library/Cargo.lock ] || missing="rustc-web rust-web-src"
command -v musl-gcc >/dev/null || missing="$missing musl-tools"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing Debian packages: $missing"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of packages
        apt-get install -y -qq --no-install-recommends $missing </dev/null >/dev/null
    else
        say "error: cannot build the static recorder: these Debian packages are missing: $missing" >&2
        say "" >&2
        say "hint: apt-get install --no-install-recommends $missing (Debian 12, as root)" >&2
        exit 2
    fi
fi

mkdir -p "$PLACE" dist
# The standard library asks for LLVM's unwinder; the compiler's own does the same.
gcc -O2 -Wall -c -o "$PLACE/dl_find_object.o" tools/standalone/dl_find_object.c
cp "$(gcc -print-file-name=libgcc_eh.a)" "$PLACE/libunwind.a"
ar r "$PLACE/libunwind.a" "$PLACE/dl_find_object.o"
export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PLACE/target}"
name=$(printf %s "$TARGET" | tr a-z- A-Z_)
export "CARGO_TARGET_${name}_LINKER=musl-gcc"
export "CARGO_TARGET_${name}_RUSTFLAGS=-C link-self-contained=no -C relocation-model=static -C target-feature=+crt-static -L $PLACE"
cargo build --locked --profile standalone --target "$TARGET" -Zbuild-std=std,panic_abort -p iotrace-standalone

built="$CARGO_TARGET_DIR/$TARGET/standalone/iotrace-recorder"
if readelf --program-headers "$built" | grep -q INTERP; then
    say "error: '$built' is not static" >&2
    exit 1
fi
cp "$built" "dist/iotrace-recorder-$MACHINE"
say "dist/iotrace-recorder-$MACHINE: $(wc -c < "$built") bytes, static"
