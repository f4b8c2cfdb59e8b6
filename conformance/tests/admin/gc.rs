//! `gc`: what belongs to no living namespace goes, and nothing else.

use std::fs;
use std::path::Path;

use cni_conformance::{Nomad, Sandbox, script};
use serde_json::json;

use crate::admin::{ContainerProcess, FOUND, LEASES, PublishedContainer, document, forgotten, host, lose, state, tool};

fn cached() -> usize {
    fs::read_dir("/var/lib/cni/results").expect("list the cache").count()
}

/// A container that is gone without a DEL, beside one that lives. Returns what the host had before it came.
fn lost(sandbox: &Sandbox) -> (PublishedContainer<'_>, Vec<String>) {
    let neighbour = PublishedContainer::add(sandbox, "stays", 8080);
    let before = state(sandbox);
    PublishedContainer::add(sandbox, "goes", 8081);
    lose(sandbox, "goes");
    (neighbour, before)
}

#[test]
fn without_remove_it_says_what_is_left_over_and_changes_nothing() {
    let sandbox = host();
    assert_eq!(tool(&sandbox, &["gc"]).stdout(), "nothing is left over\n");
    let (_neighbour, _) = lost(&sandbox);
    let ghost = forgotten(&sandbox, "ghost", 8082);
    let before = state(&sandbox);
    let said = tool(&sandbox, &["gc"]);
    assert_eq!(said.code(), Some(FOUND), "{said}");
    let lines: Vec<&str> = said.stdout().lines().collect();
    assert!(lines[0].contains(" eth0: left over (its namespace is gone; 172.26.64.3)"), "{said}");
    assert!(lines[1].starts_with(&format!("nomad {ghost} eth0: left over (not in the cache, ")), "{said}");
    assert_eq!((before, cached()), (state(&sandbox), 2));
}

#[test]
fn everything_of_a_container_that_is_gone_goes_and_the_others_stay() {
    let sandbox = host();
    let (neighbour, before) = lost(&sandbox);
    forgotten(&sandbox, "ghost", 8082);
    let (done, code) = document(&sandbox, &["gc", "--remove"]);
    assert_eq!(code, Some(0), "{done:#}");
    let fates: Vec<_> = done["leftOver"].as_array().expect("a list").iter().map(|one| &one["outcome"]).collect();
    assert_eq!(fates, [&json!("removed"); 2], "{done:#}");
    assert_eq!((before, cached()), (state(&sandbox), 1));
    neighbour.tool.check(&neighbour.container).expect_success();
    assert_eq!(tool(&sandbox, &["gc", "--remove"]).stdout(), "nothing is left over\n");
}

#[test]
fn one_network_can_be_cleaned_alone() {
    let sandbox = host();
    let (_neighbour, _) = lost(&sandbox);
    let before = state(&sandbox);
    assert_eq!(tool(&sandbox, &["gc", "--remove", "--network", "other"]).stdout(), "nothing is left over\n");
    assert_eq!((before, cached()), (state(&sandbox), 2));
}

#[test]
fn what_lives_without_a_name_stays() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    let _inhabitant = ContainerProcess::of(&attached.container);
    sandbox.sh("ip netns del first");
    let before = state(&sandbox);
    assert_eq!(tool(&sandbox, &["gc", "--remove"]).stdout(), "nothing is left over\n");
    assert_eq!((before, cached()), (state(&sandbox), 1));
}

/// The cache outlives a reboot, and leases below `/run` do not: then containers get the addresses of those before.
#[test]
fn a_container_from_before_goes_and_the_one_that_has_its_address_now_stays() {
    let sandbox = host();
    let _shared = PublishedContainer::add(&sandbox, "stays", 8080);
    let before = state(&sandbox);
    PublishedContainer::add(&sandbox, "goes", 8081);
    lose(&sandbox, "goes");
    sandbox.sh(&format!("rm {LEASES}/172.26.64.3 {LEASES}/last_reserved_ip.0"));
    let heir = PublishedContainer::add(&sandbox, "heir", 8082);
    let heirs = |line: &&String| line.contains("172.26.64.3");
    let rules = |lines: Vec<String>| lines.iter().filter(heirs).filter(|line| line.contains("-A ")).count();
    tool(&sandbox, &["gc", "--remove"]).expect_success();
    heir.tool.check(&heir.container).expect_success();
    assert_eq!((cached(), rules(before), rules(state(&sandbox))), (2, 0, 4));
}

