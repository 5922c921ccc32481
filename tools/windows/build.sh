#!/bin/sh
# Builds the native code for Windows on Linux, runs its tests under Wine, and assembles a wheel for Windows in dist/.
# Everything but Debian's packages goes below build/windows. Usage: build.sh PYTHON
set -eu
cd "$(dirname "$0")/../.."
PYTHON=$1
PLACE=$PWD/build/windows
TARGET=x86_64-pc-windows-gnu
CRATES="-p iotrace-engine -p iotrace-model -p iotrace-readers -p iotrace-tally"

# shellcheck source=tools/debian.sh
. tools/debian.sh
missing=$(rust_packages)
command -v x86_64-w64-mingw32-gcc >/dev/null || missing="$missing gcc-mingw-w64-x86-64"
{ command -v wine && [ -d /usr/lib/x86_64-linux-gnu/wine ]; } >/dev/null || missing="$missing wine64 wine"
# shellcheck disable=SC2086 # a list of packages
install_packages "cannot build for Windows" $missing

export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$PLACE/target"
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="$PWD/tools/windows/wine.sh"
export WINEPREFIX="$PLACE/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml=;winemenubuilder.exe="
STANDARD="--target $TARGET -Zbuild-std=std,panic_unwind"
mkdir -p "$PLACE"

SYSTEM32="$WINEPREFIX/drive_c/windows/system32"
if [ ! -e "$SYSTEM32/kernel32.dll" ]; then
    wineboot -i </dev/null >"$PLACE/wineboot.log" 2>&1 || { say "error: wine does not start; see $PLACE/wineboot.log" >&2; exit 2; }
fi
library() { # NAME SOURCE LIBRARIES…: a library that Wine lacks
    name=$1 source=$2
    shift 2
    [ -e "$SYSTEM32/$name" ] && [ "$SYSTEM32/$name" -nt "$source" ] ||
        x86_64-w64-mingw32-gcc -O2 -Wall -shared -nostdlib -Wl,-e,0 -o "$SYSTEM32/$name" "$source" "$@"
}
library bcryptprimitives.dll tools/windows/process_prng.c -ladvapi32 -lkernel32
library python3.dll tools/windows/python3.c

say "== tests of the engine, the readers and the tally, under $(wine --version 2>/dev/null | tail -1)"
# shellcheck disable=SC2086
cargo test --quiet --locked $STANDARD $CRATES --lib

say "== wheel"
# shellcheck disable=SC2086
cargo build --quiet --locked --release $STANDARD $CRATES
"$PYTHON" tools/wheels/assemble.py "$TARGET" "$CARGO_TARGET_DIR/$TARGET/release" dist
say "Wine shows that the code runs, not how Windows behaves: docs/experiments/windows.md says what it cannot show."
