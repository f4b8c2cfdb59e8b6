//! The allocator: small blocks from shelves, the others from dlmalloc. Both are behind locks that cost nearly nothing where nobody
//! waits for them. The lock of dlmalloc itself is one of the C library, which takes a quarter of a plugin's instructions. musl's own
//! allocator returns memory so early that the kernel must supply most of it again.
//!
//! Nearly all memory is asked for in small blocks, and given back soon. A shelf has a list of free blocks of each size, so that it
//! neither looks for one nor joins neighbours, which takes dlmalloc a seventh of the time of a tool. What is on a shelf stays there.
//!
//! Plugins have one thread nearly always. The tool reads and judges attachments in several: with one heap for all blocks, two threads
//! have waited for its lock nearly half of their time. So each of the first threads has a shelf of its own.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dlmalloc::Dlmalloc;

/// So often it is tried to take a lock before the processor is left to others.
const SPINS: u32 = 256;

/// What one thread at a time works on. No work takes long.
struct Locked<T> {
    is_taken: AtomicBool,
    inner: UnsafeCell<T>,
}

// SAFETY: `with` lets only one thread at a time reach what is inside.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    const fn new(inner: T) -> Self {
        Self { is_taken: AtomicBool::new(false), inner: UnsafeCell::new(inner) }
    }

    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut tries = 0_u32;
        while self.is_taken.swap(true, Ordering::Acquire) {
            tries += 1;
            // The other thread takes longer than this only if it needs this processor.
            if tries.is_multiple_of(SPINS) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        // SAFETY: whoever sees `false` and writes `true` is the only one here until it writes `false`.
        let done = work(unsafe { &mut *self.inner.get() });
        self.is_taken.store(false, Ordering::Release);
        done
    }
}

/// The sizes of blocks are multiples of this, which is also their alignment.
const STEP: usize = 16;

/// How many sizes there are.
const SIZES: usize = 32;

/// A shelf gets its memory from the heap in pieces of this size.
const PIECE: usize = 16 * 1024;

/// A free block.
struct FreeBlock {
    next: *mut FreeBlock,
}

/// Blocks that were given back, and a piece to cut new ones from.
struct Shelf {
    /// The free blocks of each size, the last that was given back first.
    free: [*mut FreeBlock; SIZES],
    piece: *mut u8,
    left: usize,
}

// SAFETY: it owns its blocks.
unsafe impl Send for Shelf {}

impl Shelf {
    const fn new() -> Self {
        Self { free: [ptr::null_mut(); SIZES], piece: ptr::null_mut(), left: 0 }
    }

    /// A block of the size with this index; null when `supply` has no piece.
    fn take(&mut self, index: usize, supply: impl FnOnce() -> *mut u8) -> *mut u8 {
        let block = self.free[index];
        if !block.is_null() {
            // SAFETY: what is in the list is a free block.
            self.free[index] = unsafe { (*block).next };
            return block.cast();
        }
        let size = (index + 1) * STEP;
        if self.left < size {
            // What is left of the piece before is lost.
            self.piece = supply();
            self.left = if self.piece.is_null() { 0 } else { PIECE };
        }
        if self.left < size {
            return ptr::null_mut();
        }
        let block = self.piece;
        self.left -= size;
        self.piece = block.wrapping_add(size);
        block
    }

    /// # Safety
    /// The block has the size with this index, and nobody uses it.
    unsafe fn put_back(&mut self, index: usize, block: *mut u8) {
        let block: *mut FreeBlock = block.cast();
        // SAFETY: a block of the smallest size holds this, and is aligned for it.
        unsafe { block.write(FreeBlock { next: self.free[index] }) };
        self.free[index] = block;
    }
}

/// So many shelves. The first thread has one of its own; threads after these share the others.
const SHELVES: usize = 8;

/// The memory of the program.
pub struct SharedMemory {
    heap: Locked<Dlmalloc>,
    shelves: [Locked<Shelf>; SHELVES],
}

