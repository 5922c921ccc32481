//! Where files and a file system's own structures lie: the FIEMAP, GETFSMAP and XFS geometry calls.
//!
//! Structures and numbers: `man 2 ioctl_getfsmap`, Documentation/filesystems/fiemap.rst, `linux/fiemap.h`,
//! `linux/fsmap.h` and `xfs/xfs_fs.h` of the Linux user-space interface.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Instant;

const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
const FS_IOC_GETFSMAP: libc::c_ulong = 0xC0C0_583B;
const XFS_IOC_FSGEOMETRY_V1: libc::c_ulong = 0x8070_5864;

const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Unknown place, delayed allocation, encoded, not aligned, inline, tail: no range of the device that is the file's.
const FIEMAP_NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;
const FIEMAP_EXTENTS: usize = 256;

const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;
const FMR_OWN_FREE: u64 = 1;
const FMR_OWN_UNKNOWN: u64 = 2;
/// The same on ext4 and XFS.
const FMR_OWN_LOG: u64 = (b'X' as u64) << 32 | 2;
const FSMAP_RECORDS: usize = 200;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; FIEMAP_EXTENTS],
}

/// Call `on_range(start, end)` for each range of the device that holds data of `file`, in bytes.
pub fn file_ranges(file: &File, mut on_range: impl FnMut(u64, u64)) -> io::Result<()> {
    let mut request = Box::new(Fiemap {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        count: FIEMAP_EXTENTS as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); FIEMAP_EXTENTS],
    });
    loop {
        request.length = u64::MAX - request.start;
        // SAFETY: the kernel fills at most `count` extents, and the structure has room for them.
        let result =
            unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut *request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = (request.mapped as usize).min(FIEMAP_EXTENTS);
        for extent in &request.extents[..mapped] {
            if extent.flags & FIEMAP_NO_PLACE == 0 {
                on_range(
                    extent.physical,
                    extent.physical.saturating_add(extent.length),
                );
            }
        }
        let Some(last) = request.extents[..mapped].last() else {
            return Ok(());
        };
        let next = last.logical.saturating_add(last.length);
        if last.flags & FIEMAP_EXTENT_LAST != 0 || next <= request.start {
            return Ok(());
        }
        request.start = next;
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Fsmap {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

#[repr(C)]
struct FsmapHead {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Fsmap; 2],
    records: [Fsmap; FSMAP_RECORDS],
}

/// What a range that is no file's is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    Journal,
    Metadata,
}

/// Call `on_range(start, end, structure)` for each range the file system keeps for itself, in bytes; `false` if
/// `until` came first.
pub fn own_ranges(
    root: &File,
    until: Instant,
    mut on_range: impl FnMut(u64, u64, Structure),
) -> io::Result<bool> {
    let highest = Fsmap {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..Fsmap::default()
    };
    let mut request = Box::new(FsmapHead {
        iflags: 0,
        oflags: 0,
        count: FSMAP_RECORDS as u32,
        entries: 0,
        reserved: [0; 6],
        keys: [Fsmap::default(), highest],
        records: [Fsmap::default(); FSMAP_RECORDS],
    });
    loop {
        // SAFETY: the kernel fills at most `count` records, and the structure has room for them.
        let result =
            unsafe { libc::ioctl(root.as_raw_fd(), FS_IOC_GETFSMAP as _, &raw mut *request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let entries = (request.entries as usize).min(FSMAP_RECORDS);
        for record in &request.records[..entries] {
            if record.flags & FMR_OF_SPECIAL_OWNER == 0
                || matches!(record.owner, FMR_OWN_FREE | FMR_OWN_UNKNOWN)
            {
                continue;
            }
            let structure = if record.owner == FMR_OWN_LOG {
                Structure::Journal
            } else {
                Structure::Metadata
            };
            let end = record.physical.saturating_add(record.length);
            on_range(record.physical, end, structure);
        }
        let Some(&last) = request.records[..entries].last() else {
            return Ok(true);
        };
        if last.flags & FMR_OF_LAST != 0 {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        // The next answer goes on after the low key, whose length says how far it reached.
        request.keys[0] = last;
    }
}

/// What turns a block number of XFS, which counts in allocation groups, into a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XfsGeometry {
    pub block_bytes: u64,
    pub group_blocks: u64,
    pub journal_block: u64,
    pub journal_blocks: u64,
}

impl XfsGeometry {
    /// Byte at which the block begins.
    #[must_use]
    pub fn byte(self, block: u64) -> u64 {
        let bits = u64::BITS - self.group_blocks.saturating_sub(1).leading_zeros();
        let (group, within) = (block >> bits, block & ((1 << bits) - 1));
        group
            .saturating_mul(self.group_blocks)
            .saturating_add(within)
            .saturating_mul(self.block_bytes)
    }
}

#[repr(C)]
#[derive(Default)]
struct FsopGeometry {
    block_bytes: u32,
    realtime_extent_blocks: u32,
    group_blocks: u32,
    groups: u32,
    journal_blocks: u32,
    sector_bytes: u32,
    inode_bytes: u32,
    inode_percent_max: u32,
    data_blocks: u64,
    realtime_blocks: u64,
    realtime_extents: u64,
    journal_start: u64,
    rest: [u64; 6],
}

/// Geometry of the XFS file system that `root` is on.
pub fn xfs_geometry(root: &File) -> io::Result<XfsGeometry> {
    let mut answer = FsopGeometry::default();
    // SAFETY: the structure has the 112 bytes the request's number states.
    let result = unsafe {
        libc::ioctl(
            root.as_raw_fd(),
            XFS_IOC_FSGEOMETRY_V1 as _,
            &raw mut answer,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(XfsGeometry {
        block_bytes: u64::from(answer.block_bytes),
        group_blocks: u64::from(answer.group_blocks),
        journal_block: answer.journal_start,
        journal_blocks: u64::from(answer.journal_blocks),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_their_requests_state() {
        assert_eq!(size_of::<FiemapExtent>(), 56);
        assert_eq!(size_of::<Fiemap>() - FIEMAP_EXTENTS * 56, 32);
        assert_eq!(size_of::<Fsmap>(), 64);
        assert_eq!(size_of::<FsmapHead>() - FSMAP_RECORDS * 64, 192);
        assert_eq!(size_of::<FsopGeometry>(), 112);
    }

    #[test]
    fn xfs_blocks_count_in_allocation_groups() {
        // Groups of 1000 blocks are numbered in steps of 1024.
        let geometry = XfsGeometry {
            block_bytes: 4096,
            group_blocks: 1000,
            journal_block: 0,
            journal_blocks: 0,
        };
        assert_eq!(geometry.byte(7), 7 * 4096);
        assert_eq!(geometry.byte(2 << 10 | 5), 2005 * 4096);
        let even = XfsGeometry {
            group_blocks: 1024,
            ..geometry
        };
        assert_eq!(even.byte(1 << 10 | 5), 1029 * 4096);
    }
}
