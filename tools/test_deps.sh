#!/bin/sh
# Programs and mounts that tests use and `make setup` cannot bring: Debian's packages, and tracefs.
# Needs root and apt-get; elsewhere it names what is missing and changes nothing.
set -eu

# package:program, where the program tells that the package is there
WANTED="fio:fio blktrace:blkparse chromium:chromium xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs e2fsprogs:mkfs.ext4
dosfstools:mkfs.vfat f2fs-tools:mkfs.f2fs exfatprogs:mkfs.exfat nilfs-tools:mkfs.nilfs2 udftools:mkudffs
cryptsetup-bin:cryptsetup ntfs-3g:mkfs.ntfs mdadm:mdadm lvm2:pvcreate util-linux:losetup fdisk:sfdisk fuse3:fusermount3 bindfs:bindfs
zsh:zsh fish:fish prometheus:prometheus postgresql:pg_lsclusters sqlite3:sqlite3 iproute2:ip openssl:openssl qemu-utils:qemu-img
wine:wine gcc-mingw-w64-x86-64:x86_64-w64-mingw32-gcc"

PATH="$PATH:/usr/sbin:/sbin"
missing=""
for pair in $WANTED; do
  command -v "${pair#*:}" >/dev/null 2>&1 || missing="$missing ${pair%%:*}"
done

if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests:$missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    apt-get install -y -qq --no-install-recommends $missing </dev/null >/dev/null
  else
    echo "the tests use these Debian packages, which are not here; tests that need them are skipped:$missing"
  fi
fi

tracing=/sys/kernel/tracing
if [ -d "$tracing" ] && [ ! -d "$tracing/instances" ]; then
  if [ "$(id -u)" = 0 ] && mount -t tracefs nodev "$tracing" 2>/dev/null; then
    echo "mounted tracefs at $tracing"
  else
    echo "tracefs is not mounted, so tests of live capture are skipped: sudo mount -t tracefs nodev $tracing"
  fi
fi
