//! The lists that Nomad's users give it, each through a whole life: ADD, CHECK, traffic, DEL.
//!
//! Nomad's own list is in `nomad.rs`, and the lists of guests, with `tc-redirect-tap`, in `vm`.

mod delegated;
mod life;
mod one_bridge;
mod served;
mod waiting;
mod without_bridge;
