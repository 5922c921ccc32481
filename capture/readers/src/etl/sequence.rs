//! Holes in the numbering of buffers: a hint that some were lost.

/// `missing` buffers are not there from number `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    pub first: i64,
    pub missing: u64,
}

/// Holes between the sequence numbers of a log's data buffers. The header buffer has number 0 and 1 follows, unless
/// the log is circular: then it starts anywhere.
pub fn holes(mut sequences: Vec<i64>, circular: bool) -> Vec<Hole> {
    sequences.sort_unstable();
    let mut expected = if circular { None } else { Some(1) };
    let mut holes = Vec::new();
    for sequence in sequences {
        if let Some(first) = expected.filter(|expected| sequence > *expected) {
            holes.push(Hole {
                first,
                missing: sequence.abs_diff(first),
            });
        }
        expected = expected.max(Some(sequence.saturating_add(1)));
    }
    holes
}

#[test]
fn finds_holes_in_any_order() {
    assert_eq!(
        holes(vec![5, 2, 1, 3, 9], false),
        [
            Hole {
                first: 4,
                missing: 1
            },
            Hole {
                first: 6,
                missing: 3
            }
        ]
    );
    assert_eq!(
        holes(vec![7, 8, 8, 10], true),
        [Hole {
            first: 9,
            missing: 1
        }]
    );
    assert_eq!(holes(vec![i64::MIN, i64::MAX], true).len(), 1);
    assert_eq!(holes(vec![], false), []);
}
