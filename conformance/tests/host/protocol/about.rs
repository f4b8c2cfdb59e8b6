//! What a plugin says of itself: about text and VERSION.
//!
//! Nomad starts every plugin without arguments, joins both output streams and takes the first word
//! that is a semantic version; nerdctl takes what follows `CNI firewall plugin `. Releases of Nomad
//! before 1.5.4 read the words from the last to the first.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use cni_catalog::entry;
use cni_conformance::{Invocation, Outcome, Sandbox, Verb, binaries};

use crate::protocol::{PLUGINS, VERSIONS, bare, ended, versions_of};

/// The release of the reference whose features a plugin has. That of `consul-cni` is consul-k8s, of which Nomad wants
/// at least 1.4.2.
fn level(plugin: &str) -> String {
    let level = entry(plugin).expect("a plugin").reference_level.as_deref().unwrap_or("1.9.1");
    format!("v{level}+rs.")
}

/// Requires the about text, and nothing but it.
#[track_caller]
fn assert_about(plugin: &str, outcome: &Outcome) {
    assert_eq!(outcome.code(), Some(0), "{outcome}");
    assert_eq!(outcome.stdout(), "", "{outcome}");
    let lines: Vec<&str> = outcome.stderr().split_inclusive('\n').collect();
    let [first, second] = lines[..] else { panic!("two lines: {outcome}") };
    let start = format!("CNI {plugin} plugin {}", level(plugin));
    let ours = first.strip_prefix(&start).and_then(|rest| rest.strip_suffix('\n'));
    let ours = ours.unwrap_or_else(|| panic!("{start}<version>: {outcome}"));
    assert!(is_release(ours), "{ours:?} is a version of three numbers: {outcome}");
    assert_eq!(second, format!("CNI protocol versions supported: {}\n", versions_of(plugin).join(", ")));
}

fn is_release(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// Tells whether HashiCorp's go-version takes a word for a semantic version: an optional `v`,
/// numbers between dots, then a prerelease, then metadata.
fn is_semver(word: &str) -> bool {
    let (version, metadata) = word.split_once('+').map_or((word, None), |(version, meta)| (version, Some(meta)));
    let version = version.strip_prefix('v').unwrap_or(version);
    let (numbers, prerelease) = version.split_once('-').map_or((version, None), |(core, pre)| (core, Some(pre)));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_label = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.~".contains(&byte))
    };
    numbers.split('.').all(is_number) && [prerelease, metadata].into_iter().flatten().all(is_label)
}

fn without_command(sandbox: &Sandbox, plugin: &str) -> Invocation {
    let invocation = Invocation::new(sandbox, plugin, Verb::Add);
    ["CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"]
        .into_iter()
        .fold(invocation, |invocation, name| invocation.without_env(name))
}

#[test]
fn without_a_command_the_about_text_goes_to_stderr() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        assert_about(plugin, &without_command(&sandbox, plugin).run());
        assert_about(plugin, &without_command(&sandbox, plugin).env("CNI_COMMAND", "").run());
        for arguments in [&["--version"][..], &["--help"], &["-h"], &["version"], &["ADD", "x"]] {
            assert_about(plugin, &without_command(&sandbox, plugin).arguments(arguments).run());
        }
    }
}

/// Nomad has its own `CNI_PATH`, and a runtime's other variables may be anything.
#[test]
fn without_a_command_no_other_variable_matters() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let odd = without_command(&sandbox, plugin)
            .env("CNI_PATH", "/opt/cni/bin")
            .container_id("-/")
            .ifname("a/b")
            .netns("/nowhere")
            .args("x")
            .stdin(b"{");
        assert_about(plugin, &odd.run());
    }
}

#[test]
fn nomad_and_nerdctl_find_the_version() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let outcome = without_command(&sandbox, plugin).run();
        let both = format!("{}{}", outcome.stdout(), outcome.stderr());
        let words: Vec<&str> = both.split_whitespace().filter(|word| is_semver(word)).collect();
        assert!(words.first().is_some_and(|word| word.starts_with(&level(plugin))), "first version of {both}");
        assert_eq!(words.last(), Some(&"1.1.0"), "last version of {both}");
        let line = both.lines().next().expect("a line");
        let rest = line.strip_prefix(&format!("CNI {plugin} plugin ")).expect("the words before the version");
        assert_eq!(Some(&rest), words.first(), "nothing may follow the version");
    }
}

