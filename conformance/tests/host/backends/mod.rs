//! Every feature of firewall and portmap on every back end.
//!
//! One table says what works where, and each of its cells is worked out by packets. The chain is loopback, bridge
//! with host-local, firewall and portmap; all keep their rules with the same back end where they have it: portmap has
//! none for firewalld, and is in the tables of iptables there, as the reference's.

mod add;
mod backend_host;
mod broken;
mod check;
mod del;
mod features;
mod foreign;
mod gc;
mod lacking;
mod many_ports;
mod network;
mod policy;
mod refused;
mod table;
