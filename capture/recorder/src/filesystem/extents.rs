//! Which file a byte of a device belongs to.

use std::collections::BTreeMap;

/// Ranges of bytes and their owners. A range given to another owner replaces what was known of it; one that is only
/// freed keeps its owner, as nothing is written there before it is given away again.
#[derive(Debug, Default)]
pub struct ExtentMap(BTreeMap<u64, (u64, u32)>);

impl ExtentMap {
    /// `start..end` belongs to `owner` from now on.
    pub fn insert(&mut self, start: u64, end: u64, owner: u32) {
        if start >= end {
            return;
        }
        if let Some((&before, &(before_end, before_owner))) = self.0.range(..start).next_back()
            && before_end > start
        {
            self.0.insert(before, (start, before_owner));
            if before_end > end {
                self.0.insert(end, (before_end, before_owner));
            }
        }
        while let Some((&at, &(at_end, at_owner))) = self.0.range(start..end).next() {
            self.0.remove(&at);
            if at_end > end {
                self.0.insert(end, (at_end, at_owner));
            }
        }
        self.0.insert(start, (end, owner));
    }

    /// The owner of the byte at `at`.
    #[must_use]
    pub fn owner(&self, at: u64) -> Option<u32> {
        let (_, &(end, owner)) = self.0.range(..=at).next_back()?;
        (at < end).then_some(owner)
    }

    /// Ranges held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_owner_of_a_range_has_it() {
        let mut map = ExtentMap::default();
        map.insert(0, 100, 1);
        map.insert(40, 60, 2); // within
        map.insert(90, 120, 3); // across the end
        map.insert(50, 50, 9); // nothing
        let owners = [0, 39, 40, 59, 60, 89, 90, 119, 120].map(|at| map.owner(at));
        let expected = [1, 1, 2, 2, 1, 1, 3, 3].map(Some);
        assert_eq!(owners[..8], expected);
        assert_eq!(owners[8], None);
        map.insert(10, 110, 4); // over several
        assert_eq!(
            [9, 10, 109, 110].map(|at| map.owner(at)),
            [1, 4, 4, 3].map(Some)
        );
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn as_an_array_of_owners_would_have_it() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64; // xorshift, fixed seed
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut map, mut plain) = (ExtentMap::default(), [None; 256]);
        for owner in 0..2000 {
            let start = next(256);
            let end = (start + next(40)).min(256);
            map.insert(start, end, owner);
            plain[start as usize..end as usize].fill(Some(owner));
            let seen: Vec<_> = (0..256).map(|at| map.owner(at)).collect();
            assert_eq!(seen, plain);
        }
    }
}
