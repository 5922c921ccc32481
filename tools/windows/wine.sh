#!/bin/sh
# Runs one program of cargo's under Wine and passes its exit status on. Wine hangs rather than fails: hence the limit.
exec timeout 900 wine "$@" </dev/null
