//! The memory of one heap, from a range of addresses of its own: the address tells the heap.

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use dlmalloc::Allocator;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// How many ranges there are.
pub const RANGES: usize = 3;

/// The bytes of a range. The kernel supplies memory only for those that are used.
const SIZE: usize = 256 << 20;

/// All ranges, one behind the other; null until one of them is needed.
static START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// A range; `used` bytes of it were given to its heap, which gives none back.
pub struct Range {
    index: usize,
    used: Cell<usize>,
}

impl Range {
    pub const fn new(index: usize) -> Self {
        Self { index, used: Cell::new(0) }
    }
}

/// The index of the range that an address is in.
pub fn index_of(memory: *const u8) -> Option<usize> {
    let start = START.load(Ordering::Relaxed);
    let index = memory.addr().wrapping_sub(start.addr()) / SIZE;
    (!start.is_null() && index < RANGES).then_some(index)
}

/// Where the ranges begin; null if there are not so many free addresses.
fn start() -> *mut u8 {
    let known = START.load(Ordering::Relaxed);
    if known.is_null() { reserve() } else { known }
}

fn reserve() -> *mut u8 {
    let Some(length) = NonZeroUsize::new(RANGES * SIZE) else { return ptr::null_mut() };
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    // SAFETY: no address is asked for, so nothing is replaced.
    let Ok(mapped) = (unsafe { mmap_anonymous(None, length, protection, flags) }) else { return ptr::null_mut() };
    let reserved = mapped.cast().as_ptr();
    match START.compare_exchange(ptr::null_mut(), reserved, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => reserved,
        Err(earlier) => {
            // SAFETY: another thread was faster, so nobody knows these addresses. If they stay mapped, they cost nothing.
            let _unused = unsafe { munmap(mapped, length.get()) };
            earlier
        }
    }
}

// SAFETY: every piece is given to one heap once, is mapped for as long as the process lives, and holds zeros.
unsafe impl Allocator for Range {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        const NOTHING: (*mut u8, usize, u32) = (ptr::null_mut(), 0, 0);
        let used = self.used.get();
        let start = start();
        if start.is_null() || size > SIZE - used {
            return NOTHING;
        }
        self.used.set(used + size);
        (start.wrapping_add(self.index * SIZE + used), size, 0)
    }

    fn remap(&self, _ptr: *mut u8, _oldsize: usize, _newsize: usize, _can_move: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _ptr: *mut u8, _oldsize: usize, _newsize: usize) -> bool {
        false
    }

    fn free(&self, _ptr: *mut u8, _size: usize) -> bool {
        false
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}
