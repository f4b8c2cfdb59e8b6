//! What a plugin says of itself: about text and VERSION.
//!
//! Nomad starts every plugin without arguments, joins both output streams and takes the first word
//! that is a semantic version; nerdctl takes what follows `CNI firewall plugin `. Releases of Nomad
//! before 1.5.4 read the words from the last to the first.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cni_catalog::entry;
use cni_conformance::{Invocation, Outcome, Sandbox, Verb, binaries};

use crate::protocol::{PLUGINS, versions_of};

/// Requires the about text, and nothing but it. Its version begins with the release of the reference whose features a plugin has; that of
/// `consul-cni` is consul-k8s, of which Nomad wants at least 1.4.2.
#[track_caller]
fn assert_about(plugin: &str, outcome: &Outcome) {
    let level = entry(plugin).expect("a plugin").reference_level.as_deref().unwrap_or("1.9.1");
    let start = format!("CNI {plugin} plugin v{level}+rs.");
    let versions = format!("CNI protocol versions supported: {}", versions_of(plugin).join(", "));
    let ours = outcome.stderr().strip_prefix(&start).and_then(|rest| rest.strip_suffix(&format!("\n{versions}\n")));
    let numbers: Vec<_> =
        ours.unwrap_or_else(|| panic!("{start}<version> and {versions}: {outcome}")).split('.').collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok()), "{outcome}");
    assert_eq!((outcome.code(), outcome.stdout()), (Some(0), ""), "{outcome}");
}

fn without_command(sandbox: &Sandbox, plugin: &str) -> Invocation {
    let invocation = Invocation::new(sandbox, plugin, Verb::Add);
    ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]
        .into_iter()
        .fold(invocation, |invocation, name| invocation.without_env(name))
}

fn version_reply(plugin: &str) -> String {
    let versions: Vec<String> = versions_of(plugin).iter().map(|version| format!("{version:?}")).collect();
    format!("{{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[{}]}}\n", versions.join(","))
}

/// Whatever else is sent: Nomad has its own `CNI_PATH`, and a runtime's other variables may be anything.
#[test]
fn the_about_text_goes_to_stderr_and_version_answers_one_line() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let plain = without_command(&sandbox, plugin);
        let odd =
            plain.clone().path("/opt/cni/bin").container_id("-/").ifname("a/b").netns("/nowhere").args("x").stdin(b"{");
        let calls = [
            plain.clone(),
            plain.clone().arguments(&["--version", "--help"]),
            odd,
            plain.stdin(b"{\"cniVersion\":\"9.9.9\"}"),
        ];
        for call in calls {
            assert_about(plugin, &call.run());
            assert_about(plugin, &call.clone().env("CNI_COMMAND", "").run());
            let outcome = call.env("CNI_COMMAND", "VERSION").run();
            assert_eq!((outcome.code(), outcome.stdout()), (Some(0), &*version_reply(plugin)), "{outcome}");
        }
    }
}

/// KubeVirt's operator links `cnv-bridge`, and nerdctl's bundle `buildkit-cni-bridge`. Each row: the file that is started, the links, a copy
/// of the program.
#[test]
fn a_file_is_the_plugin_that_its_name_or_its_links_name_and_never_the_tool_in_a_call() {
    let sandbox = crate::protocol::sandbox();
    let rows: [(_, &[(&str, &str)], _, _); 12] = [
        ("cnv-bridge", &[("cnv-bridge", "bridge")], "bridge", Some("bridge")),
        ("any", &[("any", "../names/deep/tap")], "deep/tap", Some("tap")),
        ("any", &[("any", "b"), ("b", "/run/names/deep/vlan-2"), ("deep/vlan-2", "../c")], "c", Some("vlan")),
        ("x-bridge", &[("x-bridge", "ptp")], "ptp", Some("ptp")),
        ("bridge-x", &[("bridge-x", "ptp")], "ptp", Some("bridge")),
        ("any", &[("any", "a-tc-redirect-tap")], "a-tc-redirect-tap", Some("tc-redirect-tap")),
        ("buildkit-cni-bridge", &[], "buildkit-cni-bridge", Some("bridge")),
        ("my-host-local", &[], "my-host-local", Some("host-local")),
        ("bridge.bin", &[], "bridge.bin", None),
        ("mybridge", &[], "mybridge", None),
        ("any", &[("any", "cni-plugins")], "cni-plugins", None),
        ("cni-plugins", &[], "cni-plugins", None),
    ];
    let folder = Path::new("/run/names");
    for (name, links, copy, plugin) in rows {
        fs::create_dir_all(folder.join("deep")).expect("create folders");
        for (link, target) in links {
            symlink(target, folder.join(link)).expect("link a file");
        }
        sandbox.sh(&format!("cp {} {}", binaries::under_test().join("bridge").display(), folder.join(copy).display()));
        let call = without_command(&sandbox, name).binaries(folder);
        let about = call.run();
        match plugin {
            Some(plugin) => {
                assert_about(plugin, &about);
                assert_eq!(call.clone().env("CNI_COMMAND", "VERSION").run().stdout(), version_reply(plugin));
            }
            None => assert!(about.code() == Some(0) && about.stdout().contains("for a CNI runtime to call"), "{about}"),
        }
        for command in ["ADD", "CHECK", "DEL", "GC", "STATUS"] {
            let outcome = call.clone().env("CNI_COMMAND", command).stdin(b"{\"cniVersion\": \"0.3.1\"}").run();
            let refused = "cniVersion\": \"0.3.1\",\n    \"code\": 4,\n    \"msg\": \"no plugin is called ";
            assert_eq!((outcome.code(), outcome.stdout().contains(refused)), (Some(1), plugin.is_none()), "{outcome}");
        }
        fs::remove_dir_all(folder).expect("remove the folder");
    }
}
