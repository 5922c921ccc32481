//! Operation and flags of a block-layer event, from the letters the kernel and blkparse print (`rwbs`) or from the bits
//! of a blktrace record.
//!
//! The letters are `[F]` for a flush before it, the operation, then `F` (forced unit access), `A` (read-ahead), `S`
//! (somebody waits) and `M` (metadata). The operation is `R`, `W`, `D` (discard), `DE` (secure erase), `WZ`
//! (write-zeroes), `F` (flush), `Z…` (zones) or `N` for anything else. Two of them need the size beside them:
//!
//! - `N` over sectors is write-zeroes, which had no letter of its own before Linux 6.19. Without sectors it is a driver's own
//!   command, whose events tell no sectors whatever it transfers.
//! - blkparse knows no flush: it prints one as `FN`.
//!
//! A version 7 record of blktrace has no bit for write-zeroes. There they are writes, in blkparse's text too, and nothing
//! tells them from one.

use crate::event::{Op, flags};

/// What the letters `text` of an event over `sectors` sectors say; `None` if it is no I/O (drivers' commands, zones).
#[must_use]
pub fn from_letters(text: &[u8], sectors: u64) -> Option<(Op, u32)> {
    let (mut bits, rest) = match text {
        [b'F', rest @ ..] if !rest.is_empty() => (flags::PREFLUSH, rest),
        _ => (0, text),
    };
    let (op, modifiers) = match rest {
        [b'W', b'Z', rest @ ..] | [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => {
            (Op::Discard, rest)
        }
        [b'R', rest @ ..] => (Op::Read, rest),
        [b'W', rest @ ..] => (Op::Write, rest),
        [b'F', rest @ ..] => (Op::Flush, rest),
        [b'N', rest @ ..] if sectors > 0 => (Op::Discard, rest),
        [b'N', rest @ ..] if bits != 0 => (Op::Flush, rest),
        _ => return None,
    };
    for modifier in modifiers {
        bits |= match modifier {
            b'F' => flags::WRITE_THROUGH,
            b'A' => flags::READAHEAD,
            b'S' => flags::SYNCHRONOUS,
            b'M' => flags::METADATA,
            b'A'..=b'Z' => 0,
            _ => return None,
        };
    }
    if op == Op::Flush {
        bits &= !flags::PREFLUSH; // a flush is the flush
    }
    Some((op, bits))
}

/// The same of a blktrace record's category, the upper half of its action (`BLK_TC_*` of `linux/blktrace_api.h`).
#[must_use]
pub fn from_category(category: u32, sectors: u64) -> Option<(Op, u32)> {
    const WRITE: u32 = 1 << 1;
    const FLUSH: u32 = 1 << 2;
    const DISCARD: u32 = 1 << 13;
    let has = |bit: u32| category & bit != 0;
    let op = if has(DISCARD) {
        Op::Discard
    } else if has(WRITE) {
        Op::Write
    } else if sectors > 0 {
        Op::Read
    } else if has(FLUSH) {
        Op::Flush
    } else {
        return None;
    };
    let mut bits = 0;
    for (bit, flag) in [
        (1 << 3, flags::SYNCHRONOUS),
        (1 << 15, flags::WRITE_THROUGH),
        (1 << 11, flags::READAHEAD),
        (1 << 12, flags::METADATA),
    ] {
        if has(bit) {
            bits |= flag;
        }
    }
    if has(FLUSH) && op != Op::Flush {
        bits |= flags::PREFLUSH;
    }
    Some((op, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_seen_on_linux() {
        use flags::*;
        for (text, expected) in [
            ("R", Some((Op::Read, 0))),
            ("RA", Some((Op::Read, READAHEAD))),
            ("RSM", Some((Op::Read, SYNCHRONOUS | METADATA))),
            ("WS", Some((Op::Write, SYNCHRONOUS))),
            ("WFS", Some((Op::Write, WRITE_THROUGH | SYNCHRONOUS))),
            (
                "FWFSM",
                Some((Op::Write, PREFLUSH | WRITE_THROUGH | SYNCHRONOUS | METADATA)),
            ),
            ("FWS", Some((Op::Write, PREFLUSH | SYNCHRONOUS))),
            ("D", Some((Op::Discard, 0))),
            ("DE", Some((Op::Discard, 0))),
            ("DES", Some((Op::Discard, SYNCHRONOUS))),
            ("DS", Some((Op::Discard, SYNCHRONOUS))),
            ("WZS", Some((Op::Discard, SYNCHRONOUS))),
            ("NS", Some((Op::Discard, SYNCHRONOUS))), // write-zeroes on Linux 6.18
            ("WSU", Some((Op::Write, SYNCHRONOUS))),  // atomic
            ("ZR", None),
            ("R,", None),
            ("", None),
        ] {
            assert_eq!(from_letters(text.as_bytes(), 8), expected, "{text}");
        }
        for (text, expected) in [
            ("FF", Some((Op::Flush, 0))),
            ("F", Some((Op::Flush, 0))),
            ("FN", Some((Op::Flush, 0))),
            ("FNS", Some((Op::Flush, SYNCHRONOUS))),
            ("FWS", Some((Op::Write, PREFLUSH | SYNCHRONOUS))),
            ("N", None),
            ("NS", None),
        ] {
            assert_eq!(from_letters(text.as_bytes(), 0), expected, "{text}");
        }
    }

    #[test]
    fn categories_as_the_kernel_names_their_bits() {
        use flags::*;
        // linux/blktrace_api.h: BLK_TC_READ is bit 0, and so on in this order.
        let [read, write, flush, sync] = [1, 1 << 1, 1 << 2, 1 << 3];
        let [ahead, meta, discard, drv_data, fua] = [11, 12, 13, 14, 15].map(|bit| 1 << bit);
        for (category, sectors, expected) in [
            (read, 8, Some((Op::Read, 0))),
            (
                read | ahead | meta,
                8,
                Some((Op::Read, READAHEAD | METADATA)),
            ),
            (write | sync, 8, Some((Op::Write, SYNCHRONOUS))),
            (write | fua, 8, Some((Op::Write, WRITE_THROUGH))),
            (
                write | flush | sync,
                8,
                Some((Op::Write, PREFLUSH | SYNCHRONOUS)),
            ),
            (write | flush, 0, Some((Op::Write, PREFLUSH))),
            (write | discard, 8, Some((Op::Discard, 0))),
            (discard | sync, 8, Some((Op::Discard, SYNCHRONOUS))),
            (flush, 0, Some((Op::Flush, 0))),
            (flush | sync, 0, Some((Op::Flush, SYNCHRONOUS))),
            (read | flush, 8, Some((Op::Read, PREFLUSH))),
            (0, 8, Some((Op::Read, 0))),
            (0, 1, Some((Op::Read, 0))),
            (read, 0, None),
            (drv_data, 0, None),
        ] {
            assert_eq!(from_category(category, sectors), expected, "{category:#x}");
        }
    }
}
