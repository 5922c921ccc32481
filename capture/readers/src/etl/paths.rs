//! Kernel paths as users know them.

use super::facts::Mapping;

/// A kernel path as users know it, by the log's own mappings: without regard to case, in their order, first hit wins.
pub fn user_path(kernel: &str, mappings: &[Mapping]) -> String {
    mappings
        .iter()
        .filter(|mapping| !mapping.kernel.is_empty())
        .find_map(|mapping| {
            let (prefix, rest) = kernel.split_at_checked(mapping.kernel.len())?;
            (prefix.to_lowercase() == mapping.kernel.to_lowercase())
                .then(|| format!("{}{rest}", mapping.user))
        })
        .unwrap_or_else(|| kernel.to_owned())
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
        let mappings = [
            mapping(r"\??\", ""),
            mapping(r"\Device\HarddiskVolume2\", r"C:\"),
            mapping(r"\Device\HARDDISKVOLUME2\", r"D:\"),
        ];
        assert_eq!(
            user_path(r"\device\harddiskvolume2\a\B.mdf", &mappings),
            r"C:\a\B.mdf"
        );
        assert_eq!(user_path(r"\??\E:\x", &mappings), r"E:\x");
        assert_eq!(
            user_path(r"\Device\HarddiskVolume21\x", &mappings),
            r"\Device\HarddiskVolume21\x"
        );
        assert_eq!(user_path("ä", &[mapping("a", "b")]), "ä");
    }

    #[test]
    fn metadata_files_stand_in_the_root() {
        assert!(is_metadata(r"C:\$LogFile") && is_metadata(r"\Device\HarddiskVolume2\$Mft"));
        assert!(
            !is_metadata(r"C:\$Recycle.Bin\x") && !is_metadata(r"C:\a\$Mft") && !is_metadata("$")
        );
    }
}
