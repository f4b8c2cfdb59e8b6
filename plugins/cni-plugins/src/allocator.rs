//! The allocator: dlmalloc behind a lock that costs nearly nothing where nobody waits for it. The lock of dlmalloc itself is one of
//! the C library, which takes a quarter of a plugin's instructions. musl's own allocator returns memory so early that the
//! kernel must supply most of it again.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::Dlmalloc;

/// So often it is tried to take the heap before the processor is left to others.
const SPINS: u32 = 256;

/// A heap that one thread at a time works on. Plugins have one thread nearly always, and no work takes long.
pub struct LockedHeap {
    is_taken: AtomicBool,
    heap: UnsafeCell<Dlmalloc>,
}

// SAFETY: `with` lets only one thread at a time reach the heap.
unsafe impl Sync for LockedHeap {}

impl LockedHeap {
    pub const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), heap: UnsafeCell::new(Dlmalloc::new()) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        let mut tries = 0_u32;
        while self.is_taken.swap(true, Ordering::Acquire) {
            tries += 1;
            // The other thread takes longer than this only if it needs this processor.
            if tries.is_multiple_of(SPINS) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        // SAFETY: whoever sees `false` and writes `true` is the only one here until it writes `false`.
        let done = work(unsafe { &mut *self.heap.get() });
        self.is_taken.store(false, Ordering::Release);
        done
    }
}

// SAFETY: dlmalloc keeps the promises of this trait, and the callers' promises are passed on to it.
unsafe impl GlobalAlloc for LockedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}
