#!/bin/sh
# Builds iotrace-recorder as one static file (musl) in dist/, for hosts where nothing may be installed.
set -eu
cd "$(dirname "$0")/../.."
PLACE=$PWD/build/standalone
MACHINE=$(uname -m)
TARGET=$MACHINE-unknown-linux-musl
# shellcheck source=tools/debian.sh
. tools/debian.sh
missing=$(rust_packages)
command -v musl-gcc >/dev/null || missing="$missing musl-tools"
# shellcheck disable=SC2086 # a list of packages
install_packages "cannot build the static recorder" $missing

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
