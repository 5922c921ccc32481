//! The recording's tables as Arrow IPC streams in a folder, beside a manifest.json; `iotrace import` reads them.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};

const RING_PIECES: u64 = 20;
const PIECE_NS_MIN: u64 = 5_000_000_000;

/// Make the folder, readable by its owner alone. It must not be there.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(folder)
}

/// Make `name` in the folder hold `bytes`, or leave what it held.
pub fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!(".{name}.new"));
    let mut file = create(&new, true)?;
    file.write_all(bytes)?;
    fs::rename(new, folder.join(name))
}

/// The same with a small table.
pub fn replace_table(folder: &Path, table: &str, batch: &RecordBatch) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).map_err(plain)?;
    writer.write(batch).map_err(plain)?;
    writer.finish().map_err(plain)?;
    drop(writer);
    replace(folder, &format!("{table}.arrows"), &bytes)
}

/// A table that grows: one stream, or in a ring pieces of it of which the oldest are dropped.
pub struct Growing {
    folder: PathBuf,
    table: &'static str,
    ring_ns: Option<u64>,
    writer: Option<StreamWriter<BufWriter<File>>>,
    began_ns: u64,
    number: u64,
    /// Number, end and rows of every piece that is closed.
    closed: VecDeque<(u64, u64, u64)>,
    open_rows: u64,
}

impl Growing {
    /// An empty one. `ring_ns`: how much of the past is kept.
    pub fn new(folder: &Path, table: &'static str, ring_ns: Option<u64>) -> Self {
        Self {
            folder: folder.to_owned(),
            table,
            ring_ns,
            writer: None,
            began_ns: 0,
            number: 0,
            closed: VecDeque::new(),
            open_rows: 0,
        }
    }

    /// Rows that are there.
    pub fn rows(&self) -> u64 {
        self.open_rows + self.closed.iter().map(|piece| piece.2).sum::<u64>()
    }

    /// Bytes that are there.
    pub fn bytes(&self) -> u64 {
        let numbers = self.closed.iter().map(|piece| piece.0);
        numbers
            .chain([self.number])
            .filter_map(|number| self.path(number).metadata().ok())
            .map(|file| file.len())
            .sum()
    }

    /// Append rows; they are in the file when this returns.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        if self.writer.is_none() {
            self.open(&batch.schema())?;
        }
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        if batch.num_rows() > 0 {
            writer.write(batch).map_err(plain)?;
        }
        self.open_rows += batch.num_rows() as u64;
        writer.get_mut().flush()
    }

    /// Once in a while: begin a new piece when it is time, and drop what is older than the ring. Where the oldest that
    /// is left begins, if something was dropped.
    pub fn turn(&mut self, at_ns: u64) -> io::Result<Option<u64>> {
        let Some(ring_ns) = self.ring_ns else {
            return Ok(None);
        };
        if at_ns.saturating_sub(self.began_ns) >= (ring_ns / RING_PIECES).max(PIECE_NS_MIN) {
            self.close(at_ns)?;
            self.began_ns = at_ns;
        }
        let mut dropped = None;
        while let Some(&(_, end_ns, _)) = self.closed.front()
            && end_ns < at_ns.saturating_sub(ring_ns)
        {
            dropped = self.drop_oldest();
        }
        Ok(dropped)
    }

    /// Remove the oldest piece that is closed; where what is left begins.
    pub fn drop_oldest(&mut self) -> Option<u64> {
        let (number, end_ns, _) = self.closed.pop_front()?;
        let _ = fs::remove_file(self.path(number));
        Some(end_ns)
    }

    /// Close the stream with its end mark.
    pub fn close(&mut self, at_ns: u64) -> io::Result<()> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        writer.finish().map_err(plain)?;
        writer.get_mut().flush()?;
        self.closed.push_back((self.number, at_ns, self.open_rows));
        self.open_rows = 0;
        self.number += 1;
        Ok(())
    }

    fn open(&mut self, schema: &Schema) -> io::Result<()> {
        let file = BufWriter::with_capacity(1 << 18, create(&self.path(self.number), false)?);
        self.writer = Some(StreamWriter::try_new(file, schema).map_err(plain)?);
        Ok(())
    }

    fn path(&self, number: u64) -> PathBuf {
        let table = self.table;
        self.folder.join(match self.ring_ns {
            Some(_) => format!("{table}-{number:08}.arrows"),
            None => format!("{table}.arrows"),
        })
    }
}

fn create(path: &Path, over: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    if over {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.open(path)
}

fn plain(problem: ArrowError) -> io::Error {
    match problem {
        ArrowError::IoError(_, problem) => problem,
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use arrow_ipc::reader::StreamReader;

    use super::*;

    fn batch(from: i64) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 3));
        RecordBatch::try_from_iter([("at", column)]).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_ring_keeps_its_length_and_every_row_of_it() {
        let folder = std::env::temp_dir().join(format!("iotrace-ring-{}", std::process::id()));
        create_folder(&folder).unwrap();
        let second = 1_000_000_000;
        let mut ring = Growing::new(&folder, "io", Some(10 * second));
        let mut starts = Vec::new();
        for at in 0..30_u64 {
            ring.write(&batch(3 * at as i64)).unwrap();
            starts.extend(ring.turn(at * second).unwrap());
        }
        ring.close(30 * second).unwrap();
        // Pieces are five seconds long: those that ended before the 19th second are gone.
        assert_eq!(starts, [5 * second, 10 * second, 15 * second]);
        let mut read = 0;
        let names = names(&folder);
        assert_eq!(
            names.first().map(String::as_str),
            Some("io-00000003.arrows")
        );
        for name in &names {
            let reader =
                StreamReader::try_new(File::open(folder.join(name)).unwrap(), None).unwrap();
            read += reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>();
        }
        assert_eq!(read as u64, ring.rows());
        assert_eq!(read, 3 * 14); // written in the 16th second and later
        fs::remove_dir_all(folder).unwrap();
    }
}
