//! Files that several processes share.
//!
//! While one process writes a file, another one may read it, remove it, or may have been killed half-way. So a file is
//! written as a [`Draft`] that replaces the old one atomically, waiting for a [`Lock`] has a time limit whose error
//! names the holder, and files for the plugins only are in a [`PrivateDirectory`].

#![forbid(unsafe_code)]

mod directory;
mod disk;
mod draft;
mod error;
mod file;
mod holder;
mod id;
mod lock;
mod lock_table;
mod private;
mod program;

pub use directory::{PrivateDirectory, RUN_DIRECTORY, in_directory};
pub use disk::is_local;
pub use draft::{Draft, random};
pub use error::FileError;
pub use file::{open, open_or_create, open_to_read, overwrite, read_at_most, read_if_present, remove};
pub use holder::{LockHolders, holders};
pub use id::{boot_id, machine_id};
pub use lock::{Lock, LockError};
pub use lock_table::LockTable;
pub use private::{is_foreign, private_names, read_private, remove_empty, remove_private, replace_private};
pub use program::{find_files, find_program, links};
