//! The ipvlan plugin: what it alone has. What it shares with vlan and macvlan is in `on_a_master`.

mod keys;
