//! DEL removes what ADD made, even if the configuration has changed: an administrator may change it while containers
//! run.
//!
//! A table has every key that changes what ADD makes, each with one value for ADD, and another for DEL.

use cni_catalog::test_data;
use cni_conformance::cases::for_each;
use cni_conformance::declared_keys::KEYS;
use cni_conformance::{Feature, Flavour, plugins};

use changed_keys_host::ChangedKeysHost;
use table::{ChangedKey, KEPT_OUT, changed_keys};

mod changed_keys_host;
mod table;

/// Lives through each row of the table for a plugin, both ways where that is possible.
fn assert_nothing_is_left(plugin: &str, flavours: &[Flavour]) {
    for flavour in flavours {
        let rows = changed_keys().into_iter().filter(|row| row.plugin == plugin);
        let possible = rows.filter(|row| row.needs.is_none_or(Feature::is_here));
        let ways = possible.flat_map(|row| {
            let ChangedKey { pointer, values: [one, other], beside, both_ways, .. } = row;
            let there = (pointer, beside.clone(), one.clone(), other.clone());
            let back = both_ways.then_some((pointer, beside, other, one));
            [Some(there), back].into_iter().flatten()
        });
        let named = ways.map(|way| (format!("{flavour:?} {}: {} to {}", way.0, way.2, way.3), way));
        for_each(named, |(pointer, beside, at_add, at_del)| {
            ChangedKeysHost::new(plugin, *flavour, &beside).assert_nothing_is_left(pointer, &at_add, &at_del);
        });
    }
}

#[test]
fn del_removes_what_bridge_made() {
    assert_nothing_is_left("bridge", &Flavour::ALL);
}

#[test]
fn del_removes_what_ptp_made() {
    assert_nothing_is_left("ptp", &Flavour::ALL);
}

#[test]
fn del_removes_what_portmap_made() {
    assert_nothing_is_left("portmap", &Flavour::ALL);
}

#[test]
fn del_removes_what_firewall_made() {
    assert_nothing_is_left("firewall", &Flavour::ALL);
}

#[test]
fn del_removes_what_plugins_without_rules_on_the_host_made() {
    let with_rules = ["bridge", "ptp", "portmap", "firewall"];
    let in_table = |plugin: &&str| {
        changed_keys().iter().any(|row| row.plugin == *plugin && row.needs.is_none_or(Feature::is_here))
    };
    for plugin in plugins::ALL.into_iter().filter(|plugin| !with_rules.contains(plugin)).filter(in_table) {
        assert_nothing_is_left(plugin, &[Flavour::Nft]);
    }
}

/// Whether a key is one of the second table, or below one.
fn is_kept_out(plugin: &str, pointer: &str) -> bool {
    KEPT_OUT
        .iter()
        .any(|(plugins, key, _)| (plugins.is_empty() || plugins.contains(&plugin)) && is_at_or_below(pointer, key))
        || test_data(plugin).irrelevant_at_del.iter().any(|(key, _)| is_at_or_below(pointer, key))
}

fn is_at_or_below(pointer: &str, key: &str) -> bool {
    pointer.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[test]
fn every_key_is_in_one_of_the_tables() {
    let rows = changed_keys();
    let is_changed = |plugin: &str, pointer: &str| {
        rows.iter().any(|row| row.plugin == plugin && is_at_or_below(pointer, row.pointer))
    };
    let has_members = |plugin: &str, pointer: &str| {
        KEYS.iter().any(|(of, key, _)| *of == plugin && *key != pointer && is_at_or_below(key, pointer))
    };
    for (plugin, pointer, _) in KEYS.iter() {
        let places = [is_changed(plugin, pointer), is_kept_out(plugin, pointer)];
        let is_object = has_members(plugin, pointer) && !places.contains(&true);
        assert!(places != [true, true] && (is_object || places.contains(&true)), "{plugin} {pointer}: {places:?}");
    }
    let is_declared = |plugin: &str, pointer: &str| KEYS.iter().any(|(of, key, _)| *of == plugin && *key == pointer);
    for row in &rows {
        assert!(is_declared(row.plugin, row.pointer), "{} has no key {}", row.plugin, row.pointer);
    }
    for (of, key, reason) in KEPT_OUT {
        let known =
            plugins::ALL.into_iter().any(|plugin| (of.is_empty() || of.contains(&plugin)) && is_declared(plugin, key));
        assert!(known && !reason.is_empty(), "no plugin of {of:?} has a key {key}");
    }
}

/// Those have no key that changes what is made: `lo` stays, and an address of `static` is nowhere but in the result.
#[test]
fn every_plugin_is_in_the_table_or_makes_nothing_that_depends_on_a_key() {
    let rows = changed_keys();
    let without: Vec<&str> =
        plugins::ALL.into_iter().filter(|plugin| rows.iter().all(|row| row.plugin != *plugin)).collect();
    assert_eq!(without, ["consul-cni", "dhcp", "dummy", "loopback", "static"]);
}
