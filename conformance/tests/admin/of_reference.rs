//! Containers of the reference, as after a swap of the plugins: the tool keeps what theirs is, and finds what it has written about
//! them itself.

use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::wait::wait_until;
use cni_conformance::{Network, Sandbox, binaries, leases, reference};

use crate::admin::{FOUND, LEASES, PublishedContainer, age_records, cache, host, lose, process_in, tool};

const ADDRESS: &str = "172.26.64.2";

/// The rules of firewall for the address, which name no container.
fn rules(sandbox: &Sandbox) -> Vec<String> {
    let saved = sandbox.sh("iptables -S CNI-FORWARD");
    saved.lines().filter(|line| line.contains(&format!(" {ADDRESS}/32"))).map(str::to_owned).collect()
}

/// How a container has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the machine, whose rules and leases are lost then, but not the cache.
    Restart,
    /// By the DEL of the reference, which does not know of our records.
    ReferenceDel,
}

/// A container of ours that has ended, and one of the reference, which has its address.
fn succeeded<'s>(sandbox: &'s Sandbox, debian: &Path, end: End) -> [PublishedContainer<'s>; 2] {
    let PublishedContainer { mut tool, container } = PublishedContainer::add(sandbox, "goes", 8081);
    match end {
        End::Restart => {
            lose(sandbox, "goes");
            sandbox.sh("iptables -F CNI-FORWARD");
            sandbox.sh(&format!("rm {LEASES}/{ADDRESS}"));
        }
        End::ReferenceDel => {
            tool = tool.binaries(debian);
            tool.del(&container).expect_success();
            tool = tool.binaries(&binaries::under_test());
            end_namespace(sandbox, "goes");
        }
    }
    let first = PublishedContainer { tool, container };
    sandbox.sh(&format!("rm {LEASES}/last_reserved_ip.0"));
    let second = PublishedContainer::add_by(debian, sandbox, "stays", 8082);
    assert_eq!(rules(sandbox).len(), 2, "{end:?}");
    [first, second]
}

/// Ends a namespace without an interface, and waits for its end, by which its records are left over.
fn end_namespace(sandbox: &Sandbox, name: &str) {
    sandbox.sh(&format!("ip netns del {name}"));
    wait_until("the records are left over", || tool(sandbox, &["gc"]).code() == Some(FOUND));
}

fn debian(test: &str) -> Option<PathBuf> {
    reference::find(test).map(|reference| reference.folder)
}

/// Tries it on a host of its own for each end: the host, the container that has the address now, and its rules.
fn after_each_end(debian: &Path, test: impl Fn(&Sandbox, PublishedContainer<'_>, Vec<String>, End)) {
    for end in [End::Restart, End::ReferenceDel] {
        let sandbox = host();
        let [_, second] = succeeded(&sandbox, debian, end);
        test(&sandbox, second, rules(&sandbox), end);
    }
}

#[test]
fn gc_and_a_late_del_leave_the_rules_of_the_one_that_has_the_address_now() {
    let Some(debian) = debian("gc and a late DEL beside a container of the reference") else { return };
    after_each_end(&debian, |sandbox, second, before, end| {
        tool(sandbox, &["gc", "--remove"]).expect_success();
        assert_eq!(rules(sandbox), before, "{end:?}");
        assert_eq!(tool(sandbox, &["gc"]).stdout(), "nothing is left over\n", "{end:?}");
        assert_eq!(records(), [""; 0], "{end:?}");
        second.tool.binaries(&binaries::under_test()).del(&second.container).expect_success();
        assert_eq!(rules(sandbox), [""; 0], "{end:?}");
    });
    let sandbox = host();
    let [first, _second] = succeeded(&sandbox, &debian, End::Restart);
    let before = rules(&sandbox);
    first.tool.del(&first.container).expect_success();
    assert_eq!((rules(&sandbox), records()), (before, Vec::new()));
}

/// A container that the runtime has lost keeps nothing: the veth of its own is not another one's.
#[test]
fn del_without_a_namespace_removes_the_rules_of_a_container_of_the_reference_that_lives_on() {
    let Some(debian) = debian("DEL of a container of the reference that has lost its name") else { return };
    let sandbox = host();
    let lost = PublishedContainer::add_by(&debian, &sandbox, "lost", 8081);
    let _inhabitant = process_in(&lost.container);
    sandbox.sh("ip netns del lost");
    lost.tool.binaries(&binaries::under_test()).del(&lost.container).expect_success();
    assert_eq!(rules(&sandbox), [""; 0]);
}

#[test]
fn repair_puts_back_the_rules_of_one_whose_address_a_container_of_ours_had() {
    let Some(debian) = debian("repair of a container of the reference") else { return };
    after_each_end(&debian, |sandbox, second, before, end| {
        sandbox.sh("iptables -F CNI-FORWARD");
        tool(sandbox, &["repair"]).expect_success();
        assert_eq!(rules(sandbox), before, "{end:?}");
        tool(sandbox, &["gc", "--remove"]).expect_success();
        assert_eq!(rules(sandbox), before, "{end:?}");
        second.tool.binaries(&binaries::under_test()).del(&second.container).expect_success();
        assert_eq!((rules(sandbox), records()), (Vec::new(), Vec::new()), "{end:?}");
    });
}

/// Adds a container, which the reference deletes and adds again in another namespace: the record is of the one before.
fn added_again<'s>(sandbox: &'s Sandbox, debian: &Path) -> PublishedContainer<'s> {
    let PublishedContainer { tool: by_us, container } = PublishedContainer::add(sandbox, "again", 8081);
    let tool = by_us.binaries(debian);
    tool.del(&container).expect_success();
    end_namespace(sandbox, "again");
    sandbox.sh(&format!("rm {LEASES}/last_reserved_ip.0"));
    sandbox.sh("ip netns add again");
    tool.add(&container).expect_success();
    PublishedContainer { tool, container }
}

