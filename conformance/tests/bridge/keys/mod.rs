//! The keys of the bridge plugin, and what it does with the IPAM plugin's answer.

mod duplicates;
mod gateway;
mod ipam;
mod masquerade;
mod nftables;
mod routes;
mod spoof;
mod versions;
