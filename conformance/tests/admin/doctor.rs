//! `doctor`: what keeps plugins from working, each with its cure.
//!
//! The machine that the tests run on may have findings of its own, so each test looks for its one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use cni_conformance::{Sandbox, binaries, script};
use nix::mount::{MsFlags, mount};
use serde_json::Value;

use crate::admin::{FOUND, PublishedContainer, document, host, state, tool};

const PLUGINS: &str = "/opt/cni/bin";

/// A host with a runtime that looks for plugins in a folder of its own, which has these plugins.
fn with_plugins() -> Sandbox {
    let sandbox = host();
    mount(Some("tmpfs"), "/opt", Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).expect("mount a tmpfs on /opt");
    fs::create_dir_all(PLUGINS).expect("create a folder");
    sandbox.sh(&format!("cp -a {}/. {PLUGINS}", binaries::under_test().display()));
    script::install(&Path::new("/run/conformance/bin").join("nomad"), "exit 0\n");
    sandbox
}

/// The findings about something that say this, with severity and cure.
#[track_caller]
fn findings(sandbox: &Sandbox, words: &[&str], says: &str) -> Vec<(String, String)> {
    let (document, code) = document(sandbox, &[&["doctor"], words].concat());
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let all = document["findings"].as_array().expect("findings");
    let is_problem = all.iter().any(|one| one["severity"] == "problem");
    assert_eq!(code, Some(if is_problem { FOUND } else { 0 }), "{document:#}");
    let meant = all.iter().filter(|one| one["says"].as_str().is_some_and(|text| text.contains(says)));
    meant.map(|one| (text(one, "severity"), text(one, "cure"))).collect()
}

#[track_caller]
fn severity(sandbox: &Sandbox, words: &[&str], says: &str) -> String {
    let found = findings(sandbox, words, says);
    let [(severity, cure)] = &found[..] else { panic!("one finding says {says:?}: {found:?}") };
    assert!(severity == "ok" || !cure.is_empty(), "{says} has a cure");
    severity.clone()
}

#[test]
fn a_host_with_these_plugins_has_what_they_need() {
    let sandbox = with_plugins();
    let before = state(&sandbox);
    for says in ["Linux ", "root, with all capabilities", "nf_tables can be used", "iptables v", "all of this release"]
    {
        let found = findings(&sandbox, &[], says);
        assert!(found.iter().any(|(severity, _)| severity == "ok"), "{says}: {found:?}");
    }
    let said = tool(&sandbox, &["doctor"]);
    assert!(said.stdout().lines().any(|line| line.starts_with("ok       kernel: Linux ")), "{said}");
    assert!(said.stdout().lines().last().is_some_and(|line| line.ends_with(" notes")), "{said}");
    assert_eq!(before, state(&sandbox));
}

