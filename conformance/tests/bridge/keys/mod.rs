//! The keys of the bridge plugin, and what it does with the IPAM plugin's answer.

mod dns;
mod duplicates;
mod existing;
mod gateway;
mod ipam;
mod isolation;
mod layer_two;
mod link;
mod mac;
mod masquerade;
mod nftables;
mod routes;
mod several;
mod spoof;
mod versions;
