//! The events of all processors as one stream in order of time.
//!
//! Nothing is gathered and sorted: each processor's buffer is in order, so the next event is the first of one of them.
//! A page is read when the one before it is used up, and is used while the processor's cache still holds it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};

use crate::cpu_buffer::CpuBuffer;
use crate::format::PageFormat;

/// Call `on_event(time_ns, record, is_usable)` for every event up to `until_ns`; those of one time in order of `cpus`.
///
/// A full buffer drops what is new until it is read. So where a processor lost events, the gap begins behind its last
/// event from before `now_ns`, when this reading began: from there on nothing is usable, for what other processors saw
/// meanwhile would be paired wrongly. True if there was such a gap.
pub fn merge<P: Read>(
    cpus: &mut [CpuBuffer<P>],
    format: &PageFormat,
    until_ns: u64,
    now_ns: u64,
    mut on_event: impl FnMut(u64, &[u8], bool),
) -> Result<bool, (usize, io::Error)> {
    let mut in_gap = false;
    let mut heads = BinaryHeap::with_capacity(cpus.len());
    for (index, cpu) in cpus.iter_mut().enumerate() {
        let head_ns = cpu
            .head_ns(format, now_ns)
            .map_err(|problem| (index, problem))?;
        in_gap |= cpu.has_gap && head_ns.is_none_or(|head_ns| head_ns > now_ns);
        heads.extend(head_ns.map(|head_ns| Reverse((head_ns, index))));
    }
    while let Some(Reverse((first_ns, index))) = heads.pop() {
        if first_ns > until_ns {
            break;
        }
        // Processors take turns in long runs more often than event by event.
        let next = heads.peek().map_or((u64::MAX, usize::MAX), |next| next.0);
        let cpu = &mut cpus[index];
        loop {
            if let Some((time_ns, record)) = cpu.take() {
                on_event(time_ns, record, !in_gap);
            }
            let head_ns = cpu
                .head_ns(format, now_ns)
                .map_err(|problem| (index, problem))?;
            in_gap |= cpu.has_gap && head_ns.is_none_or(|head_ns| head_ns > now_ns);
            match head_ns {
                Some(head_ns) if head_ns <= until_ns && (head_ns, index) < next => {}
                Some(head_ns) => {
                    heads.push(Reverse((head_ns, index)));
                    break;
                }
                None => break,
            }
        }
    }
    Ok(cpus.iter().any(|cpu| cpu.has_gap))
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
