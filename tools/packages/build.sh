#!/bin/sh
# Packs the recorder of dist/ (make recorder) as a .deb and an .rpm. Usage: build.sh PYTHON NFPM
set -eu
cd "$(dirname "$0")/../.."
PYTHON=$1 NFPM=$2
PLACE=build/packages
MACHINE=$(uname -m)
RECORDER=dist/iotrace-recorder-$MACHINE
[ -x "$RECORDER" ] || { printf 'error: there is no %s\n\nhint: make recorder builds it\n' "$RECORDER" >&2; exit 2; }
case $MACHINE in
x86_64) ARCH=amd64 ;;
aarch64) ARCH=arm64 ;;
*) ARCH=$MACHINE ;;
esac
mkdir -p "$PLACE"
VERSION=$("$RECORDER" --version | cut -d ' ' -f 2)
NOTICES=$PLACE/third-party-licences.txt
MANUAL=$PLACE/iotrace-recorder.1.gz
"$PYTHON" tools/release.py --notices > "$NOTICES"
"$PYTHON" tools/build_man.py --recorder "$RECORDER" | gzip -9 -n > "$MANUAL"
# The same source gives the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date -r pyproject.toml +%s)
export ARCH VERSION RECORDER NOTICES MANUAL SOURCE_DATE_EPOCH
for kind in deb rpm; do
    "$NFPM" package --config tools/packages/nfpm.yaml --packager "$kind" --target dist/ >/dev/null
done
for file in dist/iotrace-recorder?"$VERSION"*; do
    printf '%s: %s bytes\n' "$file" "$(wc -c < "$file")"
done
