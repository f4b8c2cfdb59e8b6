//! `gc`: what belongs to no living namespace goes, and nothing else.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::thread;

use cni_conformance::wait::wait_until;
use cni_conformance::{Attachment, Invocation, Nomad, Runtime, Verb, script};
use serde_json::json;

use crate::admin::{LEASES, PublishedContainer, host, lose, state, tool};

fn cached() -> usize {
    fs::read_dir("/var/lib/cni/results").expect("list the cache").count()
}

/// The cache outlives a reboot, and leases below `/run` do not: then containers get the addresses of those before.
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

/// The rules of several containers go at once, but not those for an address on which a plugin works: whose it is must not change meanwhile.
#[test]
fn rules_for_an_address_on_which_a_plugin_works_go_when_it_has_ended() {
    let sandbox = host();
    for (name, port) in [("one", 8081), ("two", 8082)] {
        PublishedContainer::add(&sandbox, name, port);
        lose(&sandbox, name);
    }
    let has = |address: &str| sandbox.sh("iptables -S CNI-FORWARD").contains(address);
    // The plugin has done all, and writes its result to a pipe that is full.
    sandbox.sh("mkfifo /run/full");
    let mut pipe = File::options().read(true).write(true).open("/run/full").expect("open the pipe");
    pipe.write_all(&[0; 65536]).expect("fill the pipe");
    let busy = sandbox.container("busy");
    let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "172.26.64.2/20"}, {"address": "172.26.64.9/20"}]});
    let add = Runtime::new(&sandbox, Nomad::version("1.0.0").conflist())
        .invocation(Verb::Add, "firewall", &Attachment::new("busy", &busy), Some(&result))
        .launched_by(&["/bin/sh", "-c", "exec \"$0\" >/run/full"]);
    let gc = Invocation::new(&sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND");
    let gc = gc.arguments(&["gc", "--remove"]);
    thread::scope(|scope| {
        let adding = scope.spawn(|| add.run());
        wait_until("the plugin has made its rules", || has("172.26.64.9/32"));
        let removing = scope.spawn(|| gc.run());
        wait_until("gc has removed the rules of the other address", || !has("172.26.64.3/32"));
        let is_there = has("172.26.64.2/32");
        pipe.read_exact(&mut [0; 65536]).expect("empty the pipe");
        adding.join().expect("it ends").expect_success();
        let removed = removing.join().expect("it ends");
        removed.expect_success();
        assert!(is_there, "gc has not waited for the plugin");
        // If it waited before it removed the others, the pipe would stay full until it gave up.
        assert!(!removed.to_string().contains("gave up after"), "{removed}");
    });
    assert!(!has("172.26.64.2/32"));
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
