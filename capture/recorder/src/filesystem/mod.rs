//! The filesystem layer: calls on files, and which file a sector belongs to.
//!
//! Two tracing instances feed it. One holds the system calls of the processes that use a recorded file system, and the
//! events that tell which file a call reached; the kernel filters both. The other holds what any thread, the
//! kernel's own included, does to the recorded file systems: space given to files, files deleted, and asynchronous direct
//! I/O, which no system call's exit ends.

mod attribution;
pub mod bindings;
mod calls;
mod catalogue;
mod descriptors;
mod events;
mod extents;
mod handles;
mod layout;
mod openers;
mod scan;
mod session;
mod sources;
mod syncs;