/// STATUS passes then.
#[test]
fn ranges_without_a_free_address_are_a_problem() {
    let sandbox = with_plugins();
    let ipam = r#"{"type":"host-local","dataDir":"/run/leases","subnet":"10.1.2.0/30"}"#;
    let list = format!(r#"{{"cniVersion":"1.0.0","name":"n1","plugins":[{{"type":"bridge","ipam":{ipam}}}]}}"#);
    for folder in ["/run/lists", "/run/leases/n1"] {
        fs::create_dir_all(folder).expect("create a folder");
    }
    fs::write("/run/lists/n1.conflist", list).expect("write a list");
    let full =
        |sandbox: &Sandbox| findings(sandbox, &["--config-dir", "/run/lists"], "no address of 10.1.2.1-10.1.2.2");
    assert_eq!(full(&sandbox), []);
    fs::write("/run/leases/n1/10.1.2.2", "c1\r\neth0").expect("write a lease");
    assert_eq!(full(&sandbox)[0].0, "problem");
}

/// It is root who asks the doctor.
#[test]
fn a_program_that_others_than_root_could_have_put_there_is_not_run() {
    let [folder, file] = ["/run/linked", "/run/linked/bridge"];
    for (path, mode, owner, last) in
        [(PLUGINS, 0o777, None, "vrf"), (folder, 0o777, None, "bridge"), (file, 0o755, Some(65534), "bridge")]
    {
        let sandbox = with_plugins();
        fs::create_dir(folder).expect("create a folder");
        script::install(Path::new(file), "touch /run/was-run\n");
        sandbox.sh(&format!("ln -sf {file} {PLUGINS}/bridge"));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set the mode");
        chown(path, owner, None).expect("set the owner");
        let says = format!("{last} in /opt/cni/bin (not run: others than root could change it)");
        assert!(!findings(&sandbox, &[], &says).is_empty(), "{path}");
        let of_folder = findings(&sandbox, &[], "others than root could change /opt/cni/bin, whose programs");
        assert_eq!(of_folder.is_empty(), path != PLUGINS, "{path}: {of_folder:?}");
        assert!(!Path::new("/run/was-run").exists(), "{path}");
    }
}

#[test]
fn forwarding_that_somebody_has_turned_off_is_a_problem() {
    let sandbox = with_plugins();
    let says = "net.ipv4.ip_forward is 0";
    sandbox.set_sysctl("net/ipv4/ip_forward", "0");
    assert_eq!(findings(&sandbox, &[], says), [], "nobody needs it");
    let _attached = PublishedContainer::add(&sandbox, "first", 8080);
    assert_eq!(findings(&sandbox, &[], says), [], "ADD turns it on");
    sandbox.set_sysctl("net/ipv4/ip_forward", "0");
    assert_eq!(severity(&sandbox, &[], says), "problem");
}

#[test]
fn a_host_without_iptables_uses_nf_tables() {
    let sandbox = with_plugins();
    sandbox.sh("rm -r /run/conformance/bin");
    let hidden = "unshare -m sh -c 'for p in /usr/sbin/iptables* /usr/sbin/ip6tables*; do mount --bind /dev/null $p; done; \
                  exec \"$0\" doctor'";
    let program = binaries::under_test().join("cni-plugins");
    let line = format!("{hidden} {}", program.display());
    let said = sandbox.exec(&["sh", "-c", &line]);
    assert!(said.stdout.contains("note     packet filter: iptables cannot be used: "), "{}", said.stdout);
    assert!(said.stdout.contains("ok       packet filter: nf_tables can be used"), "{}", said.stdout);
}

#[test]
fn configurations_that_cannot_work_are_named() {
    let sandbox = with_plugins();
    fs::create_dir("/run/net.d").expect("create a folder");
    let folder = ["--config-dir", "/run/net.d"];
    fs::write("/run/net.d/1.conflist", "{").expect("write a file");
    let missing = r#"{"name": "a", "plugins": [{"type": "loopback", "ipam": {"type": "nowhere"}}, {}]}"#;
    fs::write("/run/net.d/2.conflist", missing).expect("write a file");
    let refused = r#"{"name": "b", "plugins": [{"type": "firewall", "ingressPolicy": "none-such"}]}"#;
    fs::write("/run/net.d/3.conflist", refused).expect("write a file");
    fs::write("/run/net.d/4.conflist", r#"{"name": "c", "plugins": [{"type": "loopback"}]}"#).expect("write a file");
    fs::write("/run/net.d/readme.txt", "{").expect("write a file");
    for (says, expected) in [
        ("/run/net.d/1.conflist cannot be read: EOF", "problem"),
        ("/run/net.d/2.conflist needs the plugin nowhere", "problem"),
        ("/run/net.d/2.conflist has a plugin without a type", "problem"),
        ("/run/net.d/3.conflist: the plugin firewall is not ready: ", "problem"),
        ("/run/net.d/4.conflist: every plugin is there and ready", "ok"),
    ] {
        assert_eq!(severity(&sandbox, &folder, says), expected);
    }
    assert_eq!(findings(&sandbox, &folder, "readme.txt"), []);
}
