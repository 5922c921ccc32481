//! Extended Events files of SQL Server (.xel): two walks, one to learn what is there, one to hand it over.

mod bindings;
mod bytes;
mod container;
mod events;
mod meaning;
mod metadata;
mod rows;
mod scan;
mod sequence;
mod tables;
mod values;

pub use bindings::register;
