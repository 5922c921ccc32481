//! From an inode number to a path, by a file handle: no search, and it works for files nobody told us of.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

const XFS_IOC_FSBULKSTAT_SINGLE: libc::c_ulong = 0xC020_5866;
/// `FILEID_INO32_GEN`: inode and generation, 32 bits each. ext4 takes generation 0 for any.
const INODE_32: libc::c_int = 0x1;
/// The same with an inode of 64 bits, as XFS has it.
const INODE_64: libc::c_int = 0x81;

/// What a handle led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As this process sees it.
    pub path: String,
    pub is_folder: bool,
    pub size_bytes: u64,
}

#[repr(C)]
struct Handle {
    bytes: libc::c_uint,
    kind: libc::c_int,
    data: [u8; 12],
}

/// The file with number `inode` on the file system of `root`; `None` if it is gone, nameless, or handles are not
/// allowed (they need `CAP_DAC_READ_SEARCH`).
#[must_use]
pub fn look_up(root: &File, inode: u64, is_xfs: bool) -> Option<Named> {
    let candidates = if is_xfs {
        let generation = xfs_generation(root, inode)?;
        vec![Some(wide(inode, generation)), narrow(inode, generation)]
    } else {
        vec![narrow(inode, 0)]
    };
    let file = candidates
        .into_iter()
        .flatten()
        .find_map(|handle| open(root, handle))?;
    let metadata = file.metadata().ok()?;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    // A file whose name the kernel does not hold in memory shows as the root.
    let is_named = link.as_os_str() != "/" && metadata.ino() == inode;
    is_named.then(|| Named {
        path: link
            .to_string_lossy()
            .trim_end_matches(" (deleted)")
            .to_owned(),
        is_folder: metadata.is_dir(),
        size_bytes: metadata.len(),
    })
}

fn narrow(inode: u64, generation: u32) -> Option<Handle> {
    let mut data = [0; 12];
    data[..4].copy_from_slice(&u32::try_from(inode).ok()?.to_ne_bytes());
    data[4..8].copy_from_slice(&generation.to_ne_bytes());
    Some(Handle {
        bytes: 8,
        kind: INODE_32,
        data,
    })
}

fn wide(inode: u64, generation: u32) -> Handle {
    let mut data = [0; 12];
    data[..8].copy_from_slice(&inode.to_ne_bytes());
    data[8..].copy_from_slice(&generation.to_ne_bytes());
    Handle {
        bytes: 12,
        kind: INODE_64,
        data,
    }
}

fn open(root: &File, mut handle: Handle) -> Option<File> {
    let pointer = (&raw mut handle).cast::<libc::file_handle>();
    // SAFETY: `Handle` is laid out as `struct file_handle` with room for the bytes it states.
    let descriptor = unsafe {
        libc::open_by_handle_at(root.as_raw_fd(), pointer, libc::O_PATH | libc::O_CLOEXEC)
    };
    // SAFETY: the descriptor was just opened and is nobody else's.
    (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor) })
}

#[repr(C)]
struct BulkRequest {
    last_inode: *mut u64,
    count: i32,
    buffer: *mut u8,
    output_count: *mut i32,
}

/// Generation of an inode, which a handle of XFS must state.
fn xfs_generation(root: &File, inode: u64) -> Option<u32> {
    const GENERATION_OFFSET: usize = 108; // in struct xfs_bstat
    let (mut last_inode, mut output_count) = (inode, 0_i32);
    let mut buffer = [0_u64; 32]; // struct xfs_bstat takes 136 bytes
    let mut request = BulkRequest {
        last_inode: &raw mut last_inode,
        count: 1,
        buffer: buffer.as_mut_ptr().cast(),
        output_count: &raw mut output_count,
    };
    // SAFETY: every pointer leads to a value that outlives the call; one record is asked for, and there is room for it.
    let result = unsafe {
        libc::ioctl(
            root.as_raw_fd(),
            XFS_IOC_FSBULKSTAT_SINGLE as _,
            &raw mut request,
        )
    };
    let word = buffer[GENERATION_OFFSET / 8].to_ne_bytes();
    (result >= 0).then(|| u32::from_ne_bytes(word[4..].try_into().expect("four bytes")))
}
