//! The dhcp plugin with its daemon, and real servers of DHCP: dnsmasq, and the one of ISC for leases of a few seconds.

mod answer;
mod clock;
mod daemon;
mod injected;
mod interfaces;
mod lan;
mod lease;
mod nomad;
mod property;
mod reference;
mod removal;
