//! Memory that direct I/O accepts, and what writes are made of.
//!
//! Data is incompressible (xorshift64*), and as cheap per I/O as can be: a write of up to `stamped_bytes` has a region
//! of its own in which every 4 KiB gets 16 new bytes, so that no two such blocks of a run are the same; a larger one
//! is cut from a shared pool at a phase that changes with each write. The pool is never changed while in use, and
//! holds 16 MiB besides the largest write: a deduplicating array may recognise large writes once 16 MiB of phases
//! have come round.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4096;
const PHASE_BYTES: usize = 16 << 20;
/// All stamped regions together stay below this.
const STAMPED_TOTAL_BYTES_MAX: usize = 256 << 20;
/// All read regions together stay below this, the largest read permitting.
const READ_TOTAL_BYTES_MAX: usize = 64 << 20;

/// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own sequence for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform over (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

/// A page-aligned stretch of memory that the kernel may read and write behind the compiler's back; hence raw pointers.
#[derive(Debug)]
pub struct Region {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region is plain memory, reached only through raw pointers whose users keep to the rules below.
unsafe impl Send for Region {}

impl Region {
    /// Zeroed memory of at least `bytes`, at least a page.
    ///
    /// # Panics
    ///
    /// For more than half the address space, which no plan asks for.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(round_up(bytes.max(1)), PAGE_BYTES)
            .expect("sizes are bounded by the plan");
        // SAFETY: the layout has a size above zero.
        let start = unsafe { alloc_zeroed(layout) };
        Self {
            start: NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout)),
            layout,
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Address of the byte at `offset`.
    ///
    /// # Panics
    ///
    /// When it lies outside.
    #[must_use]
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.bytes());
        // SAFETY: within the allocation, as just asserted.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Write eight bytes at `offset`.
    fn put(&mut self, offset: usize, word: u64) {
        let bytes = word.to_ne_bytes();
        assert!(offset + bytes.len() <= self.bytes());
        // SAFETY: within the allocation; callers put only where no I/O is under way, and `&mut self` keeps others out.
        unsafe {
            self.start
                .as_ptr()
                .add(offset)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Fill with incompressible data, which also makes every page present.
    pub fn fill(&mut self, random: &mut Random) {
        for offset in (0..self.bytes()).step_by(8) {
            self.put(offset, random.bits());
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Up to the next whole page.
#[must_use]
pub fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE_BYTES)
}

/// Where reads go. What they bring is never looked at, so slots may share memory when there is too little for all.
#[derive(Debug)]
pub struct ReadMemory {
    /// The memory.
    pub region: Region,
    slot_bytes: usize,
    places: usize,
}

impl ReadMemory {
    /// For `slots` reads of up to `bytes_max`, one of `sharers` of the memory there is for all.
    #[must_use]
    pub fn new(slots: usize, bytes_max: usize, sharers: usize) -> Self {
        let slot_bytes = round_up(bytes_max.max(1));
        let places = (READ_TOTAL_BYTES_MAX / sharers.max(1) / slot_bytes).clamp(1, slots.max(1));
        let mut region = Region::new(slot_bytes * places);
        region.fill(&mut Random::new(1));
        Self {
            region,
            slot_bytes,
            places,
        }
    }

    /// Where the read in `slot` goes.
    #[must_use]
    pub fn address(&self, slot: u32) -> *mut u8 {
        self.region
            .at(slot as usize % self.places * self.slot_bytes)
    }
}

/// Where writes come from.
#[derive(Debug)]
pub struct WriteMemory {
    /// A region of `stamped_bytes` for each slot.
    pub stamped: Region,
    /// What larger writes are cut from.
    pub shared: Region,
    stamped_bytes: usize,
    phases: u64,
    nonce: u64,
}

impl WriteMemory {
    /// For `slots` writes of up to `bytes_max`, one of `sharers` of the memory there is for all.
    #[must_use]
    pub fn new(slots: usize, bytes_max: usize, seed: u64, sharers: usize) -> Self {
        let mut random = Random::new(seed);
        let largest = round_up(bytes_max);
        let stamped_bytes = largest
            .min(STAMPED_TOTAL_BYTES_MAX / sharers.max(1) / slots.max(1) / PAGE_BYTES * PAGE_BYTES);
        let mut stamped = Region::new(stamped_bytes * slots);
        let mut shared = Region::new(if largest > stamped_bytes {
            largest + PHASE_BYTES
        } else {
            0
        });
        stamped.fill(&mut random);
        shared.fill(&mut random);
        Self {
            stamped,
            shared,
            stamped_bytes,
            phases: (PHASE_BYTES / 512) as u64,
            nonce: random.bits(),
        }
    }

    /// Data for the write of plan row `row` in `slot`, and whether it lies in `stamped`.
    ///
    /// The slot's last write must have completed: its region is changed.
    pub fn prepare(&mut self, slot: u32, row: u64, bytes: usize) -> (*mut u8, bool) {
        if bytes > self.stamped_bytes {
            // An odd factor visits every phase before any comes again.
            let phase = row.wrapping_mul(0x9E37_79B9) % self.phases;
            return (self.shared.at(phase as usize * 512), false);
        }
        let start = slot as usize * self.stamped_bytes;
        for (block, offset) in (start..start + bytes).step_by(PAGE_BYTES).enumerate() {
            self.stamped.put(offset, self.nonce ^ row);
            self.stamped.put(
                offset + 8,
                self.nonce.rotate_left(17).wrapping_add(block as u64),
            );
        }
        (self.stamped.at(start), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn block(address: *mut u8, index: usize) -> Vec<u8> {
        // SAFETY: tests ask for blocks inside the write they prepared.
        unsafe { std::slice::from_raw_parts(address.add(index * 4096), 4096) }.to_vec()
    }

    #[test]
    fn no_two_small_writes_share_a_block() {
        let mut memory = WriteMemory::new(4, 8192, 7, 1);
        let mut seen = HashSet::new();
        for row in 0..1000 {
            let (address, stamped) = memory.prepare(row as u32 % 4, row, 8192);
            assert!(stamped);
            assert!(seen.insert(block(address, 0)) && seen.insert(block(address, 1)));
        }
    }

    #[test]
    fn large_writes_stay_inside_the_pool_and_differ() {
        let bytes = 4 << 20;
        let mut memory = WriteMemory::new(1024, bytes, 7, 1);
        let mut seen = HashSet::new();
        for row in 0..32_768 {
            let (address, stamped) = memory.prepare(0, row, bytes);
            assert!(!stamped);
            let offset = address as usize - memory.shared.at(0) as usize;
            assert!(offset + bytes <= memory.shared.bytes());
            assert!(seen.insert(offset));
        }
    }

    #[test]
    fn memory_is_bounded_whatever_the_depth() {
        let memory = WriteMemory::new(65_536, 1 << 20, 1, 1);
        assert!(memory.stamped.bytes() <= STAMPED_TOTAL_BYTES_MAX);
        assert!(memory.shared.bytes() <= PHASE_BYTES + (1 << 20));
        assert!(ReadMemory::new(65_536, 1 << 20, 1).region.bytes() <= READ_TOTAL_BYTES_MAX);
    }
}
