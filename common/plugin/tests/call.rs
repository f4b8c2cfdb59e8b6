//! One call of a plugin on a host that notes what it is asked to do.

mod exclusion;
mod life;
mod renamed;
mod stub;
mod undoing;
