//! Kernel paths as users know them.

use std::collections::{BTreeSet, HashMap};

use super::facts::Mapping;

/// Prefixes longer than this are no volume's: a limit to what looking for one costs.
const PREFIX_BYTES_MAX: usize = 1024;

/// A log's mappings, to be looked up by what a path begins with: a damaged log may have as many as paths.
#[derive(Default)]
pub struct Mappings {
    lengths: BTreeSet<usize>,
    /// By length in bytes and prefix in lower case: which mapping it was, and what users call it.
    by_prefix: HashMap<(usize, String), (usize, String)>,
}

impl Mappings {
    /// Mappings in the order in which they are to be tried.
    pub fn new(mappings: &[Mapping]) -> Self {
        let mut all = Self::default();
        for (order, mapping) in mappings.iter().enumerate() {
            let length = mapping.kernel.len();
            if (1..=PREFIX_BYTES_MAX).contains(&length) {
                all.lengths.insert(length);
                all.by_prefix
                    .entry((length, mapping.kernel.to_lowercase()))
                    .or_insert_with(|| (order, mapping.user.clone()));
            }
        }
        all
    }

    /// A kernel path as users know it: without regard to case, the first mapping that fits wins.
    pub fn user_path(&self, kernel: &str) -> String {
        self.lengths
            .range(..=kernel.len())
            .filter_map(|length| {
                let (prefix, rest) = kernel.split_at_checked(*length)?;
                let (order, user) = self.by_prefix.get(&(*length, prefix.to_lowercase()))?;
                Some((order, user, rest))
            })
            .min_by_key(|(order, ..)| **order)
            .map_or_else(
                || kernel.to_owned(),
                |(_, user, rest)| format!("{user}{rest}"),
            )
    }
}

/// Whether a path is one of the file system's own files: `$Mft`, `$LogFile` … in the root of a volume.
pub fn is_metadata(path: &str) -> bool {
    let rest = if let Some(rest) = path.strip_prefix(r"\Device\") {
        rest.split_once('\\').map(|(_, rest)| rest)
    } else {
        path.get(1..).and_then(|rest| rest.strip_prefix(r":\"))
    };
    rest.is_some_and(|rest| {
        rest.starts_with('$') && !rest.to_ascii_lowercase().starts_with("$recycle.bin")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mapping_that_fits_wins_without_regard_to_case() {
        let mapping = |kernel: &str, user: &str| Mapping {
            order: (0, 0),
            kernel: kernel.into(),
            user: user.into(),
        };
        let mappings = Mappings::new(&[
            mapping(r"\??\", ""),
            mapping(r"\Device\HarddiskVolume2\", r"C:\"),
            mapping(r"\Device\HARDDISKVOLUME2\", r"D:\"),
            mapping(r"\Device\", r"X:\"),
        ]);
        assert_eq!(
            mappings.user_path(r"\device\harddiskvolume2\a\B.mdf"),
            r"C:\a\B.mdf"
        );
        assert_eq!(mappings.user_path(r"\??\E:\x"), r"E:\x");
        assert_eq!(
            mappings.user_path(r"\Device\HarddiskVolume21\x"),
            r"X:\HarddiskVolume21\x"
        );
        assert_eq!(mappings.user_path(r"\Other\x"), r"\Other\x");
        assert_eq!(Mappings::new(&[mapping("a", "b")]).user_path("ä"), "ä");
    }

    #[test]
    fn metadata_files_stand_in_the_root() {
        assert!(is_metadata(r"C:\$LogFile") && is_metadata(r"\Device\HarddiskVolume2\$Mft"));
        assert!(
            !is_metadata(r"C:\$Recycle.Bin\x") && !is_metadata(r"C:\a\$Mft") && !is_metadata("$")
        );
    }
}
