//! The properties of DEL.

use cni_core::mac::Mac;
use cni_core::request::Command;
use cni_model::plan::Ns;
use cni_plugin::run::Plugin;

use crate::host::{FakeContainer, FakeHost};
use crate::request::Caller;

/// Requires that DEL after ADD restores the former state, and succeeds again.
///
/// # Panics If it does not.
pub fn assert_del_removes_what_add_made(plugin: &dyn Plugin, host: &mut FakeHost, caller: &Caller) {
    let before = host.state();
    caller.add(plugin, host).expect("ADD");
    assert_ne!(host.state(), before, "ADD makes something");
    for _ in 0..2 {
        caller.del(plugin, host).expect("DEL");
        assert_eq!(host.state(), before);
    }
}

/// Requires that DEL removes everything whatever the rest of its configuration is: that of each of these callers, after ADD with
/// that of `added`.
///
/// # Panics
/// When something is left.
pub fn assert_del_works_with(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, added: &Caller, deleted: &[Caller]) {
    for caller in deleted {
        let mut host = machine();
        let before = host.state();
        added.add(plugin, &mut host).expect("ADD");
        caller.del(plugin, &mut host).expect("DEL");
        assert_eq!(host.state(), before, "{}", caller.config);
    }
}

/// Requires that DEL after the end of the namespace calls the IPAM plugin.
///
/// # Panics
/// When it does not.
pub fn assert_del_works_without_namespace(
    plugin: &dyn Plugin,
    machine: impl Fn() -> FakeHost,
    added: &Caller,
    deleted: &Caller,
) {
    let mut host = machine();
    added.add(plugin, &mut host).expect("ADD");
    host.set_container(&added.netns, FakeContainer::Gone);
    deleted.del(plugin, &mut host).expect("DEL");
    assert_eq!(host.delegated().last().map(String::as_str), Some("static DEL"));
}

/// Requires that DEL leaves a link of another kind, and removes one with another MAC address.
///
/// The path of the namespace may lead to another container by now. The kind of the link shows it, and its MAC address does not.
///
/// # Panics
/// When it does not.
pub fn assert_del_leaves_another_kind(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, caller: &Caller) {
    for is_left in [true, false] {
        let mut host = machine();
        let caller = caller.after_add(plugin, &mut host);
        host.change_link(Ns::Container, "eth0", |link| {
            if is_left {
                link.kind = Some("veth".to_owned());
            } else {
                link.mac = Some(Mac::local([7; 6]));
            }
        });
        caller.del(plugin, &mut host).expect("DEL");
        assert_eq!(host.state().iter().any(|line| line.contains("eth0")), is_left);
        assert_eq!(host.delegated().last().map(String::as_str), Some("static DEL"));
    }
}

/// Makes DEL of the IPAM plugin fail, then the removal of the interface `eth0`, and requires that the IPAM plugin is called as
/// soon as the interface is removed, and no sooner.
///
/// # Panics
/// When it does not.
pub fn assert_del_releases_after_removal(plugin: &dyn Plugin, machine: impl Fn() -> FakeHost, caller: &Caller) {
    let mut host = machine();
    caller.add(plugin, &mut host).expect("ADD");
    host.fail_delegate(Some(Command::Del));
    assert_eq!(caller.del(plugin, &mut host).expect_err("IPAM fails").to_string(), "static has failed");
    assert!(!host.state().iter().any(|line| line.contains("eth0")), "{:?}", host.state());

    let mut host = machine();
    caller.add(plugin, &mut host).expect("ADD");
    host.fail_at(host.applied().len() + 1);
    caller.del(plugin, &mut host).expect_err("the link cannot be removed");
    assert_eq!(host.delegated(), ["static ADD"], "another container would get the address of a link that exists");
    caller.del(plugin, &mut host).expect("DEL");
    assert_eq!(host.delegated(), ["static ADD", "static DEL"]);
}
