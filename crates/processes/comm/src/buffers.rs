//! Where data comes from and goes to: memory of the application's, of which the node's thread copies a chunk at a time.

/// What a collective reads.
pub trait Source: Send {
    /// How many bytes there are.
    fn length(&self) -> usize;
    /// Copies the bytes from `offset` on.
    fn read(&mut self, offset: usize, into: &mut [u8]);
}

/// Where a collective writes.
pub trait Sink: Send {
    /// How many bytes there is room for.
    fn length(&self) -> usize;
    /// Takes the bytes that belong at `offset`.
    fn write(&mut self, offset: usize, from: &[u8]);
}

/// No bytes, of those who bring nothing or get nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Source for Nothing {
    fn length(&self) -> usize {
        0
    }
    fn read(&mut self, _: usize, _: &mut [u8]) {}
}

impl Sink for Nothing {
    fn length(&self) -> usize {
        0
    }
    fn write(&mut self, _: usize, _: &[u8]) {}
}

impl Source for Vec<u8> {
    fn length(&self) -> usize {
        self.len()
    }
    fn read(&mut self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self[offset..][..into.len()]);
    }
}

/// Memory of somebody else's that is read, by its address.
#[derive(Debug)]
pub struct BorrowedSource {
    address: *const u8,
    length: usize,
}

/// Memory of somebody else's that is written, by its address.
#[derive(Debug)]
pub struct BorrowedSink {
    address: *mut u8,
    length: usize,
}

#[expect(unsafe_code, reason = "an application's memory comes by its address from C and from Python")]
mod borrowed {
    use super::{BorrowedSink, BorrowedSource, Sink, Source};

    impl BorrowedSource {
        /// So many bytes at an address.
        ///
        /// # Safety
        /// They must be readable, and nobody may write them, for as long as the value lives; an address of no bytes may be anything.
        pub const unsafe fn new(address: *const u8, length: usize) -> Self {
            Self { address, length }
        }
    }

    impl BorrowedSink {
        /// So many bytes at an address.
        ///
        /// # Safety
        /// They must be writable, and nobody else may read or write them, for as long as the value lives; an address of no bytes may be
        /// anything. A collective in place has a source of the same bytes: its thread reads and writes by turns.
        pub const unsafe fn new(address: *mut u8, length: usize) -> Self {
            Self { address, length }
        }
    }

    // SAFETY: the maker has promised that the bytes may be used as long as the value lives, by whichever thread has it.
    unsafe impl Send for BorrowedSource {}
    // SAFETY: as above.
    unsafe impl Send for BorrowedSink {}

    impl Source for BorrowedSource {
        fn length(&self) -> usize {
            self.length
        }
        fn read(&mut self, offset: usize, into: &mut [u8]) {
            let end = offset.checked_add(into.len()).expect("an end within memory");
            assert!(end <= self.length, "a read to byte {end} of {}", self.length);
            // SAFETY: the range lies within the bytes that may be read, and `into` is nobody else's.
            unsafe { std::ptr::copy_nonoverlapping(self.address.add(offset), into.as_mut_ptr(), into.len()) }
        }
    }

    impl Sink for BorrowedSink {
        fn length(&self) -> usize {
            self.length
        }
        fn write(&mut self, offset: usize, from: &[u8]) {
            let end = offset.checked_add(from.len()).expect("an end within memory");
            assert!(end <= self.length, "a write to byte {end} of {}", self.length);
            // SAFETY: the range lies within the bytes that may be written, and `from` lies elsewhere: in a buffer of the node's.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.address.add(offset), from.len()) }
        }
    }
}
