//! Records built after the layouts that Linux 6.18 prints for its events.

use super::*;

fn field(offset: usize, size: usize) -> Field {
    Field { offset, size }
}

fn decoder(kind: Kind, fields: &[(&str, usize, usize)]) -> Decoder {
    let fields = fields
        .iter()
        .map(|&(name, offset, size)| (name.to_owned(), field(offset, size)))
        .collect();
    Decoder {
        kind: field(0, 2),
        thread: field(4, 4),
        page_bytes: 4096,
        layouts: HashMap::from([(9, Layout { kind, fields })]),
    }
}

/// Event 9 of thread 77, with these words of 64 bits after the common fields.
fn record(words: &[u64]) -> Vec<u8> {
    let mut record = vec![9, 0, 0, 0, 77, 0, 0, 0];
    record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    record
}

const PREAD: [(&str, usize, usize); 4] = [
    ("fd", 8, 8),
    ("buf", 16, 8),
    ("count", 24, 8),
    ("pos", 32, 8),
];

#[test]
fn a_system_call_states_what_its_arguments_say() {
    let event = decoder(Kind::Enter(Op::Read), &PREAD)
        .decode(5, &record(&[3, 0, 8192, 65536]))
        .unwrap();
    assert_eq!((event.time_ns, event.thread), (5, 77));
    let expected = What::Enter {
        op: Op::Read,
        descriptor: Some(3),
        offset: Some(65536),
        asked: Some(8192),
    };
    assert_eq!(event.what, expected);
    // preadv2(…, -1, …) reads at the file's own position.
    let fields = [("fd", 8, 8), ("pos_l", 16, 8)];
    let event = decoder(Kind::Enter(Op::Read), &fields).decode(5, &record(&[3, u64::MAX]));
    let What::Enter { offset, asked, .. } = event.unwrap().what else {
        panic!("{event:?}")
    };
    assert_eq!((offset, asked), (None, None));
}

#[test]
fn a_result_may_be_negative() {
    let event = decoder(Kind::Exit, &[("ret", 8, 8)]).decode(5, &record(&[-5_i64 as u64]));
    assert_eq!(event.unwrap().what, What::Exit { result: -5 });
}

#[test]
fn page_numbers_become_bytes() {
    let fields = [("i_ino", 8, 8), ("s_dev", 16, 4), ("index", 24, 8)];
    let kind = Kind::Touch("i_ino", Some(Offset::Pages("index")));
    let event = decoder(kind, &fields).decode(5, &record(&[12, 7 << 20 | 3, 2]));
    let expected = What::Touch {
        number: 7 << 20 | 3,
        inode: 12,
        offset: Some(8192),
        direct_flags: None,
    };
    assert_eq!(event.unwrap().what, expected);
}

#[test]
fn space_that_is_only_promised_is_no_place() {
    let fields = [
        ("dev", 8, 4),
        ("ino", 16, 8),
        ("startblock", 24, 8),
        ("blockcount", 32, 8),
    ];
    let decoder = decoder(Kind::AllocatedXfs, &fields);
    assert!(decoder.decode(5, &record(&[1, 12, 24, 2])).is_some());
    let (hole, delayed) = (-2_i64 as u64, -1_i64 as u64);
    let reserved = 0x000f_ffff_fffe_0008; // nullstartblock(8), as XFS keeps it for delayed allocation
    for nowhere in [hole, delayed, reserved] {
        assert!(
            decoder.decode(5, &record(&[1, 12, nowhere, 2])).is_none(),
            "{nowhere:x}"
        );
    }
}

#[test]
fn records_that_are_too_short_or_of_others_are_none() {
    let decoder = decoder(Kind::Exit, &[("ret", 8, 8)]);
    assert!(decoder.decode(5, &record(&[])).is_none());
    assert!(decoder.decode(5, &[8, 0, 0, 0, 77, 0, 0, 0]).is_none());
    assert!(decoder.decode(5, &[]).is_none());
}

#[test]
fn every_event_that_is_not_a_call_is_limited_to_its_file_systems() {
    for source in sources() {
        assert_eq!(
            source.device_field.is_none(),
            source.group == "syscalls",
            "{source:?}"
        );
        assert!(!source.name.is_empty());
    }
}
