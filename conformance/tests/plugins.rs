//! The tests of each plugin, in a folder of its name. What concerns all plugins is in `host/`, and what needs another kernel in
//! `other_kernel.rs`.

mod admin;
mod bandwidth;
mod bridge;
mod consul_cni;
mod dhcp;
mod firewall;
mod flannel;
mod host_device;
mod host_local;
mod loopback;
mod portmap;
mod ptp;
mod route_override;
mod sbr;
#[path = "static/mod.rs"]
mod static_ipam;
mod tap;
mod tc_redirect_tap;
mod tuning;
