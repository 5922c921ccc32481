//! From events that name things to what a number meant when.

use std::collections::HashMap;

use super::facts::{FileName, Opened, Thread, Valid};
use super::timeline::{Gathered, Timeline};

/// Paths by number, each once.
#[derive(Debug, Default)]
pub struct Paths(HashMap<String, u32>);

impl Paths {
    /// Number of a path, new or not.
    pub fn number(&mut self, path: String) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(path).or_insert(next)
    }

    /// The paths, each at its number.
    pub fn into_list(self) -> Vec<String> {
        let mut list = vec![String::new(); self.0.len()];
        for (path, number) in self.0 {
            list[number as usize] = path;
        }
        list
    }
}

/// What each file key was called when, as numbers of paths.
pub fn name_timeline(mut names: Vec<FileName>) -> Timeline {
    names.sort_by_key(|name| name.ticks);
    let mut gathered = Gathered::default();
    for name in names {
        gathered.insert(name.key, name.ticks, name.valid, name.path);
    }
    gathered.timeline()
}

/// What each open file was opened as when, as positions in a list of path numbers and options.
pub fn object_timeline(mut opened: Vec<Opened>) -> (Timeline, Vec<(u32, u32)>) {
    opened.sort_by_key(|opened| opened.ticks);
    let mut gathered = Gathered::default();
    let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
    let mut openings = Vec::new();
    for Opened {
        ticks,
        object,
        path,
        options,
    } in opened
    {
        let opening = (path, options);
        let number = *numbers.entry(opening).or_insert_with(|| {
            openings.push(opening);
            openings.len() as u32 - 1
        });
        gathered.insert(object, ticks, Valid::From, number);
    }
    (gathered.timeline(), openings)
}

/// Which process each thread belonged to when.
pub fn thread_timeline(mut threads: Vec<Thread>) -> Timeline {
    threads.sort_by_key(|thread| thread.ticks);
    let mut gathered = Gathered::default();
    for thread in threads {
        gathered.insert(
            u64::from(thread.number),
            thread.ticks,
            thread.valid,
            thread.process,
        );
    }
    gathered.timeline()
}
