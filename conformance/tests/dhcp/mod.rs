//! The dhcp plugin with its daemon, and real servers of DHCP: dnsmasq, and the one of ISC for leases of a few seconds.

mod add;
mod clock;
mod daemon;
mod del;
mod injected;
mod interfaces;
mod lease;
mod setup;
