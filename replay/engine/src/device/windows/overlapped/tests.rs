//! The completion port beyond what is asked of every device. Under Wine transfers end as they are submitted: see
//! docs/experiments/windows.md for what that cannot show.

use std::fs::File;
use std::io::Write;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::AsRawHandle;
use std::path::PathBuf;
use std::ptr::null;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_DUPLEX,
};
use windows_sys::Win32::System::Pipes::{CreateNamedPipeW, PIPE_TYPE_BYTE};

use super::super::port::owned;
use super::*;
use crate::backend::{Backend, Wish};
use crate::memory::Random;
use crate::pacer::Settings;
use crate::run::Run;

const BLOCK_BYTES: u32 = 8192;
const BLOCKS: u64 = 512;
const CANCELLED: i32 = 125;

/// A file whose every block begins with its own number; it goes when it is closed.
fn numbered_blocks(name: &str) -> File {
    let path: PathBuf =
        std::env::temp_dir().join(format!("iotrace-port-{}-{name}", std::process::id()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .custom_flags(FILE_FLAG_DELETE_ON_CLOSE)
        .open(path)
        .expect("a folder for temporary files");
    for number in 0..BLOCKS {
        let mut block = vec![0; BLOCK_BYTES as usize];
        block[..8].copy_from_slice(&number.to_ne_bytes());
        file.write_all(&block).expect("room for 4 MiB");
    }
    file
}

fn memory(slots: u32) -> (ReadMemory, WriteMemory) {
    let (slots, bytes) = (slots as usize, BLOCK_BYTES as usize);
    (
        ReadMemory::new(slots, bytes, 1),
        WriteMemory::new(slots, bytes, 1, 1),
    )
}

fn device(file: &File, direct: bool, slots: u32) -> OverlappedDevice {
    let (reads, writes) = memory(slots);
    let clock = MonotonicClock::starting_in(0);
    OverlappedDevice::new(
        &[file.as_raw_handle() as isize],
        direct,
        slots,
        reads,
        writes,
        clock,
    )
    .expect("a file can be opened again")
}

fn read(offset_bytes: u64, size_bytes: u32) -> Io {
    Io {
        row: 0,
        op: Op::Read,
        target: 0,
        durable: false,
        preflush: false,
        offset_bytes,
        size_bytes,
    }
}

fn ends(device: &mut OverlappedDevice, many: usize) -> Vec<Completion> {
    let mut seen = Vec::new();
    while seen.len() < many {
        device.wait(1_000_000_000).expect("waiting works");
        device.reap(&mut seen).expect("reaping works");
    }
    seen
}

#[test]
fn each_of_many_in_flight_brings_its_own_block() {
    const SLOTS: u32 = 100; // more than the port hands out at once
    let file = numbered_blocks("many");
    let mut device = device(&file, true, SLOTS);
    let mut random = Random::new(3);
    for _ in 0..20 {
        let wanted: Vec<u64> = (0..SLOTS).map(|_| random.bits() % BLOCKS).collect();
        for (slot, number) in wanted.iter().enumerate() {
            let io = read(number * u64::from(BLOCK_BYTES), BLOCK_BYTES);
            device.stage(slot as u32, &io).expect("the slot is free");
        }
        device.submit().expect("the device takes I/Os");
        let seen = ends(&mut device, SLOTS as usize);
        assert!(seen.iter().all(|end| end.error == 0));
        assert!(seen.iter().all(|end| end.issued_ns <= end.completed_ns));
        for (slot, number) in wanted.iter().enumerate() {
            // SAFETY: nothing is in flight, and the slot's memory holds a block.
            let found = unsafe { device.reads.address(slot as u32).cast::<u64>().read() };
            assert_eq!(found, *number);
        }
    }
}

#[test]
fn what_windows_would_refuse_is_refused_before_it_is_asked() {
    let file = numbered_blocks("misaligned");
    let ios = [read(0, 4096), read(100, 4096), read(4096, 100)];
    for (direct, expected) in [(true, [0, EINVAL, EINVAL]), (false, [0, 0, 0])] {
        let mut device = device(&file, direct, 4);
        for (slot, io) in ios.iter().enumerate() {
            device.stage(slot as u32, io).expect("the slot is free");
        }
        let mut seen = ends(&mut device, ios.len());
        seen.sort_by_key(|end| end.slot);
        let errors: Vec<i32> = seen.iter().map(|end| end.error).collect();
        assert_eq!(errors, expected);
    }
}

#[test]
fn a_wait_for_nothing_ends_and_spoils_no_later_one() {
    let file = numbered_blocks("waits");
    let mut device = device(&file, true, 1);
    for round in 0..20 {
        device.wait(round * 200_000).expect("waiting works");
        device.stage(0, &read(0, 4096)).expect("the slot is free");
        assert_eq!(ends(&mut device, 1)[0].error, 0);
    }
}

#[test]
fn an_io_that_never_ends_is_called_back() {
    let name = format!(r"\\.\pipe\iotrace-port-{}", std::process::id());
    let wide: Vec<u16> = name.encode_utf16().chain([0]).collect();
    let access = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED;
    // SAFETY: the name ends in a zero; the rest are numbers.
    let pipe = owned(unsafe {
        CreateNamedPipeW(
            wide.as_ptr(),
            access,
            PIPE_TYPE_BYTE,
            1,
            4096,
            4096,
            0,
            null(),
        )
    })
    .expect("a pipe");
    let silent = File::options().read(true).write(true).open(name);
    let (reads, writes) = memory(1);
    let clock = MonotonicClock::starting_in(0);
    let mut device = OverlappedDevice::over(vec![Target::as_it_is(pipe)], 1, reads, writes, clock)
        .expect("a port");
    device.stage(0, &read(0, 512)).expect("the slot is free");
    device.submit().expect("the device takes I/Os");
    let mut seen = Vec::new();
    device.reap(&mut seen).expect("reaping works");
    assert!(seen.is_empty() && device.pending == 1);
    device.abandon();
    device.reap(&mut seen).expect("reaping works");
    assert_eq!(device.pending, 0);
    assert_eq!(
        seen.iter().map(|end| end.error).collect::<Vec<_>>(),
        [CANCELLED]
    );
    drop(silent);
}

#[test]
fn a_whole_run_comes_back_row_by_row() {
    const ROWS: u64 = 400;
    let file = numbered_blocks("run");
    let column = |values: Vec<u8>| -> ArrayRef { Arc::new(UInt8Array::from(values)) };
    let plan = RecordBatch::try_from_iter([
        (
            "intended_ns",
            Arc::new(Int64Array::from_iter_values(
                (0..ROWS as i64).map(|row| row * 50_000),
            )) as ArrayRef,
        ),
        (
            "offset_bytes",
            Arc::new(UInt64Array::from_iter_values(
                (0..ROWS).map(|row| row * 7 % BLOCKS * u64::from(BLOCK_BYTES)),
            )),
        ),
        (
            "size_bytes",
            Arc::new(UInt32Array::from(vec![BLOCK_BYTES; ROWS as usize])),
        ),
        (
            "op",
            column(
                (0..ROWS)
                    .map(|row| [0, 1, 0, 2][row as usize % 4])
                    .collect(),
            ),
        ),
        (
            "target",
            Arc::new(UInt16Array::from(vec![0; ROWS as usize])),
        ),
        (
            "durable",
            Arc::new(BooleanArray::from(vec![true; ROWS as usize])),
        ),
    ])
    .expect("columns of one length");
    let wish = Wish {
        backend: Backend::Auto,
        in_flight_max: 32,
        read_bytes_max: BLOCK_BYTES,
        write_bytes_max: BLOCK_BYTES,
        submitters: 1,
        seed: 1,
        direct: true,
    };
    let settings = Settings {
        in_flight_max: 32,
        ..Settings::default()
    };
    let mut run = Run::new(vec![file.as_raw_handle() as isize], wish, settings, None);
    run.offer(plan).expect("a plan that can be played");
    run.end_plan();
    let set_up = run.start(None).expect("a port can be had");
    assert_eq!(set_up.backend, "completion_port");
    while !run.wait(Duration::from_secs(1)) {}
    let mut rows = 0;
    while let Some(batch) = run.take().expect("batches can be made") {
        let times = |name| {
            batch
                .column_by_name(name)
                .expect("the column is there")
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        let errors = batch.column_by_name("error").expect("the column is there");
        assert!(
            errors
                .as_primitive::<Int32Type>()
                .values()
                .iter()
                .all(|&error| error == 0)
        );
        let (intended, issued, completed) = (
            times("intended_ns"),
            times("issued_ns"),
            times("completed_ns"),
        );
        for row in 0..batch.num_rows() {
            assert!(intended[row] <= issued[row] && issued[row] <= completed[row]);
        }
        rows += batch.num_rows();
    }
    assert_eq!(rows as u64, ROWS);
}
