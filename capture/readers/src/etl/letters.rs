//! Drive letters for a log that maps none: an unmerged one names volumes only as the kernel does.
//!
//! A file's I/O falls into the partition its volume lies on, and the log's own description of the partitions gives their
//! letters. A volume gets a letter only if all its I/O agrees on one partition and no other volume claims it: a
//! spanned, striped or pooled volume stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Mapping;

const VOLUME_PREFIX: &str = r"\Device\HarddiskVolume";

/// Which partitions the I/O of each volume fell into; `None` outside any.
#[derive(Default)]
pub struct Votes(BTreeMap<String, BTreeSet<Option<usize>>>);

impl Votes {
    /// I/O to a file with this kernel path went into this partition.
    pub fn add(&mut self, path: &str, partition: Option<usize>) {
        if let Some(volume) = volume(path) {
            if let Some(seen) = self.0.get_mut(volume) {
                seen.insert(partition);
            } else {
                self.0
                    .insert(volume.to_owned(), BTreeSet::from([partition]));
            }
        }
    }

    /// The mappings all votes agree on, given each partition's letter (`C:`, or empty).
    pub fn mappings(self, letters: &[&str]) -> Vec<Mapping> {
        let mut claims: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (volume, seen) in self.0 {
            let mut seen = seen.into_iter();
            if let (Some(Some(partition)), None) = (seen.next(), seen.next()) {
                claims.entry(letters[partition]).or_default().push(volume);
            }
        }
        claims
            .into_iter()
            .filter(|(letter, volumes)| !letter.is_empty() && volumes.len() == 1)
            .map(|(letter, volumes)| Mapping {
                order: (0, 0),
                kernel: volumes[0].clone(),
                user: format!(r"{letter}\"),
            })
            .collect()
    }
}

/// The part of a kernel path that names a plain volume, with its backslash. Shadow copies are none.
fn volume(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(VOLUME_PREFIX)?;
    let digits = rest.find('\\')?;
    let is_number = digits > 0 && rest[..digits].bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| &path[..=VOLUME_PREFIX.len() + digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_volumes_count() {
        assert_eq!(
            volume(r"\Device\HarddiskVolume12\a\b"),
            Some(r"\Device\HarddiskVolume12\")
        );
        assert_eq!(volume(r"\Device\HarddiskVolumeShadowCopy1\a"), None);
        assert_eq!(volume(r"\Device\HarddiskVolume\a"), None);
        assert_eq!(volume(r"\Device\HarddiskVolume3"), None);
    }
}
