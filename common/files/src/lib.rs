//! Files that several processes share.
//!
//! What one writes another may read at any moment, may be about to remove, or may have left half done when
//! it was killed. So a file is written as a [`Draft`] and put in its place at once, a [`Lock`] is waited for
//! with a deadline and names its holder, and what is nobody else's business lies in a [`PrivateDirectory`].

#![forbid(unsafe_code)]

mod directory;
mod draft;
mod error;
mod file;
mod holder;
mod id;
mod lock;
mod program;

pub use directory::{PrivateDirectory, RUN_DIRECTORY};
pub use draft::Draft;
pub use error::FileError;
pub use file::{overwrite, read, read_if_present, remove};
pub use holder::{Holders, holders};
pub use id::{boot_id, machine_id};
pub use lock::{Lock, LockError};
pub use program::{find_files, find_program};
