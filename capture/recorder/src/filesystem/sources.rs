//! The kernel's events that the filesystem layer is made of.

use iotrace_block::Op;

/// Which tracing instance an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Only what the processes that use a recorded file system do.
    Calls,
    /// What anybody does to a recorded file system.
    Changes,
}

/// One event to be enabled: the kernel's names, and how it is limited to the recorded file systems.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub instance: Instance,
    pub group: &'static str,
    pub name: &'static str,
    /// Field that holds the device number; none for system calls.
    pub device_field: Option<&'static str>,
    /// A further condition.
    pub condition: Option<&'static str>,
    /// File system it belongs to; none for any.
    pub filesystem: Option<&'static str>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Enter(Op),
    Exit,
    /// Names of the fields that hold inode, offset and flags of the I/O, where there are any.
    Touch(&'static str, Option<Offset>),
    DirectBegin,
    DirectEnd,
    AllocatedExt,
    AllocatedXfs,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    Bytes(&'static str),
    Pages(&'static str),
}

const CALLS: [(&str, Op); 13] = [
    ("read", Op::Read),
    ("pread64", Op::Read),
    ("readv", Op::Read),
    ("preadv", Op::Read),
    ("preadv2", Op::Read),
    ("write", Op::Write),
    ("pwrite64", Op::Write),
    ("writev", Op::Write),
    ("pwritev", Op::Write),
    ("pwritev2", Op::Write),
    ("fsync", Op::Flush),
    ("fdatasync", Op::Flush),
    ("msync", Op::Flush),
];

const CALL_NAMES: [(&str, &str); 13] = [
    ("sys_enter_read", "sys_exit_read"),
    ("sys_enter_pread64", "sys_exit_pread64"),
    ("sys_enter_readv", "sys_exit_readv"),
    ("sys_enter_preadv", "sys_exit_preadv"),
    ("sys_enter_preadv2", "sys_exit_preadv2"),
    ("sys_enter_write", "sys_exit_write"),
    ("sys_enter_pwrite64", "sys_exit_pwrite64"),
    ("sys_enter_writev", "sys_exit_writev"),
    ("sys_enter_pwritev", "sys_exit_pwritev"),
    ("sys_enter_pwritev2", "sys_exit_pwritev2"),
    ("sys_enter_fsync", "sys_exit_fsync"),
    ("sys_enter_fdatasync", "sys_exit_fdatasync"),
    ("sys_enter_msync", "sys_exit_msync"),
];

const fn touch(
    group: &'static str,
    name: &'static str,
    filesystem: Option<&'static str>,
    offset: Option<Offset>,
) -> Source {
    Source {
        instance: Instance::Calls,
        group,
        name,
        device_field: Some("dev"),
        condition: None,
        filesystem,
        kind: Kind::Touch("ino", offset),
    }
}

const fn change(
    group: &'static str,
    name: &'static str,
    filesystem: Option<&'static str>,
    kind: Kind,
) -> Source {
    Source {
        instance: Instance::Changes,
        group,
        name,
        device_field: Some("dev"),
        condition: None,
        filesystem,
        kind,
    }
}

const POS: Option<Offset> = Some(Offset::Bytes("pos"));
const OFFSET: Option<Offset> = Some(Offset::Bytes("offset"));
const EXT4: Option<&str> = Some("ext4");
const XFS: Option<&str> = Some("xfs");

const OTHERS: [Source; 16] = [
    Source {
        device_field: Some("s_dev"),
        kind: Kind::Touch("i_ino", Some(Offset::Pages("index"))),
        ..touch("filemap", "mm_filemap_get_pages", EXT4, None)
    },
    touch("ext4", "ext4_da_write_begin", EXT4, POS),
    touch("ext4", "ext4_write_begin", EXT4, POS),
    touch("ext4", "ext4_sync_file_enter", EXT4, None),
    touch("xfs", "xfs_file_buffered_read", XFS, OFFSET),
    touch("xfs", "xfs_file_buffered_write", XFS, OFFSET),
    touch("xfs", "xfs_file_direct_read", XFS, OFFSET),
    touch("xfs", "xfs_file_direct_write", XFS, OFFSET),
    touch("xfs", "xfs_file_fsync", XFS, None),
    Source {
        condition: Some("aio == 0"),
        ..touch("iomap", "iomap_dio_rw_begin", None, POS)
    },
    Source {
        condition: Some("aio == 1"),
        ..change("iomap", "iomap_dio_rw_begin", None, Kind::DirectBegin)
    },
    Source {
        condition: Some("aio == 1"),
        ..change("iomap", "iomap_dio_complete", None, Kind::DirectEnd)
    },
    change("ext4", "ext4_allocate_blocks", EXT4, Kind::AllocatedExt),
    change("ext4", "ext4_free_inode", EXT4, Kind::GivenUp),
    change("xfs", "xfs_iext_insert", XFS, Kind::AllocatedXfs),
    change("xfs", "xfs_bmap_post_update", XFS, Kind::AllocatedXfs),
];

/// Numbers of XFS inodes are reused after this event, which also comes for files that live on.
const XFS_GIVEN_UP: Source = change("xfs", "xfs_inode_inactivating", XFS, Kind::GivenUp);

/// Everything that is to be enabled where the kernel has it.
#[must_use]
pub fn sources() -> Vec<Source> {
    let call = |name, kind| Source {
        instance: Instance::Calls,
        group: "syscalls",
        name,
        device_field: None,
        condition: None,
        filesystem: None,
        kind,
    };
    let calls = CALLS
        .iter()
        .zip(CALL_NAMES)
        .flat_map(|(&(_, op), (enter, exit))| {
            [call(enter, Kind::Enter(op)), call(exit, Kind::Exit)]
        });
    calls.chain(OTHERS).chain([XFS_GIVEN_UP]).collect()
}
