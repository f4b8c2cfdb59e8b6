//! The allocator: dlmalloc behind a lock that costs nearly nothing where nobody waits for it. The lock of dlmalloc itself is one of
//! the C library, which takes a quarter of a plugin's instructions. musl's own allocator returns memory so early that the kernel must
//! supply most of it again.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use dlmalloc::Dlmalloc;

/// So often it is tried to take a lock before the processor is left to others.
const SPINS: u32 = 256;

/// The memory of the program. No work on it takes long.
pub struct SharedMemory {
    is_taken: AtomicBool,
    heap: UnsafeCell<Dlmalloc>,
}

// SAFETY: `with` lets only one thread at a time reach the heap.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    pub const fn new() -> Self {
        Self { is_taken: AtomicBool::new(false), heap: UnsafeCell::new(Dlmalloc::new()) }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Dlmalloc) -> R) -> R {
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

// SAFETY: a block belongs to one owner at a time, and is so large and aligned as the layout asks for; dlmalloc keeps the promises of this
// trait, and the callers' promises are passed on to it. Not inlined: it would be into hundreds of places.
unsafe impl GlobalAlloc for SharedMemory {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    #[inline(never)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) });
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    #[inline(never)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as this function.
        self.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Test programs use it as their allocator, as the plugins do.
    #[test]
    fn threads_pass_memory_on_and_free_and_grow_that_of_others() {
        let (send, receive) = mpsc::channel::<Vec<u64>>();
        thread::scope(|scope| {
            for thread in 0..6 {
                let send = send.clone();
                scope.spawn(move || (0..2000).for_each(|size| send.send(vec![thread; size % 300]).expect("received")));
            }
            drop(send);
            scope.spawn(move || {
                let mut received = 0;
                for mut numbers in receive {
                    let first = numbers.first().copied().unwrap_or_default();
                    numbers.extend(std::iter::repeat_n(first, 50));
                    assert!(numbers.iter().all(|number| *number == first), "{numbers:?}");
                    received += 1;
                }
                assert_eq!(received, 6 * 2000);
            });
        });
    }

    #[test]
    fn a_block_is_as_large_and_as_aligned_as_it_was_asked_for() {
        for (size, align) in [(1, 1), (16, 16), (17, 8), (512, 16), (513, 1), (8, 64), (4096, 4096), (100_000, 16)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            // SAFETY: the size is not 0, and the memory is used within its size until it is given back with its layout.
            unsafe {
                let memory = [std::alloc::alloc(layout), std::alloc::alloc_zeroed(layout)];
                assert!(
                    memory.iter().all(|block| !block.is_null() && block.addr().is_multiple_of(align)),
                    "{layout:?}"
                );
                assert!((0..size).all(|at| memory[1].add(at).read() == 0), "{layout:?}");
                memory.iter().for_each(|block| block.write_bytes(7, size));
                memory.iter().for_each(|block| std::alloc::dealloc(*block, layout));
                let zeroed = std::alloc::alloc_zeroed(layout);
                assert!((0..size).all(|at| zeroed.add(at).read() == 0), "{layout:?} again");
                std::alloc::dealloc(zeroed, layout);
            }
        }
    }

    #[test]
    fn what_grows_and_shrinks_keeps_its_content() {
        let mut bytes: Vec<u8> = Vec::new();
        for length in 0..3000_usize {
            bytes.push(u8::try_from(length % 251).expect("a byte"));
            bytes.shrink_to_fit();
        }
        while let Some(last) = bytes.pop() {
            assert_eq!(usize::from(last), bytes.len() % 251);
            bytes.shrink_to_fit();
        }
    }
}
