//! DEL and ADD while the kernel cannot identify the host's namespace, by which the owners of addresses' rules are
//! recorded. A plugin that treats this like an old kernel looks in the wrong place, finds nothing, and succeeds.

use std::path::Path;

use cni_conformance::cases::for_each;
use cni_conformance::{Flavour, Invocation, Verb};

use crate::del::del_host::DelHost;

/// The calls by which a namespace is identified, each with an error that it may have for a moment.
const FAULTS: [(&str, &[&str]); 3] = [
    ("the boot's id cannot be opened", &["-P", BOOT_ID, "-e", "inject=?open,openat:error=EMFILE"]),
    ("the boot's id cannot be read", &["-P", BOOT_ID, "-e", "inject=read:error=EIO"]),
    ("the cookie cannot be read", &["-e", "inject=getsockopt:error=ENOBUFS"]),
];

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

fn with_fault(call: &Invocation, fault: &[&str]) -> Invocation {
    let strace = ["/usr/bin/strace", "-qq", "-o", "/dev/null", "-e", "signal=none"];
    call.clone().launched_by(&[&strace[..], fault, &["--"]].concat())
}

#[test]
fn firewall_fails_and_leaves_what_the_next_del_removes() {
    for_each(FAULTS, |fault| {
        let machine = DelHost::dual_stack(Flavour::Nft);
        let before = machine.host();
        let attached = machine.add("victim", 8080);
        let firewall = |verb| machine.runtime().invocation(verb, "firewall", &attached.attachment, None);
        let with_rules = machine.host();
        with_fault(&firewall(Verb::Del), fault).run().error();
        assert!(machine.host().section("iptables filter") == with_rules.section("iptables filter"), "all or nothing");
        firewall(Verb::Del).run().expect_success();
        machine.runtime().del(&attached.attachment).expect_success();
        machine.skeleton().assert_nothing_else(&before, || machine.host());
        assert!(!Path::new("/run/cni/.cni-plugins-rs/host").exists());
    });
}

#[test]
fn firewall_adds_nothing() {
    for_each(FAULTS, |fault| {
        let machine = DelHost::dual_stack(Flavour::Nft);
        let attached = machine.add("victim", 8080);
        let firewall = |verb| {
            machine.runtime().invocation(verb, "firewall", &attached.attachment, attached.attachment.result.as_ref())
        };
        firewall(Verb::Del).run().expect_success();
        let before = machine.host();
        with_fault(&firewall(Verb::Add), fault).run().error();
        cni_conformance::state::assert_same(&before, &machine.host());
        firewall(Verb::Add).run().expect_success();
        machine.runtime().check(&attached.attachment).expect_success();
        assert!(!Path::new("/run/cni/.cni-plugins-rs/host").exists());
    });
}
