//! From Windows error codes to the numbers that recordings hold.
//!
//! A recording's `error` column has one meaning wherever it was made: 0 or a Linux errno, as in linux/errno.h. What has
//! no like is `EIO`. Codes are those of winerror.h, documented as "System Error Codes".

use crate::device::ERROR_TARGET_ENDED;

/// Input or output error: the errno of everything that has none of its own.
const EIO: i32 = 5;
/// A misaligned request, refused by this program or by Windows.
pub const EINVAL: i32 = 22;

/// The errno that stands for the Windows error `code`; 0 for none.
pub fn errno_of(code: u32) -> i32 {
    match code {
        0 => 0,
        6 => 9,                            // INVALID_HANDLE: EBADF
        21 | 1112 => 123,                  // NOT_READY, NO_MEDIA_IN_DRIVE: ENOMEDIUM
        995 => 125,                        // OPERATION_ABORTED: ECANCELED
        8 | 14 | 1450 | 1453 | 1816 => 12, // NOT_ENOUGH_MEMORY, OUTOFMEMORY, NO_SYSTEM_RESOURCES, quotas: ENOMEM
        5 => 13,                           // ACCESS_DENIED: EACCES
        32 | 33 | 170 => 16,               // SHARING_VIOLATION, LOCK_VIOLATION, BUSY: EBUSY
        20 | 55 | 433 | 1167 | 1617 => 19, // BAD_UNIT, DEV_NOT_EXIST, NO_SUCH_DEVICE, DEVICE_NOT_CONNECTED, _REMOVED: ENODEV
        87 => EINVAL,                      // INVALID_PARAMETER, how misalignment is refused
        223 | 665 => 27,                   // FILE_TOO_LARGE, FILE_SYSTEM_LIMITATION: EFBIG
        39 | 112 => 28,                    // HANDLE_DISK_FULL, DISK_FULL: ENOSPC
        19 => 30,                          // WRITE_PROTECT: EROFS
        38 => ERROR_TARGET_ENDED,          // HANDLE_EOF: ENODATA
        1 | 50 => 95,                      // INVALID_FUNCTION, NOT_SUPPORTED: EOPNOTSUPP
        121 | 1460 => 110, // SEM_TIMEOUT, which disk drivers report, and TIMEOUT: ETIMEDOUT
        1295 => 122,       // DISK_QUOTA_EXCEEDED: EDQUOT
        _ => EIO, // CRC, SECTOR_NOT_FOUND, WRITE_FAULT, READ_FAULT, GEN_FAILURE, IO_DEVICE, …
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn numbers_are_those_of_linux() {
        let expected = [
            (0, 0),
            (112, libc::ENOSPC),
            (39, libc::ENOSPC),
            (87, libc::EINVAL),
            (5, libc::EACCES),
            (19, libc::EROFS),
            (38, libc::ENODATA),
            (1167, libc::ENODEV),
            (995, libc::ECANCELED),
            (121, libc::ETIMEDOUT),
            (1117, libc::EIO),
            (23, libc::EIO),
            (50, libc::EOPNOTSUPP),
            (170, libc::EBUSY),
            (8, libc::ENOMEM),
            (6, libc::EBADF),
            (21, libc::ENOMEDIUM),
            (223, libc::EFBIG),
            (1295, libc::EDQUOT),
        ];
        for (code, errno) in expected {
            assert_eq!(errno_of(code), errno, "of Windows error {code}");
        }
    }

    #[cfg(windows)]
    #[test]
    fn codes_are_those_of_windows() {
        use windows_sys::Win32::Foundation as f;
        let expected = [
            (f::ERROR_DISK_FULL, 28),
            (f::ERROR_HANDLE_DISK_FULL, 28),
            (f::ERROR_INVALID_PARAMETER, EINVAL),
            (f::ERROR_ACCESS_DENIED, 13),
            (f::ERROR_WRITE_PROTECT, 30),
            (f::ERROR_HANDLE_EOF, 61),
            (f::ERROR_DEVICE_NOT_CONNECTED, 19),
            (f::ERROR_DEVICE_REMOVED, 19),
            (f::ERROR_NO_SUCH_DEVICE, 19),
            (f::ERROR_DEV_NOT_EXIST, 19),
            (f::ERROR_BAD_UNIT, 19),
            (f::ERROR_OPERATION_ABORTED, 125),
            (f::ERROR_SEM_TIMEOUT, 110),
            (f::ERROR_TIMEOUT, 110),
            (f::ERROR_IO_DEVICE, EIO),
            (f::ERROR_CRC, EIO),
            (f::ERROR_NOT_SUPPORTED, 95),
            (f::ERROR_INVALID_FUNCTION, 95),
            (f::ERROR_BUSY, 16),
            (f::ERROR_SHARING_VIOLATION, 16),
            (f::ERROR_LOCK_VIOLATION, 16),
            (f::ERROR_NOT_ENOUGH_MEMORY, 12),
            (f::ERROR_OUTOFMEMORY, 12),
            (f::ERROR_NO_SYSTEM_RESOURCES, 12),
            (f::ERROR_WORKING_SET_QUOTA, 12),
            (f::ERROR_NOT_ENOUGH_QUOTA, 12),
            (f::ERROR_INVALID_HANDLE, 9),
            (f::ERROR_NOT_READY, 123),
            (f::ERROR_NO_MEDIA_IN_DRIVE, 123),
            (f::ERROR_FILE_TOO_LARGE, 27),
            (f::ERROR_FILE_SYSTEM_LIMITATION, 27),
            (f::ERROR_DISK_QUOTA_EXCEEDED, 122),
        ];
        for (code, errno) in expected {
            assert_eq!(errno_of(code), errno, "of Windows error {code}");
        }
    }
}
