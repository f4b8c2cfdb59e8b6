//! The allocator: dlmalloc behind a lock that costs nearly nothing where nobody waits for it. The lock of dlmalloc itself is one of
//! the C library, which takes a quarter of a plugin's instructions. musl's own allocator returns memory so early that the
//! kernel must supply most of it again.
//!
//! Plugins have one thread nearly always. The tool reads and judges attachments in several: with one heap, two threads have
//! waited for its lock nearly half of their time. So the threads after the first have heaps of their own.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dlmalloc::{Allocator, Dlmalloc};

use range::{RANGES, Range};

mod range;

/// So often it is tried to take a heap before the processor is left to others.
const SPINS: u32 = 256;

/// A heap that one thread at a time works on. No work takes long.
struct LockedHeap<D> {
    is_taken: AtomicBool,
    heap: UnsafeCell<D>,
}

// SAFETY: `with` lets only one thread at a time reach the heap.
unsafe impl<D: Send> Sync for LockedHeap<D> {}

impl<D> LockedHeap<D> {
    const fn new(heap: D) -> Self {
        Self { is_taken: AtomicBool::new(false), heap: UnsafeCell::new(heap) }
    }

    fn with<T>(&self, work: impl FnOnce(&mut D) -> T) -> T {
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
unsafe impl<A: Allocator> GlobalAlloc for LockedHeap<Dlmalloc<A>> {
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

/// A heap for the first thread that allocates, and some that the threads after it share. When one of these is full, its
/// threads get memory of the first.
pub struct ThreadHeaps {
    first: LockedHeap<Dlmalloc>,
    others: [LockedHeap<Dlmalloc<Range>>; RANGES],
}

thread_local! {
    /// The number of this thread, in the order in which they first allocate; `usize::MAX` before.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

impl ThreadHeaps {
    pub const fn new() -> Self {
        const fn other(index: usize) -> LockedHeap<Dlmalloc<Range>> {
            LockedHeap::new(Dlmalloc::new_with_allocator(Range::new(index)))
        }
        Self { first: LockedHeap::new(Dlmalloc::new()), others: [other(0), other(1), other(2)] }
    }

    /// The heap of this thread; `None` is the first.
    fn own(&self) -> Option<&LockedHeap<Dlmalloc<Range>>> {
        let mut number = NUMBER.get();
        if number == usize::MAX {
            number = THREADS.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(number);
        }
        self.others.get(number.checked_sub(1)? % RANGES)
    }

    /// The heap that memory is from; `None` is the first.
    fn of(&self, memory: *const u8) -> Option<&LockedHeap<Dlmalloc<Range>>> {
        self.others.get(range::index_of(memory)?)
    }
}

// SAFETY: memory returns to the heap that it is from, and each heap keeps the promises of this trait. Not inlined: it would
// be into hundreds of places.
unsafe impl GlobalAlloc for ThreadHeaps {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        let own = self.own().map_or(ptr::null_mut(), |heap| unsafe { heap.alloc(layout) });
        // SAFETY: as this function.
        if own.is_null() { unsafe { self.first.alloc(layout) } } else { own }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match self.of(memory) {
            // SAFETY: the memory is from this heap.
            None => unsafe { self.first.dealloc(memory, layout) },
            // SAFETY: the memory is from this heap.
            Some(heap) => unsafe { heap.dealloc(memory, layout) },
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as this function.
        let own = self.own().map_or(ptr::null_mut(), |heap| unsafe { heap.alloc_zeroed(layout) });
        // SAFETY: as this function.
        if own.is_null() { unsafe { self.first.alloc_zeroed(layout) } } else { own }
    }

    #[inline(never)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(heap) = self.of(memory) else {
            // SAFETY: the memory is from this heap.
            return unsafe { self.first.realloc(memory, layout, size) };
        };
        // SAFETY: the memory is from this heap.
        let resized = unsafe { heap.realloc(memory, layout, size) };
        if !resized.is_null() {
            return resized;
        }
        // SAFETY: the caller promises that the size fits the alignment.
        let moved = unsafe { self.first.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both are at least so large, and different; the earlier one is from this heap, which has left it as it was.
            unsafe {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                heap.dealloc(memory, layout);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Test programs use it as their allocator, as the plugins do.
    fn heap_of<T>(memory: &[T]) -> Option<usize> {
        range::index_of(memory.as_ptr().cast())
    }

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
    fn a_full_heap_leaves_the_rest_to_the_first() {
        let worker = thread::spawn(|| {
            let small = vec![1_u8; 100];
            let large = [1, 2, 3].map(|_| Vec::<u8>::with_capacity(200 << 20));
            let mut grown = vec![7_u8; 1000];
            grown.reserve(300 << 20);
            assert_eq!(grown, [7; 1000]);
            (heap_of(&small), large.iter().filter(|large| heap_of(large).is_none()).count(), heap_of(&grown))
        });
        let (small, in_first, grown) = worker.join().expect("no panic");
        assert!(small.is_some());
        assert!(in_first >= 2, "{in_first}");
        assert_eq!(grown, None);
        let zeros = thread::spawn(|| vec![0_u8; 1 << 20]).join().expect("no panic");
        assert!(zeros.iter().all(|byte| *byte == 0));
    }
}