/// After a swap to the reference and back.
#[test]
fn a_container_that_the_reference_has_added_again_is_repaired_and_deleted() {
    let Some(debian) = debian("a container that the reference has added again") else { return };
    let sandbox = host();
    let PublishedContainer { tool: by_reference, container } = added_again(&sandbox, &debian);
    assert_eq!(tool(&sandbox, &["gc", "--remove"]).stdout(), "nothing is left over\n");
    let whole = rules(&sandbox);
    assert_eq!(whole.len(), 2);
    sandbox.sh("iptables -F CNI-FORWARD");
    tool(&sandbox, &["repair"]).expect_success();
    assert_eq!(rules(&sandbox), whole);
    by_reference.binaries(&binaries::under_test()).del(&container).expect_success();
    assert!(Network::observe(&container).link("eth0").is_none(), "the interface goes before its address is free");
    assert_eq!((rules(&sandbox), records()), (Vec::new(), Vec::new()));
    assert_eq!(leases(), [""; 0]);
}

/// The runtime keeps its cache elsewhere, so that nothing but the record of the namespace before is known.
#[test]
fn gc_leaves_the_ports_of_one_that_the_reference_has_added_again_though_nothing_is_in_the_cache() {
    let Some(debian) = debian("ports of a container that the reference has added again") else { return };
    let sandbox = host();
    let again = added_again(&sandbox, &debian);
    cache().iter().for_each(|file| fs::remove_file(file).expect("remove the entry"));
    let ports = sandbox.sh("iptables -t nat -S");
    let said = tool(&sandbox, &["gc", "--remove"]);
    assert!(said.stdout().contains(" eth0: unclear: its network namespace has ended, but rules of portmap "), "{said}");
    assert_eq!((sandbox.sh("iptables -t nat -S"), said.code()), (ports, Some(FOUND)));
    again.container.remove();
    wait_until("it is dead", || tool(&sandbox, &["gc", "--remove"]).stdout().contains(" eth0: removed "));
    assert!(!sandbox.sh("iptables -t nat -S").contains("8081"));
}

/// The runtime has lost its cache, so that its lease and the record of the namespace before are known.
#[test]
fn gc_leaves_the_lease_of_one_that_the_reference_has_added_again_though_it_is_not_in_the_cache() {
    let Some(debian) = debian("a lease of a container that the reference has added again") else { return };
    // The ADD before was killed when it had written only the beginning of its record.
    for is_killed in [false, true] {
        let sandbox = host();
        let _again = added_again(&sandbox, &debian);
        let lost = cache();
        let _known = PublishedContainer::add_by(&debian, &sandbox, "known", 8082);
        lost.iter().for_each(|file| fs::remove_file(file).expect("remove the entry"));
        age_records(&sandbox, is_killed);
        sandbox.sh(&format!("find {LEASES} -name 172.* -exec touch -d yesterday {{}} +"));
        let before = leases();
        assert_eq!((lost.len(), before.len()), (1, 2));
        let said = tool(&sandbox, &["gc", "--remove"]);
        assert_eq!(leases(), before, "{is_killed}: {said}");
        assert!(said.stdout().contains(" eth0: unclear: "), "{is_killed}: {said}");
    }
}

