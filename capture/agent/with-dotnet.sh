#!/bin/sh
# Runs a command with a .NET 10 SDK: the one on PATH, or the one beside the checkout. Exit status 3: there is none.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
beside=$here/../../../shared/dotnet/activate
if ! dotnet --list-sdks 2>/dev/null | grep -q '^10\.'; then
    if [ ! -r "$beside" ]; then
        echo "no .NET 10 SDK on PATH" >&2
        exit 3
    fi
    # Its packages lack XELite; see src/iotrace-agent.csproj.
    export XELiteSurface=true
    # It is written for bash.
    exec bash -c '. "$0" && exec "$@"' "$beside" "$@"
fi
exec "$@"
