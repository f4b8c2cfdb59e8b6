//! The flannel plugin: has another plugin make the interface, with a configuration from flanneld's lease.

mod add;
mod check;
mod del;
mod doctor;
mod gc;
mod kill;
mod lease;
mod names;
mod reference;
mod repair;
mod rollback;
mod second_interface;
mod setup;
mod status;
mod versions;
