//! What is counted while the buffers of a log are decoded.

/// Declares `Counts` and how two of them add up.
macro_rules! counts {
    ($($(#[$meaning:meta])* $name:ident),* $(,)?) => {
        /// Counts over all buffers.
        #[derive(Debug, Default, Clone, Copy)]
        pub struct Counts {
            $($(#[$meaning])* pub $name: u64,)*
        }

        impl Counts {
            /// Take over what another worker counted.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    buffers,
    events,
    damaged_buffers,
    /// Buffers flagged with lost events or lost buffers.
    loss_flags,
    /// Events that mark losses in real-time delivery.
    loss_events,
    /// Kernel events shorter than their form, or of a form too old to be read.
    rejected_events,
    /// Disk events without an Irp (Server 2003 form).
    old_disk_events,
    /// Completed disk I/O as the kernel logger tells it.
    reads,
    writes,
    flushes,
    /// The same as the manifest provider tells it.
    manifest_reads,
    manifest_writes,
    manifest_flushes,
    /// Starts of disk I/O.
    inits,
    /// Disk events of optical drives, which are not read.
    optical_events,
    /// Reads, writes and flushes of files, and ends of any file operation, as the kernel logger tells them.
    operations,
    operation_ends,
    /// The same as the manifest provider tells them.
    manifest_operations,
    manifest_operation_ends,
    /// Events of the port driver: completions with the time in the device, in the stack, with the whole command,
    /// dispatches, and completions without a time.
    requests_timed_in_device,
    requests_timed_in_stack,
    requests_detailed,
    requests_dispatched,
    requests_done,
    /// Service times of the port driver of Windows 7: without an address on the disk, and in no stated unit.
    requests_of_windows_7,
    /// Events that sum up slow or failed I/O of a device.
    requests_summed_up,
}
