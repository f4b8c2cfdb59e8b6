//! One call of a plugin on a machine in memory.

mod exclusion;
mod life;
mod undoing;
