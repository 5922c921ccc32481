//! Linux block-layer events and the pairing of them into I/Os, for whoever reads them: the live recorder out of the
//! kernel's ring buffers, the readers out of blktrace's files and the texts of blkparse and perf.
//!
//! A source turns what it reads into an [`Event`], whose operation and flags come from [`rwbs`]; [`Pairing`] turns events
//! in order of time into [`Row`]s.

mod event;
mod in_flight;
mod pairing;
pub mod rwbs;

pub use event::{Event, Kind, Layer, Op, Row, flags};
pub use pairing::{Asker, Counts, Ended, Pairing};
