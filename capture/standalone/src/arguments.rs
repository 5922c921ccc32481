//! The command line.

use std::path::PathBuf;

use crate::failure::Failure;

/// Shown by `--help`.
pub const HELP: &str = "\
Records the I/O of a Linux host's block devices (needs root). One file, nothing to install.

  iotrace-recorder linux DEVICE… -o FOLDER [--seconds N] [--ring MINUTES] [--max-size SIZE]
                         [--role DEVICE=ROLE]… [--title TEXT] [--host-name NAME]
  iotrace-recorder doctor [--json]
  iotrace-recorder --version

DEVICE is a device, a mount point, or a file on one. FOLDER gets the recording's streams. Copy it to the machine with
iotrace and import it:  iotrace import FOLDER -o NAME.iotrace  (you can copy it while it is being written, or after the
recorder was killed). Without --seconds it records until Ctrl-C. --ring keeps only the last MINUTES minutes.
ROLE is data, log, tempdb_data, tempdb_log, backup, system or other.
Exit status: 0 done; 1 doctor: nothing can be recorded here; 2 wrong use, or it failed.
";

const ROLES: [&str; 7] = [
    "data",
    "log",
    "tempdb_data",
    "tempdb_log",
    "backup",
    "system",
    "other",
];
const SIZE_MIN: u64 = 16 << 20;

/// What is asked for.
#[derive(Debug)]
pub enum Command {
    /// Show `HELP`.
    Help,
    /// Show the version.
    Version,
    /// Look at this host.
    Doctor {
        /// As JSON.
        json: bool,
    },
    /// Record.
    Linux(Options),
}

/// Of `linux`.
#[derive(Debug, Default)]
pub struct Options {
    /// Devices, mount points, or files on them.
    pub devices: Vec<String>,
    /// Folder for the streams.
    pub output: PathBuf,
    /// How long.
    pub seconds: Option<f64>,
    /// Minutes kept.
    pub ring_minutes: Option<f64>,
    /// Bound on the streams of rows.
    pub bytes_max: Option<u64>,
    /// Device and role.
    pub roles: Vec<(String, String)>,
    /// Title of the recording.
    pub title: Option<String>,
    /// In place of the machine's own name.
    pub host_name: Option<String>,
}

/// Read the words behind the program's name.
pub fn parse(words: impl IntoIterator<Item = String>) -> Result<Command, Failure> {
    let mut words = words.into_iter();
    let wrong =
        |message: String| Failure::new(message, "iotrace-recorder --help shows how it is used");
    match words.next().as_deref() {
        None | Some("-h" | "--help" | "help") => Ok(Command::Help),
        Some("-V" | "--version") => Ok(Command::Version),
        Some("doctor") => match (words.next().as_deref(), words.next()) {
            (None, _) => Ok(Command::Doctor { json: false }),
            (Some("--json"), None) => Ok(Command::Doctor { json: true }),
            (Some("-h" | "--help"), _) => Ok(Command::Help),
            (Some(other), _) => Err(wrong(format!("doctor takes no '{other}'"))),
        },
        Some("linux") => linux(words, &wrong),
        Some(other) => Err(wrong(format!("there is no command '{other}'"))),
    }
}

fn linux(
    mut words: impl Iterator<Item = String>,
    wrong: &dyn Fn(String) -> Failure,
) -> Result<Command, Failure> {
    let mut options = Options::default();
    let mut has_output = false;
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            options.devices.push(word);
            continue;
        }
        if word == "-h" || word == "--help" {
            return Ok(Command::Help);
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (word, None),
        };
        let Some(value) = value.or_else(|| words.next()) else {
            return Err(wrong(format!("{name} needs a value")));
        };
        let refused = || wrong(format!("{name} does not take '{value}'"));
        match name.as_str() {
            "-o" | "--output" => {
                options.output = PathBuf::from(&value);
                has_output = true;
            }
            "--seconds" => options.seconds = Some(length(&value).ok_or_else(refused)?),
            "--ring" => options.ring_minutes = Some(length(&value).ok_or_else(refused)?),
            "--max-size" => {
                let bytes = size(&value).ok_or_else(refused)?;
                if bytes < SIZE_MIN {
                    return Err(Failure::new(
                        format!("--max-size {value} is too small to record in"),
                        "use at least 16M",
                    ));
                }
                options.bytes_max = Some(bytes);
            }
            "--role" => {
                let (device, role) = value.rsplit_once('=').ok_or_else(refused)?;
                if device.is_empty() || !ROLES.contains(&role) {
                    return Err(Failure::new(
                        format!("--role '{value}' is not DEVICE=ROLE"),
                        format!("roles are {}", ROLES.join(", ")),
                    ));
                }
                options.roles.push((device.to_owned(), role.to_owned()));
            }
            "--title" => options.title = Some(value),
            "--host-name" => options.host_name = Some(value),
            other => return Err(wrong(format!("there is no option {other}"))),
        }
    }
    if options.devices.is_empty() {
        return Err(Failure::new(
            "no device to record",
            "name one: /dev/sdb, a mount point, or a file on it",
        ));
    }
    if !has_output {
        return Err(wrong("-o FOLDER is missing".to_owned()));
    }
    Ok(Command::Linux(options))
}

fn length(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (0.1..1e9).contains(&number).then_some(number)
}

/// 500M, 20G or plain bytes; K, M, G and T are powers of 1024.
fn size(text: &str) -> Option<u64> {
    let text = text.trim_end_matches('B').trim_end_matches('i');
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'K' | 'k') => (&text[..at], 1 << 10),
        (at, 'M' | 'm') => (&text[..at], 1 << 20),
        (at, 'G' | 'g') => (&text[..at], 1 << 30),
        (at, 'T' | 't') => (&text[..at], 1_u64 << 40),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Command, Failure> {
        parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_whole_command_line_is_understood() {
        let Ok(Command::Linux(options)) = parsed(
            "linux /dev/sdb --seconds=1.5 -o out --role /dev/sdb=log --ring 60 --max-size 20G /mnt",
        ) else {
            panic!("not understood");
        };
        assert_eq!(options.devices, ["/dev/sdb", "/mnt"]);
        assert_eq!(options.seconds, Some(1.5));
        assert_eq!(options.ring_minutes, Some(60.0));
        assert_eq!(options.bytes_max, Some(20 << 30));
        assert_eq!(options.roles, [("/dev/sdb".to_owned(), "log".to_owned())]);
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (words, named) in [
            ("linux -o out", "no device"),
            ("linux /dev/sdb", "-o FOLDER"),
            ("linux /dev/sdb -o", "-o needs"),
            ("linux /dev/sdb -o out --seconds x", "'x'"),
            ("linux /dev/sdb -o out --seconds NaN", "'NaN'"),
            ("linux /dev/sdb -o out --max-size 1M", "1M"),
            (
                "linux /dev/sdb -o out --max-size 99999999999T",
                "99999999999T",
            ),
            (
                "linux /dev/sdb -o out --role /dev/sdb=logs",
                "/dev/sdb=logs",
            ),
            ("linux /dev/sdb -o out --rate 7", "--rate"),
            ("record", "'record'"),
        ] {
            let told = parsed(words).unwrap_err().to_string();
            assert!(told.contains(named), "{words}: {told}");
            assert!(told.contains("\nhint: "));
        }
    }
}
