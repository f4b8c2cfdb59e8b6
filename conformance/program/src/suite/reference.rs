//! What the pages of the reference plugins promise, plugin by plugin.

mod bandwidth;
mod bridge;
mod consul;
mod dhcp;
mod every;
mod firewall;
mod flannel;
mod host_device;
mod host_local;
mod links;
mod loopback;
mod macvlan;
mod portmap;
mod ptp;
mod sbr;
mod static_ipam;
mod tap;
mod tuning;

use super::case::Template;

/// The templates by plugin.
pub const TABLES: &[&[Template]] = &[
    every::CASES,
    loopback::CASES,
    bridge::CASES,
    ptp::CASES,
    macvlan::CASES,
    links::CASES,
    host_device::CASES,
    tap::CASES,
    host_local::CASES,
    static_ipam::CASES,
    dhcp::CASES,
    firewall::CASES,
    flannel::CASES,
    portmap::CASES,
    tuning::CASES,
    bandwidth::CASES,
    sbr::CASES,
    consul::CASES,
];
