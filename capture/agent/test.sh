#!/bin/sh
# Runs the agent's tests against what build.sh made.
set -eu
cd "$(dirname "$0")"
export MSBUILDDISABLENODEREUSE=1 DOTNET_CLI_USE_MSBUILD_SERVER=0 DOTNET_CLI_TELEMETRY_OPTOUT=1 DOTNET_NOLOGO=1
export TESTINGPLATFORM_TELEMETRY_OPTOUT=1
for project in tests/*.Tests/*.csproj; do
    dotnet build "$project" -c Release -m:1 -nr:false -v quiet -nologo
    dotnet test --project "$project" -c Release --no-build
done