thread_local! {
    /// The number of this thread, in the order in which they first allocate; `usize::MAX` before.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

impl SharedMemory {
    pub const fn new() -> Self {
        Self { heap: Locked::new(Dlmalloc::new()), shelves: [const { Locked::new(Shelf::new()) }; SHELVES] }
    }

    /// The shelf of this thread.
    fn shelf(&self) -> &Locked<Shelf> {
        let mut number = NUMBER.get();
        if number == usize::MAX {
            number = THREADS.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(number);
        }
        &self.shelves[number.checked_sub(1).map_or(0, |later| 1 + later % (SHELVES - 1))]
    }

    fn take(&self, index: usize) -> *mut u8 {
        // SAFETY: the size is not 0, and the alignment is a power of 2.
        let supply = || self.heap.with(|heap| unsafe { heap.malloc(PIECE, STEP) });
        self.shelf().with(|shelf| shelf.take(index, supply))
    }
}

/// The index of the size of a small block; `None` for one that dlmalloc provides.
fn index_of(layout: Layout) -> Option<usize> {
    let index = layout.size().saturating_sub(1) / STEP;
    (index < SIZES && layout.align() <= STEP).then_some(index)
}

// SAFETY: a block belongs to one owner at a time, and is so large and aligned as the layout asks for; dlmalloc keeps the promises of this
// trait, and the callers' promises are passed on to it. The layout tells where memory is from. Not inlined: it would be into hundreds of
// places.
unsafe impl GlobalAlloc for SharedMemory {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match index_of(layout) {
            Some(index) => self.take(index),
            // SAFETY: as this function.
            None => self.heap.with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) }),
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match index_of(layout) {
            // SAFETY: the caller promises that it is a block of this layout, and gives it up.
            Some(index) => self.shelf().with(|shelf| unsafe { shelf.put_back(index, memory) }),
            // SAFETY: as this function.
            None => self.heap.with(|heap| unsafe { heap.free(memory, layout.size(), layout.align()) }),
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(index) = index_of(layout) else {
            // SAFETY: as this function.
            return self.heap.with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) });
        };
        let block = self.take(index);
        if !block.is_null() {
            // SAFETY: the block is at least so large.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline(never)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size fits the alignment.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (index_of(layout), index_of(wanted)) {
            (Some(index), Some(same)) if index == same => return memory,
            (None, None) => {
                // SAFETY: as this function.
                return self.heap.with(|heap| unsafe { heap.realloc(memory, layout.size(), layout.align(), size) });
            }
            (Some(_) | None, _) => {}
        }
        // SAFETY: as this function.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both are at least so large, and different; the caller gives the earlier one up.
            unsafe {
                ptr::copy_nonoverlapping(memory, moved, layout.size().min(size));
                self.dealloc(memory, layout);
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

    #[test]
    fn a_shelf_gives_out_no_block_twice_and_all_again() {
        let mut piece = vec![0_u128; PIECE / 16];
        let mut shelf = Shelf::new();
        let mut supplies = vec![ptr::null_mut(), piece.as_mut_ptr().cast::<u8>()];
        let mut blocks = Vec::new();
        loop {
            let block = shelf.take(2, || supplies.pop().unwrap_or(ptr::null_mut()));
            if block.is_null() {
                break;
            }
            blocks.push(block);
        }
        let apart = blocks.windows(2).all(|pair| pair[1].addr() - pair[0].addr() == 3 * STEP);
        assert!(apart && blocks.len() == PIECE / (3 * STEP), "{}", blocks.len());
        // SAFETY: each is a block of this size that nobody uses.
        blocks.iter().for_each(|block| unsafe { shelf.put_back(2, *block) });
        let again: Vec<_> = blocks.iter().map(|_| shelf.take(2, ptr::null_mut)).collect();
        assert_eq!(again, blocks.into_iter().rev().collect::<Vec<_>>());
        assert!(shelf.take(2, ptr::null_mut).is_null());
    }
}
