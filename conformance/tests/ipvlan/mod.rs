//! The ipvlan plugin: what only it has. What it shares with vlan and macvlan is in `on_a_master`.

mod keys;
