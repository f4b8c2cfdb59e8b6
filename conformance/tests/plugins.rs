//! The tests of each plugin, in a folder of its name. What concerns all plugins is in `host/`, and what needs another kernel in
//! `other_kernel.rs`.

mod admin;
mod bridge;
mod consul_cni;
mod dhcp;
mod flannel;
mod host_device;
mod host_local;
mod portmap;
mod tuning;
