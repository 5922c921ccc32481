//! What the device plays on: a file that somebody opened, opened again the way replays need it.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle};

use windows_sys::Wdk::Storage::FileSystem::{FileAccessInformation, NtQueryInformationFile};
use windows_sys::Win32::Foundation::{
    GENERIC_READ, GENERIC_WRITE, HANDLE, MAX_PATH, RtlNtStatusToDosError,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ALIGNMENT_INFO, FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED, FILE_FLAG_WRITE_THROUGH,
    FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FILE_STORAGE_INFO, FILE_WRITE_DATA,
    FileAlignmentInfo, FileStorageInfo, GetDiskFreeSpaceW, GetFileInformationByHandleEx,
    GetFinalPathNameByHandleW, GetVolumePathNameW, ReOpenFile,
};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

use super::alignment::Alignment;
use super::port::owned;
use crate::device::RawFile;

/// Sectors of disks that do not tell: no disk has larger ones.
const SECTOR_BYTES: u32 = 4096;
/// Memory unit of drivers that do not tell: none wants more of a buffer.
const ADDRESS_BYTES: u32 = 512;

/// A file opened for overlapped I/O, once as it is and once so that each write is on stable media when it ends.
pub struct Target {
    plain: OwnedHandle,
    through: Option<OwnedHandle>,
    /// What its transfers must be aligned to.
    pub alignment: Alignment,
}

impl Target {
    /// Open `file` again: past the cache if `direct`, for writing only if it is itself open for writing.
    pub fn reopen(file: RawFile, direct: bool) -> io::Result<Self> {
        let file = file as HANDLE;
        let writable = is_writable(file)?;
        let cache = if direct { FILE_FLAG_NO_BUFFERING } else { 0 };
        let open = |flags| {
            let access = GENERIC_READ | if writable { GENERIC_WRITE } else { 0 };
            let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
            // SAFETY: the caller's handle is open; the rest are numbers.
            owned(unsafe { ReOpenFile(file, access, share, FILE_FLAG_OVERLAPPED | cache | flags) })
        };
        let plain = open(0)?;
        let through = writable
            .then(|| open(FILE_FLAG_WRITE_THROUGH))
            .transpose()?;
        let alignment = if direct {
            Alignment::unbuffered(sector_bytes(&plain), address_bytes(&plain))
        } else {
            Alignment::NONE
        };
        Ok(Self {
            plain,
            through,
            alignment,
        })
    }

    /// A handle as it is, for reading.
    #[cfg(test)]
    pub fn as_it_is(plain: OwnedHandle) -> Self {
        Self {
            plain,
            through: None,
            alignment: Alignment::NONE,
        }
    }

    /// Whether it may be written and flushed.
    pub fn writable(&self) -> bool {
        self.through.is_some()
    }

    /// For reads and flushes, and writes that may rest in the device's cache.
    pub fn plain(&self) -> &OwnedHandle {
        &self.plain
    }

    /// For a write that must be on stable media when it ends, or need not.
    pub fn for_write(&self, durable: bool) -> &OwnedHandle {
        self.through
            .as_ref()
            .filter(|_| durable)
            .unwrap_or(&self.plain)
    }

    /// Every handle of it.
    pub fn handles(&self) -> impl Iterator<Item = &OwnedHandle> {
        std::iter::once(&self.plain).chain(&self.through)
    }
}

/// Whether a handle may write. A replay must not gain by opening again what its caller did not grant.
fn is_writable(file: HANDLE) -> io::Result<bool> {
    let mut status = IO_STATUS_BLOCK::default();
    let mut access: u32 = 0;
    // SAFETY: the handle is the caller's, and the answer is one 32-bit number.
    let result = unsafe {
        NtQueryInformationFile(
            file,
            &raw mut status,
            (&raw mut access).cast(),
            size_of::<u32>() as u32,
            FileAccessInformation,
        )
    };
    if result < 0 {
        // SAFETY: translates a number.
        let code = unsafe { RtlNtStatusToDosError(result) };
        return Err(io::Error::from_raw_os_error(code as i32));
    }
    Ok(access & FILE_WRITE_DATA != 0)
}

/// Unit of unbuffered offsets and sizes, from the volume; from the disk's geometry where the system is older.
fn sector_bytes(file: &OwnedHandle) -> u32 {
    let mut info = FILE_STORAGE_INFO::default();
    // SAFETY: the handle is open, and the answer has the size that is said.
    let told = unsafe {
        GetFileInformationByHandleEx(
            file.as_raw_handle(),
            FileStorageInfo,
            (&raw mut info).cast(),
            size_of::<FILE_STORAGE_INFO>() as u32,
        )
    };
    if told != 0 && info.LogicalBytesPerSector > 0 {
        return info.LogicalBytesPerSector;
    }
    sector_bytes_of_volume(file).unwrap_or(SECTOR_BYTES)
}

fn sector_bytes_of_volume(file: &OwnedHandle) -> Option<u32> {
    let mut path = [0u16; 32_768];
    let mut volume = [0u16; MAX_PATH as usize + 1];
    let (mut clusters, mut bytes, mut free, mut total) = (0, 0, 0, 0);
    // SAFETY: the handle is open, and each buffer has the length that is said and ends in a zero when the call succeeds.
    let told = unsafe {
        let length = GetFinalPathNameByHandleW(
            file.as_raw_handle(),
            path.as_mut_ptr(),
            path.len() as u32,
            0,
        );
        length > 0
            && (length as usize) < path.len()
            && GetVolumePathNameW(path.as_ptr(), volume.as_mut_ptr(), volume.len() as u32) != 0
            && GetDiskFreeSpaceW(
                volume.as_ptr(),
                &raw mut clusters,
                &raw mut bytes,
                &raw mut free,
                &raw mut total,
            ) != 0
    };
    (told && bytes > 0).then_some(bytes)
}

/// Unit of memory addresses, from the driver.
fn address_bytes(file: &OwnedHandle) -> u32 {
    let mut info = FILE_ALIGNMENT_INFO::default();
    // SAFETY: the handle is open, and the answer has the size that is said.
    let told = unsafe {
        GetFileInformationByHandleEx(
            file.as_raw_handle(),
            FileAlignmentInfo,
            (&raw mut info).cast(),
            size_of::<FILE_ALIGNMENT_INFO>() as u32,
        )
    };
    if told == 0 {
        return ADDRESS_BYTES;
    }
    info.AlignmentRequirement.saturating_add(1) // a mask: 511 for 512
}
