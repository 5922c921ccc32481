//! Doors for the fuzzer (`capture/readers/fuzz`): everything a caller may ask of each reader, on any bytes. Only a panic, or
//! memory or time out of proportion, is a finding; `Unreadable` is an answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::error::Unreadable;
use crate::{blktrace, etl, lznt1, xel, xpress, xpress_huffman};

/// One way to hand bytes to a reader.
pub type Target = fn(&[u8]);

/// All of them, by name; where a format of files has the same name, it is that format's reader.
pub const TARGETS: [(&str, Target); 8] = [
    ("etl", |data| with_file(data, etl::fuzz)),
    ("xel", |data| with_file(data, xel::fuzz)),
    ("blktrace", |data| {
        with_file(data, |path| blktrace::fuzz(path, "blktrace"))
    }),
    ("blkparse", |data| {
        with_file(data, |path| blktrace::fuzz(path, "blkparse"))
    }),
    ("perf", |data| {
        with_file(data, |path| blktrace::fuzz(path, "perf"))
    }),
    ("lznt1", |data| {
        with_length(data, |input, scratch, expected| {
            lznt1::decompress(input, scratch, expected).is_ok()
        });
    }),
    ("xpress", |data| {
        with_length(data, |input, scratch, expected| {
            xpress::decompress(input, scratch, expected).is_ok()
        });
    }),
    ("xpress-huffman", |data| {
        with_length(data, |input, scratch, expected| {
            xpress_huffman::decompress(input, scratch, expected).is_ok()
        });
    }),
];

static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("iotrace-fuzz-{}", std::process::id());
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.join(name)
    } else {
        std::env::temp_dir().join(name)
    }
});

fn with_file(data: &[u8], read: impl FnOnce(&Path) -> Result<(), Unreadable>) {
    fs::write(&*PATH, data).expect("room for the input");
    if let Err(Unreadable::Content { what, hint }) = read(&PATH) {
        assert!(!what.contains("defect"), "{what}");
        assert!(!hint.is_empty());
    }
}

/// The first three bytes say how much is to come out, up to 1 MiB: clearing more would take the time.
fn with_length(data: &[u8], decompress: impl FnOnce(&[u8], &mut Vec<u8>, usize) -> bool) {
    let Some((&[low, middle, high], input)) = data.split_first_chunk::<3>() else {
        return;
    };
    let expected = u32::from_le_bytes([low, middle, high & 0xF, 0]) as usize;
    let mut scratch = Vec::new();
    if decompress(input, &mut scratch, expected) {
        assert!(scratch.len() >= expected);
    }
}
