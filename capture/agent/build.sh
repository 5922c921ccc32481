#!/bin/sh
# Builds the agent into build/agent: any/ (portable) and win-x64/ (one file).
set -eu
cd "$(dirname "$0")"
export MSBUILDDISABLENODEREUSE=1 DOTNET_CLI_USE_MSBUILD_SERVER=0 DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' ../../Cargo.toml | head -n 1)
out=$(cd ../.. && pwd)/build/agent
common="-c Release -m:1 -nr:false -v quiet -nologo -p:Version=$version"
# Locked: a restore that would change what the lock file says fails. The lock files are those of builds without XELite's package.
[ -z "${XELiteSurface:-}${XELiteDll:-}" ] || common="$common -p:RestoreLockedMode=true"
rm -rf "$out/any" "$out/win-x64"
# shellcheck disable=SC2086 # words
dotnet publish src/iotrace-agent.csproj $common -o "$out/any"
# shellcheck disable=SC2086
dotnet publish src/iotrace-agent.csproj $common -r win-x64 -o "$out/win-x64"
cp LICENCES.md "$out/any/"
cp LICENCES.md "$out/win-x64/"
# Releases carry the program with its checksum; certutil -hashfile iotrace-agent.exe SHA256 gives it on Windows.
(cd "$out/win-x64" && sha256sum iotrace-agent.exe > iotrace-agent.exe.sha256)
ls -l "$out/any/iotrace-agent.dll" "$out/win-x64/iotrace-agent.exe"