#[test]
fn the_semver_rule_is_go_versions() {
    for word in ["v1.9.1", "v1.9.1+rs.0.2.0", "1.1.0", "2", "v1.0.0-rc.1+x"] {
        assert!(is_semver(word), "{word}");
    }
    for word in ["0.1.0,", "CNI", "v", "1..0", "1.0+", "plugin", "v1.9.1_1"] {
        assert!(!is_semver(word), "{word}");
    }
}

#[test]
fn about_and_version_do_not_wait_for_standard_input() {
    let sandbox = crate::protocol::sandbox();
    for plugin in PLUGINS {
        let about = ended(bare(&sandbox, plugin).stdin(Stdio::piped()).spawn().expect("start a plugin"));
        assert!(about.status.success() && about.stdout.is_empty() && !about.stderr.is_empty(), "{plugin}: {about:?}");
        let mut command = bare(&sandbox, plugin);
        command.env("CNI_COMMAND", "VERSION");
        let version = ended(command.stdin(Stdio::piped()).spawn().expect("start a plugin"));
        assert!(version.status.success() && !version.stdout.is_empty(), "{plugin}: {version:?}");
    }
}

fn version_reply(plugin: &str) -> String {
    let versions: Vec<String> = versions_of(plugin).iter().map(|version| format!("{version:?}")).collect();
    format!("{{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[{}]}}\n", versions.join(","))
}

/// What libcni sends, what SPEC asks for, and nothing at all.
#[test]
fn version_answers_one_line_whatever_is_sent() {
    let sandbox = crate::protocol::sandbox();
    let last = VERSIONS.last().expect("versions");
    for plugin in PLUGINS {
        let plain = without_command(&sandbox, plugin).env("CNI_COMMAND", "VERSION");
        let dummies = plain.clone().netns("dummy").ifname("dummy").path("dummy");
        let calls = [
            plain.clone(),
            plain.clone().arguments(&["--version", "--help"]),
            plain.clone().container_id("-/").ifname("a/b").args("x"),
            dummies.stdin(format!("{{\"cniVersion\":\"{last}\"}}").as_bytes()),
            plain.clone().stdin(b"{\"cniVersion\":\"9.9.9\"}"),
            plain.stdin(b"{"),
        ];
        for call in calls {
            let outcome = call.run();
            assert_eq!(outcome.code(), Some(0), "{outcome}");
            assert_eq!(outcome.stdout(), version_reply(plugin), "{outcome}");
        }
    }
}

/// Installers copy and link plugins one by one.
#[test]
fn a_plugin_is_what_its_file_is_called_however_it_got_there() {
    let sandbox = crate::protocol::sandbox();
    for kind in ["link", "copy"] {
        let folder = Path::new("/run").join(kind);
        fs::create_dir(&folder).expect("create a folder");
        for plugin in PLUGINS {
            let source = binaries::under_test().join(plugin);
            match kind {
                "link" => symlink(&source, folder.join(plugin)).expect("link a plugin"),
                // Another program writes, since a file that any thread's child still holds open is busy.
                _ => drop(sandbox.sh(&format!("cp {} {}", source.display(), folder.display()))),
            }
            let version = without_command(&sandbox, plugin).binaries(&folder).env("CNI_COMMAND", "VERSION").run();
            assert_eq!(version.stdout(), version_reply(plugin), "{version}");
            let about = without_command(&sandbox, plugin).binaries(&folder).run();
            assert!(about.stderr().starts_with(&format!("CNI {plugin} plugin v")), "{about}");
            fs::remove_file(folder.join(plugin)).expect("remove a plugin");
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
                let version = call.clone().env("CNI_COMMAND", "VERSION").run();
                assert_eq!(version.stdout(), version_reply(plugin), "{version}");
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
