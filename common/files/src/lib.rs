//! Files that several processes share.
//!
//! While one process writes, another may read, remove the file, or have been killed half-way. So a file is written as
//! a [`Draft`] that replaces the old one in one step, a wait for a [`Lock`] has a limit and its error names the holder,
//! and what only the plugins may see is in a [`PrivateDirectory`].

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
pub use draft::Draft;
pub use error::FileError;
pub use file::{open_or_create, open_to_read, overwrite, read_at_most, read_if_present, remove};
pub use holder::{Holders, holders};
pub use id::{boot_id, machine_id};
pub use lock::{Lock, LockError};
pub use lock_table::LockTable;
pub use private::{is_foreign, private_names, read_private, remove_empty, remove_private, replace_private};
pub use program::{find_files, find_program};