/// The administrator looks at a container from inside, and nothing is recorded about any of them.
#[test]
fn gc_and_repair_refuse_inside_a_container_of_the_reference() {
    let Some(debian) = debian("the tool inside a container of the reference") else { return };
    let sandbox = host();
    let _first = PublishedContainer::add_by(&debian, &sandbox, "first", 8081);
    sandbox.sh("rm -rf /run/cni/.cni-plugins-rs");
    let (leased, program) = (leases(), binaries::under_test().join("cni-plugins"));
    for words in ["gc --remove", "repair"] {
        let refused = sandbox.exec(&["sh", "-c", &format!("ip netns exec first {} {words}", program.display())]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{words}: {}", refused.stderr);
        assert!(refused.stderr.contains("belong to another network namespace; run this command in it"), "{words}");
    }
    assert_eq!((leases(), cache().len()), (leased, 1));
    assert_eq!(tool(&sandbox, &["gc", "--remove"]).stdout(), "nothing is left over\n", "on the host");
}

/// Our plugins, but the firewall of the reference, as after `install --only` of the others.
fn mixed(sandbox: &Sandbox, debian: &Path) -> PathBuf {
    let (folder, ours) = (PathBuf::from("/run/cni-mixed"), binaries::under_test());
    for kind in ["loopback", "bridge", "host-local", "portmap"] {
        sandbox.sh(&format!("install -D {}/{kind} {}/{kind}", ours.display(), folder.display()));
    }
    sandbox.sh(&format!("install {}/firewall {}/firewall", debian.display(), folder.display()));
    folder
}

/// The reference's DEL has left what `repair` had recorded, and its ADD records nothing.
#[test]
fn gc_leaves_the_rules_of_one_whose_bridge_is_ours_and_whose_firewall_is_the_references() {
    let Some(debian) = debian("our bridge with the firewall of the reference") else { return };
    let sandbox = host();
    let folder = mixed(&sandbox, &debian);
    let goes = PublishedContainer::add_by(&folder, &sandbox, "goes", 8081);
    sandbox.sh("iptables -F CNI-FORWARD");
    tool(&sandbox, &["repair"]).expect_success();
    goes.tool.del(&goes.container).expect_success();
    end_namespace(&sandbox, "goes");
    sandbox.sh(&format!("rm {LEASES}/last_reserved_ip.0"));
    let stays = PublishedContainer::add_by(&folder, &sandbox, "stays", 8082);
    let before = rules(&sandbox);
    assert_eq!(before.len(), 2);
    let (file, entry) = (&cache()[0], fs::read(&cache()[0]).expect("read the entry"));
    let successor = format!("{ADDRESS} belongs to container ");
    for (content, code, reason) in [(&b"{"[..], 1, "not everything can be read, "), (&entry, FOUND, &successor)] {
        fs::write(file, content).expect("write the entry");
        let said = tool(&sandbox, &["gc", "--remove"]);
        assert_eq!((&rules(&sandbox), said.code()), (&before, Some(code)), "{said}");
        assert!(said.stdout().contains(&format!(" eth0: unclear: {reason}")), "{said}");
    }
    stays.tool.del(&stays.container).expect_success();
    tool(&sandbox, &["gc", "--remove"]).expect_success();
    assert_eq!((rules(&sandbox), records()), (Vec::new(), Vec::new()));
}

fn leases() -> Vec<String> {
    leases::of_network("/run/cni", "nomad")
}

/// The records of firewall and portmap, which a repair writes.
fn records() -> Vec<String> {
    let kinds = ["address", "port"].map(|kind| format!("/run/cni/.cni-plugins-rs/index/*/{kind}"));
    let found = std::process::Command::new("sh")
        .args(["-c", &format!("find {} -type f 2>/dev/null || true", kinds.join(" "))])
        .output()
        .expect("list the records");
    String::from_utf8(found.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn what_repair_has_recorded_goes_with_gc_after_the_del_of_the_reference() {
    let Some(debian) = debian("records of a repair after the DEL of the reference") else { return };
    let sandbox = host();
    let stays = PublishedContainer::add_by(&debian, &sandbox, "stays", 8082);
    let goes = PublishedContainer::add_by(&debian, &sandbox, "goes", 8081);
    sandbox.sh("iptables -F CNI-FORWARD");
    tool(&sandbox, &["repair"]).expect_success();
    let both = records();
    goes.tool.del(&goes.container).expect_success();
    assert_eq!(tool(&sandbox, &["gc"]).stdout(), "nothing is left over\n", "its namespace lives");
    end_namespace(&sandbox, "goes");
    let said = tool(&sandbox, &["gc"]);
    assert!(said.stdout().ends_with(" eth0: left over (not in the cache, and its namespace is gone)\n"), "{said}");
    tool(&sandbox, &["gc", "--remove"]).expect_success();
    assert_eq!(records().len() * 2, both.len(), "{both:#?}");
    assert_eq!(tool(&sandbox, &["gc"]).stdout(), "nothing is left over\n");
    stays.tool.binaries(&binaries::under_test()).check(&stays.container).expect_success();
    assert_eq!(leases().len(), 1);
}
