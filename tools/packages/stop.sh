#!/bin/sh
# Before removing (not before an upgrade): the service ends, and what it recorded stays in /var/lib/iotrace.
set -e
case ${1:-} in
remove | 0) if [ -d /run/systemd/system ]; then systemctl disable --now iotrace-recorder || true; fi ;;
esac
