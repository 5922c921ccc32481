#!/bin/sh
# Builds the stand-in for Windows' event tracing and performance counters. Every other function of advapi32 is passed on to
# the real one, since imports are turned per library, not per function. Usage: build.sh TARGET.dll
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=$1
prefix=x86_64-w64-mingw32
mkdir -p "$(dirname "$target")"
own=$(sed -n 's/^EXPORT .* WINAPI \([A-Za-z0-9]*\)(.*/\1/p' "$here/trace.c" "$here/counters.c")
{
    echo EXPORTS
    $prefix-nm "$($prefix-gcc -print-file-name=libadvapi32.a)" 2>/dev/null | sed -n 's/^[0-9a-f]* T \([A-Za-z]\w*\)$/\1/p' | sort -u |
        grep -vxF "$own" | sed 's/.*/    & = advapi32.&/'
    printf '    %s\n' $own
} >"$target.def"
$prefix-gcc -std=c17 -O2 -Wall -Wextra -Werror -shared -static-libgcc -o "$target.new" "$here/trace.c" "$here/counters.c" "$target.def"
mv "$target.new" "$target"
