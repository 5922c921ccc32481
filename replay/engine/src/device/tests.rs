//! The system's real devices against a real file: the same promises, kept by each.

use std::fs::File;
use std::io::{Read, Write};

use super::{Completion, Device, ERROR_TARGET_ENDED};
use crate::clock::MonotonicClock;
use crate::memory::{ReadMemory, WriteMemory};
use crate::plan::{Io, Op};

const FILE_BYTES: usize = 64 << 10;

/// What a system answers to a write and to a flush on a file open for reading.
#[cfg(target_os = "linux")]
const REFUSED: [i32; 2] = [libc::EBADF, 0];
#[cfg(windows)]
const REFUSED: [i32; 2] = [13, 13]; // EACCES: there a flush is a kind of write

struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("iotrace-engine-{}-{name}", std::process::id()));
        File::create(&path)
            .and_then(|mut file| file.write_all(&vec![7; FILE_BYTES]))
            .expect("room for 64 KiB");
        Self(path)
    }

    fn contents(&self) -> Vec<u8> {
        let mut contents = Vec::new();
        File::open(&self.0)
            .and_then(|mut file| file.read_to_end(&mut contents))
            .expect("it was just written");
        contents
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn io(row: u64, op: Op, offset_bytes: u64, size_bytes: u32) -> Io {
    Io {
        row,
        op,
        target: 0,
        durable: true,
        preflush: op == Op::Write,
        offset_bytes,
        size_bytes,
    }
}

fn errors_of(device: &mut dyn Device, ios: &[Io]) -> Vec<i32> {
    for (slot, io) in ios.iter().enumerate() {
        device.stage(slot as u32, io).expect("slots are free");
    }
    device.submit().expect("the device takes I/Os");
    let mut seen: Vec<Completion> = Vec::new();
    while seen.len() < ios.len() {
        device.wait(1_000_000_000).expect("waiting works");
        device.reap(&mut seen).expect("reaping works");
    }
    seen.sort_by_key(|end| end.slot);
    seen.iter().map(|end| end.error).collect()
}

#[cfg(target_os = "linux")]
fn with_each(file: &File, check: impl Fn(&mut dyn Device)) {
    use super::threads::ThreadsDevice;
    use super::uring::UringDevice;
    use std::os::fd::AsRawFd;

    let files = [file.as_raw_fd()];
    let memory = || {
        (
            ReadMemory::new(8, 65_536, 1),
            WriteMemory::new(8, 65_536, 1, 1),
        )
    };
    let (reads, writes) = memory();
    match UringDevice::new(&files, 8, reads, writes) {
        Ok(mut device) => check(&mut device),
        Err(problem) => {
            eprintln!("io_uring is not permitted here ({problem}): only threads are tested");
        }
    }
    let (reads, writes) = memory();
    let mut threads = ThreadsDevice::new(&files, 8, reads, writes, MonotonicClock::starting_in(0))
        .expect("threads can be had");
    check(&mut threads);
}

#[cfg(windows)]
fn with_each(file: &File, check: impl Fn(&mut dyn Device)) {
    use super::windows::OverlappedDevice;
    use std::os::windows::io::AsRawHandle;

    let files = [file.as_raw_handle() as isize];
    for direct in [true, false] {
        let reads = ReadMemory::new(8, 65_536, 1);
        let writes = WriteMemory::new(8, 65_536, 1, 1);
        let clock = MonotonicClock::starting_in(0);
        let mut device = OverlappedDevice::new(&files, direct, 8, reads, writes, clock)
            .expect("a file can be opened again");
        check(&mut device);
    }
}

#[test]
fn writes_change_their_own_bytes_and_no_others() {
    let scratch = Scratch::new("writes");
    let file = File::options()
        .read(true)
        .write(true)
        .open(&scratch.0)
        .expect("it is there");
    with_each(&file, |device| {
        std::fs::write(&scratch.0, vec![7; FILE_BYTES]).expect("room for 64 KiB");
        let ios = [
            io(0, Op::Write, 8192, 8192),
            io(1, Op::Write, 32_768, 4096),
            io(2, Op::Flush, 0, 0),
        ];
        assert_eq!(errors_of(device, &ios), [0, 0, 0]);
        let after = scratch.contents();
        let written = [8192..16_384, 32_768..36_864];
        let untouched = (0..FILE_BYTES).filter(|at| !written.iter().any(|part| part.contains(at)));
        assert!(untouched.into_iter().all(|at| after[at] == 7));
        for part in written {
            let distinct: std::collections::HashSet<&u8> = after[part].iter().collect();
            assert!(
                distinct.len() > 200,
                "incompressible data uses every byte value"
            );
        }
    });
}

#[test]
fn a_transfer_that_meets_the_end_is_an_error_and_not_a_short_success() {
    let scratch = Scratch::new("end");
    let file = File::open(&scratch.0).expect("it is there");
    with_each(&file, |device| {
        let ios = [
            io(0, Op::Read, 0, 65_536),
            io(1, Op::Read, FILE_BYTES as u64 - 4096, 8192),
            io(2, Op::Read, FILE_BYTES as u64, 512),
        ];
        assert_eq!(
            errors_of(device, &ios),
            [0, ERROR_TARGET_ENDED, ERROR_TARGET_ENDED]
        );
    });
}

#[test]
fn a_refused_write_is_that_ios_error() {
    let scratch = Scratch::new("refused");
    let file = File::open(&scratch.0).expect("it is there");
    with_each(&file, |device| {
        let ios = [
            io(0, Op::Write, 0, 4096),
            io(1, Op::Read, 0, 4096),
            io(2, Op::Flush, 0, 0),
        ];
        assert_eq!(errors_of(device, &ios), [REFUSED[0], 0, REFUSED[1]]);
    });
    assert!(scratch.contents().iter().all(|&byte| byte == 7));
}

/// A completion leaves the alarm of its wait set, which must not be taken for that of the next one.
#[test]
fn a_wait_ends_in_time_whatever_the_one_before_was_for() {
    const NEVER_NS: i64 = 3_600_000_000_000;
    let scratch = Scratch::new("alarms");
    let file = File::open(&scratch.0).expect("it is there");
    with_each(&file, |device| {
        for (row, timeouts_ns) in [
            vec![NEVER_NS, 1_000_000],
            vec![NEVER_NS, 100_000, 1_000_000],
            vec![1_000_000, NEVER_NS, 10_000],
        ]
        .into_iter()
        .enumerate()
        {
            device
                .stage(0, &io(row as u64, Op::Read, 0, 4096))
                .expect("the slot is free");
            let mut seen = Vec::new();
            // The first waits are ended by the I/O, which is handed over by them, or by their own time.
            for timeout_ns in timeouts_ns {
                if seen.is_empty() || timeout_ns != NEVER_NS {
                    device.wait(timeout_ns).expect("waiting works");
                    device.reap(&mut seen).expect("reaping works");
                }
            }
            while seen.is_empty() {
                device.wait(NEVER_NS).expect("waiting works");
                device.reap(&mut seen).expect("reaping works");
            }
            assert_eq!(seen.len(), 1);
        }
    });
}
