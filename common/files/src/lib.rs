//! Files that several processes share.
//!
//! While one process writes a file, another one may read it, remove it, or may have been killed half-way. So a file is
//! written as a [`Draft`] that replaces the old one atomically, waiting for a [`Lock`] has a time limit whose error
//! names the holder, and files for the plugins only are in a [`PrivateDirectory`].

#![forbid(unsafe_code)]

mod directory;
mod draft;
mod file;
mod lock;
mod lock_table;
mod machine;
mod private;

pub use directory::{PrivateDirectory, RUN_DIRECTORY, in_directory, private_names};
pub use draft::{Draft, random};
pub use file::{
    FileError, find_files, find_program, links, open, open_or_create, open_to_read, overwrite, read_at_most,
    read_if_present, remove,
};
pub use lock::{Lock, LockError, LockHolders, holders};
pub use lock_table::LockTable;
pub use machine::{boot_id, is_local, machine_id};
pub use private::{is_foreign, read_private, remove_empty, remove_private, replace_private};
