//! A result that cannot be written.

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Nomad, plugins, state};

use crate::rollback::rollback_host::RollbackHost;

/// Those whose ADD the kernel can carry out.
fn plugins() -> Vec<(&'static str, &'static str)> {
    plugins::that_can_add().into_iter().map(|plugin| (plugin, plugin)).collect()
}

/// The empty file that keeps two from changing the rules of a namespace at once.
const LOCK_OF_RULES: &str = "/run/cni/.cni-plugins-rs/filter-";

/// The runtime takes the ADD for failed, so nothing may stay. There is no place for the error, but
/// the exit status tells.
#[test]
fn an_add_whose_result_cannot_be_written_leaves_nothing() {
    let nomad = Nomad::default().dual_stack();
    for_each(plugins(), |plugin| {
        let machine = RollbackHost::new(plugin, &nomad, Flavour::Nft);
        let before = machine.state();
        let outcome = machine.add().launched_by(&["/bin/sh", "-c", "exec \"$0\" > /dev/full"]).run();
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        assert!(!outcome.stderr().is_empty(), "the error must go to standard error: {outcome}");
        machine.left_nothing_since(&before);
        machine.succeeds_now();
    });
}

/// The attachment lives, and keeps what the first ADD has made.
#[test]
fn a_second_add_whose_result_cannot_be_written_leaves_what_the_first_one_made() {
    let nomad = Nomad::default().dual_stack();
    for flavour in Flavour::ALL {
        for_each(plugins(), |plugin| {
            let machine = RollbackHost::new(plugin, &nomad, flavour);
            let result = machine.add().run().result();
            let before = machine.state();
            let outcome = machine.add().launched_by(&["/bin/sh", "-c", "exec \"$0\" > /dev/full"]).run();
            assert_eq!(outcome.code(), Some(1), "{outcome}");
            let mut changes = state::diff(&before, &machine.state());
            changes.retain(|change| !change.contains(LOCK_OF_RULES));
            assert!(changes.is_empty(), "{flavour:?}: {}", changes.join("\n"));
            machine.check(&result).run().expect_success();
        });
    }
}

/// The runtime died, and its end of the pipe with it.
#[test]
fn an_add_whose_runtime_is_gone_leaves_nothing() {
    let nomad = Nomad::default().dual_stack();
    let script = "mkfifo /run/conformance/pipe; (: < /run/conformance/pipe) & exec 3> /run/conformance/pipe; wait; \
                  exec \"$0\" >&3 3>&-";
    for_each(plugins(), |plugin| {
        let machine = RollbackHost::new(plugin, &nomad, Flavour::Nft);
        let before = machine.state();
        let outcome = machine.add().launched_by(&["/bin/sh", "-c", script]).run();
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        machine.left_nothing_since(&before);
        machine.succeeds_now();
    });
}
