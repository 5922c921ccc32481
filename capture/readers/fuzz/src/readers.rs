//! Any bytes through one reader. `IOTRACE_FUZZ_TARGET` names it, as in `iotrace_readers::fuzzing::TARGETS`; the rest of the
//! command line is libFuzzer's. `planted-…` are faults that are to be caught.
#![no_main]

use std::hint::black_box;
use std::sync::LazyLock;

use _readers::fuzzing::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

const PLANTED: [(&str, Target); 3] = [
    ("planted-panic", |data| assert!(data.len() < 3, "planted")),
    ("planted-loop", |data| while black_box(data).len() > 2 {}),
    ("planted-allocation", |data| {
        if data.len() > 2 {
            black_box(vec![1_u8; 4 << 30]);
        }
    }),
];

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("IOTRACE_FUZZ_TARGET").unwrap_or_default();
    let mut all = TARGETS.iter().chain(&PLANTED);
    let Some((_, target)) = all.find(|(known, _)| *known == name) else {
        let known: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        panic!("IOTRACE_FUZZ_TARGET is none of {}", known.join(", "));
    };
    *target
});

fuzz_target!(|data: &[u8]| TARGET(data));