/// The rules of all of them are removed in one change of each table.
#[test]
fn of_many_that_are_gone_everything_goes_but_what_somebody_else_has_by_now() {
    let sandbox = host();
    let stays = PublishedContainer::add(&sandbox, "stays", 8080);
    let before = state(&sandbox);
    for (name, port) in [("one", 8081), ("two", 8082), ("three", 8083), ("four", 8084)] {
        PublishedContainer::add(&sandbox, name, port);
        lose(&sandbox, name);
    }
    // The heir gets the address of `two`, and its port.
    sandbox.sh(&format!("rm {LEASES}/172.26.64.4"));
    fs::write(format!("{LEASES}/last_reserved_ip.0"), "172.26.64.3").expect("write a file");
    let heir = PublishedContainer::add(&sandbox, "heir", 8082);
    tool(&sandbox, &["gc", "--remove"]).expect_success();
    for one in [&stays, &heir] {
        one.tool.check(&one.container).expect_success();
    }
    let rules =
        |address: &str| state(&sandbox).iter().filter(|line| line.contains("-A ") && line.contains(address)).count();
    assert_eq!((cached(), ["172.26.64.3", "172.26.64.5", "172.26.64.6"].map(rules)), (2, [0; 3]));
    assert!(rules("172.26.64.4") > 0);
    heir.tool.del(&heir.container).expect_success();
    assert_eq!(before, state(&sandbox));
}

/// A list may have plugins of others, which want to know of the end as well.
#[test]
fn plugins_of_others_are_called_too_and_one_that_fails_keeps_the_entry() {
    let sandbox = host();
    let folder = Path::new("/run/plugins");
    fs::create_dir(folder).expect("create a folder");
    let ours = cni_conformance::binaries::under_test();
    sandbox.sh(&format!("cp -a {}/. {}", ours.display(), folder.display()));
    let plugin = "cat >/dev/null; echo \"$CNI_COMMAND $CNI_CONTAINERID\" >>/run/called; test ! -e /run/refuse || \
                  { echo '{\"code\": 7, \"msg\": \"refused\"}'; exit 1; }\n\
                  test \"$CNI_COMMAND\" != ADD || echo '{\"cniVersion\": \"1.0.0\"}'\n";
    script::install(&folder.join("other"), plugin);
    // The folder of others has no IPAM plugin.
    fs::create_dir("/run/others").expect("create a folder");
    script::install(Path::new("/run/others/other"), plugin);
    let mut list = Nomad::version("1.0.0").conflist();
    list["plugins"] = json!([list["plugins"][1], {"type": "other"}]);
    let container = sandbox.container("goes");
    cni_conformance::CniTool::new(&sandbox, &list).binaries(folder).add(&container).expect_success();
    lose(&sandbox, "goes");
    let remove = ["gc", "--remove", "--plugin-dir", "/run/others"];

    fs::write("/run/refuse", "").expect("write a file");
    let failed = tool(&sandbox, &remove);
    assert_eq!((failed.code(), cached()), (Some(1), 1), "{failed}");
    assert!(failed.stdout().contains(": failed: other: refused ("), "{failed}");
    assert!(!Path::new(LEASES).join("172.26.64.2").exists(), "the rest goes all the same");
    fs::remove_file("/run/refuse").expect("remove a file");
    tool(&sandbox, &remove).expect_success();
    assert_eq!(cached(), 0);
    let called = fs::read_to_string("/run/called").expect("the plugin has written");
    assert_eq!(called.lines().filter(|line| line.starts_with("DEL cnitool-")).count(), 2, "{called}");
}
