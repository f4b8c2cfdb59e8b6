//! The back ends of firewall and portmap: what DEL does while a part of the host is broken, hosts whose kernel lacks the tables of iptables, and
//! rules that only `nft` prints. What each key does on each back end is told by cases.

mod broken;
mod foreign;
mod lacking;
