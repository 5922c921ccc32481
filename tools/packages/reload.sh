#!/bin/sh
# After installing and removing: systemd reads the unit anew. Nothing is started: devices have to be named first.
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
