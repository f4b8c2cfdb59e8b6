//! Where runtimes keep their caches: multus has one of its own for its delegates, and some a folder that nobody else knows.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_conformance::cases::for_each;
use cni_conformance::flannel::{lease, write_lease};
use cni_conformance::{CniTool, Invocation, Outcome, Sandbox, Verb, script};
use serde_json::{Value, json};

use crate::admin::{FOUND, PublishedContainer, cache, document, host, lose, state, tool};

/// Where a runtime keeps its cache that no tool can know.
const ELSEWHERE: &str = "/run/runtime";

/// A folder of leases that only the configuration names.
const OWN_LEASES: &str = "/run/leases";

/// The default folder of flannel's state, and one that only the configuration names.
const STATES: [&str; 2] = ["/var/lib/cni/flannel", "/run/states"];

/// Puts a configuration where Nomad looks for them.
fn configure(sandbox: &Sandbox, config: &Value) {
    sandbox.sh("mount -t tmpfs tmpfs /opt");
    fs::create_dir_all("/opt/cni/config").expect("create a folder");
    fs::write("/opt/cni/config/one.conflist", config.to_string()).expect("write the configuration");
}

fn move_cache(directory: &str) {
    fs::create_dir_all(directory).expect("create a folder");
    let files = cache().into_iter().map(|file| (file.clone(), fs::read(file).expect("read the cache")));
    let files: Vec<_> = files.collect();
    fs::create_dir_all(Path::new(directory).join("results")).expect("create a folder");
    for (file, content) in files {
        fs::write(Path::new(directory).join("results").join(file.file_name().expect("a name")), content)
            .expect("write");
        fs::remove_file(file).expect("remove the entry");
    }
}

/// The entry that containerd has of a container whose interfaces multus makes.
fn store_of_multus(entry: &Path) {
    let mut entry: Value = serde_json::from_slice(&fs::read(entry).expect("read the entry")).expect("JSON");
    let config = json!({"cniVersion": "1.0.0", "name": "multus-cni", "plugins": [{"type": "multus"}]});
    entry["config"] = STANDARD.encode(config.to_string()).into();
    entry["networkName"] = "multus-cni".into();
    fs::write("/var/lib/cni/results/multus-cni-c1-eth0", entry.to_string()).expect("write the entry");
}

/// Network, state, and how many ports of each attachment.
fn listed(found: &Value) -> Vec<[String; 3]> {
    let attachments = found["attachments"].as_array().expect("attachments").iter();
    let ports = |one: &Value| one["ports"].as_array().expect("ports").len().to_string();
    let text = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
    let mut rows: Vec<_> = attachments.map(|one| [text(one, "network"), text(one, "state"), ports(one)]).collect();
    rows.sort();
    rows
}

#[track_caller]
fn assert_says(done: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(done.code(), Some(code), "{done}");
    words.iter().for_each(|words| assert!(done.stdout().contains(words), "no {words:?}: {done}"));
}

#[test]
fn every_cache_is_read_and_plugins_of_others_are_unknown() {
    for_each(
        [("multus", "/var/lib/cni/multus"), ("cri-dockerd", "/var/lib/cni/cache"), ("named", "/run/multus")],
        |path| {
            let sandbox = host();
            let multus = |folder: &str| json!({"type": "multus", "cniDir": folder});
            configure(
                &sandbox,
                &json!({"name": "m", "plugins": [multus("/run/multus"), multus("/var/lib/cni/"), multus("")]}),
            );
            PublishedContainer::add(&sandbox, "first", 8080);
            let entry = cache().pop().expect("an entry");
            move_cache(path);
            store_of_multus(&Path::new(path).join("results").join(entry.file_name().expect("a name")));
            let row = |network: &str, state: &str, ports: &str| [network, state, ports].map(str::to_owned);
            let unknown = row("multus-cni", "unknown", "0");
            let (found, code) = document(&sandbox, &["list"]);
            assert_eq!(
                (code, listed(&found)),
                (Some(0), vec![unknown.clone(), row("nomad", "whole", "1")]),
                "{found:#}"
            );
            assert_eq!(found["caches"], json!(["/var/lib/cni", path]));
            let caches = format!("caches: /var/lib/cni/results, {path}/results\n");
            assert_says(&tool(&sandbox, &["list"]), 0, &[&caches, "unknown: not one of these plugins: multus"]);
            assert_says(&tool(&sandbox, &["gc"]), 0, &["nothing is left over\n", &caches]);
            fs::create_dir_all("/run/results").expect("create a folder that is in no cniDir");
            let list =
                Invocation::new(&sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").arguments(&["list"]);
            assert_says(&list.launched_by(&["/bin/sh", "-c", "cd /run; exec \"$@\"", "sh"]).run(), 0, &[&caches]);

            sandbox.sh("nft flush ruleset");
            let (found, code) = document(&sandbox, &["list"]);
            assert_eq!((code, listed(&found)), (Some(FOUND), vec![unknown, row("nomad", "missing", "1")]), "{found:#}");
            let state = |network: &str, rules: &str| {
                format!("cni_attachments{{network=\"{network}\",life=\"alive\",rules=\"{rules}\"}} 1\n")
            };
            let in_cache = |path: &str| format!("cni_cache_attachments{{directory=\"{path}\"}} 1\n");
            let [own, other] = ["/var/lib/cni", path].map(in_cache);
            let counted = [state("nomad", "missing"), state("multus-cni", "unknown"), own, other];
            assert_says(&tool(&sandbox, &["metrics"]), 0, &counted.each_ref().map(String::as_str));
            assert_says(
                &tool(&sandbox, &["doctor", "first"]),
                FOUND,
                &["is unknown: not one of these plugins: multus", &caches],
            );
            let of_host = tool(&sandbox, &["doctor"]);
            assert!(of_host.stdout().contains(&format!("ok       {caches}")), "{of_host}");
            assert_says(&tool(&sandbox, &["repair"]), 0, &[" eth0: repaired: ", " eth0: unknown: ", &caches]);
            assert_eq!(listed(&document(&sandbox, &["list"]).0)[1], row("nomad", "whole", "1"));

            lose(&sandbox, "first");
            // Whether multus' own entry is dead cannot be told where processes cannot be seen.
            let removed = tool(&sandbox, &["gc", "--remove"]);
            let said = removed.stdout();
            assert!(said.starts_with("nomad ") && said.contains(" eth0: removed ("), "{removed}");
            assert_eq!(fs::read_dir(Path::new(path).join("results")).expect("the cache").count(), 0);
            fs::remove_dir_all("/var/lib/cni/results").expect("remove the cache");
            let of_host = tool(&sandbox, &["doctor"]);
            assert!(of_host.stdout().contains(&format!("ok       caches: {path}/results\n")), "{of_host}");
            assert_eq!(document(&sandbox, &["list"]).0["caches"], json!([path]));
            assert!(!tool(&sandbox, &["metrics"]).stdout().contains("directory=\"/var/lib/cni\""), "it is missing");
            fs::write("/var/lib/cni/results", "no folder").expect("write");
            let (unread, note) =
                (tool(&sandbox, &["doctor"]), "note     caches: not everything is known: /var/lib/cni/results: ");
            assert!(unread.stdout().contains(note), "{unread}");
        },
    );
}

/// Some folders and files are not as runtimes make them. None of them keeps a verb from the rest.
#[test]
fn what_cannot_be_read_is_named_by_every_verb_and_the_rest_is_read() {
    let sandbox = host();
    configure(&sandbox, &json!({"type": "multus", "cniDir": "/var/lib/cni/again/../again"}));
    PublishedContainer::add(&sandbox, "first", 8080);
    let odd = "cd /var/lib/cni; mkdir file; touch file/results; ln -s . again; mkdir loop; ln -s results loop/results; echo '{' >results/torn; \
               mkdir -p \"$(printf '\\376/results')\" \"$(printf '\\377/results')\"; truncate -s 64G /opt/cni/config/large.conf";
    sandbox.exec(&["sh", "-c", odd]).expect_success();
    let problems = ["/var/lib/cni/loop/results: ", "/var/lib/cni/results/torn: "];
    let label = "cni_cache_attachments{directory=\"/var/lib/cni/\u{fffd}\"} 0\n";
    for (line, code, words) in [
        ("list", 1, "172.26.64.2"),
        ("list --json", 1, "\"addresses\": [\n        \"172.26.64.2\""),
        ("gc", 1, "nothing is known to be left over\n"),
        ("gc --json", 1, "\"leftOver\": []"),
        ("repair", 1, " eth0: nothing missing\n"),
        ("metrics", 1, "cni_attachments{network=\"nomad\",life=\"alive\",rules=\"whole\"} 1\n"),
        ("metrics", 1, label),
        ("doctor cnitool-", 1, "172.26.64.2"),
        ("trace 8081 --seconds 1", FOUND, ""),
        ("doctor", FOUND, "large.conf cannot be read: it has more than 1048576 bytes\n"),
    ] {
        let done = tool(&sandbox, &line.split(' ').collect::<Vec<_>>());
        assert_says(&done, code, &[words]);
        let said = format!("{}{}", done.stdout(), done.stderr());
        problems.iter().for_each(|problem| assert!(said.contains(problem), "{line}: no {problem}: {done}"));
        assert!(!said.contains("/cni/again") && !said.contains("/cni/file"), "{line}: {done}");
        assert!(!said.contains("forwarding, connection tracking and neighbours are as needed"), "{line}: {done}");
        assert_eq!(said.matches(label).count(), usize::from(line == "metrics"), "{done}");
    }
    // Nobody writes into the pipe.
    let pipe = "mount -t tmpfs tmpfs /etc; mkdir /etc/nomad.d; mkfifo /etc/nomad.d/z.hcl";
    sandbox.exec(&["sh", "-c", pipe]).expect_success();
    assert!(tool(&sandbox, &["doctor"]).stdout().contains("plugin folders: Nomad: "));
}

/// libcni writes its files in place, so half of one may be there when it is read. Here the pause before the second look is longer.
#[test]
fn a_file_that_is_being_written_is_read_again_by_repair_and_one_that_stays_so_is_named_by_gc() {
    let sandbox = host();
    PublishedContainer::add(&sandbox, "first", 8080);
    let file = cache().pop().expect("an entry");
    let file = file.to_str().expect("text");
    let line = format!(
        "cp -p {file} /run/whole; head -c 99 /run/whole >{file}; (sleep 2; cat /run/whole >{file}) & exec \"$@\""
    );
    let pause = "inject=nanosleep,clock_nanosleep:delay_enter=5000000";
    let traced = "trace=nanosleep,clock_nanosleep";
    let slowly = ["/usr/bin/strace", "-qq", "-o", "/run/trace", "-e", "signal=none", "-e", traced, "-e", pause, "--"];
    let repair = Invocation::new(&sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").arguments(&["repair"]);
    let done = repair.launched_by(&[&["/bin/sh", "-c", &line, "sh"], &slowly[..]].concat()).run();
    assert_says(&done, 0, &[" eth0: nothing missing\n"]);
    assert!(fs::read_to_string("/run/trace").expect("the trace").contains("DELAYED"), "the first look came too late");
    // Nobody knows whether its container lives.
    fs::write(file, "{").expect("write the entry");
    let done = tool(&sandbox, &["gc"]);
    assert!(done.code() == Some(1) && done.stderr().contains("incomplete, or not JSON"), "{done}");
}

/// A network that has its leases in a folder.
fn list(leases: &str) -> Value {
    let ipam = json!({"type": "host-local", "subnet": "10.77.0.0/24", "dataDir": leases});
    let bridge = json!({"type": "bridge", "bridge": "br7", "isGateway": true, "ipMasq": true, "ipam": ipam});
    json!({"cniVersion": "1.0.0", "name": "lost", "plugins": [bridge]})
}

/// The same by flannel, with its state in a folder: the configuration of the bridge.
fn list_of_flannel(states: &str) -> Value {
    write_lease(&lease("10.77.0.0/16", "10.77.0.1/24", 1450).replace("IPMASQ=true", "IPMASQ=false"));
    let (ipam, delegate) = (json!({"dataDir": OWN_LEASES}), json!({"bridge": "br7", "isGateway": true}));
    let flannel = json!({"type": "flannel", "dataDir": states, "ipam": ipam, "delegate": delegate});
    json!({"cniVersion": "1.0.0", "name": "lost", "plugins": [flannel]})
}

/// Adds a container by a list, ends its namespace, and leaves its entry in a cache that the tool does not know.
fn forget(sandbox: &Sandbox, list: &Value) {
    CniTool::new(sandbox, list).add(&sandbox.container("goes")).expect_success();
    move_cache(ELSEWHERE);
    lose(sandbox, "goes");
}

/// What the container has made outside of its namespace: a lease, a state, and rules.
fn leftovers(sandbox: &Sandbox, leases: &str) -> [bool; 3] {
    let names = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.file_name());
    let has_lease = names(&format!("{leases}/lost")).any(|name| name.to_string_lossy().starts_with("10."));
    let has_state = STATES.iter().any(|folder| names(folder).count() > 0);
    [has_lease, has_state, sandbox.sh("iptables -t nat -S").contains("10.77.0")]
}

#[test]
fn gc_removes_all_that_it_can_find_and_keeps_the_record_of_what_it_cannot() {
    let of_leases = [("/var/lib/cni/networks", false), ("/run/cni", false), (OWN_LEASES, true), (OWN_LEASES, false)];
    for (folder, is_on_disk) in of_leases.into_iter().chain(STATES.map(|folder| (folder, false))) {
        let is_known = ![OWN_LEASES, STATES[1]].contains(&folder) || is_on_disk;
        let (sandbox, has_state) = (host(), STATES.contains(&folder));
        let (list, leases) = if has_state { (list_of_flannel(folder), OWN_LEASES) } else { (list(folder), folder) };
        if is_on_disk {
            configure(&sandbox, &list);
        }
        forget(&sandbox, &list);
        assert_eq!(leftovers(&sandbox, leases), [true, has_state, true], "{folder}");
        for _ in 0..2 {
            assert_says(&tool(&sandbox, &["gc"]), FOUND, &[" eth0: left over ("]);
            let done = tool(&sandbox, &["gc", "--remove"]);
            if is_known {
                assert_says(&done, 0, &[" eth0: removed ("]);
                break;
            }
            let words = [" eth0: unclear: its rules are removed, but ", "leases and state files may stay"];
            assert_says(&done, FOUND, &words);
        }
        assert_eq!(leftovers(&sandbox, leases), [!is_known, !is_known && has_state, false], "{folder}");
        if !is_known {
            let named = tool(&sandbox, &["gc", "--remove", "--cache-dir", ELSEWHERE]);
            assert_says(&named, 0, &[" eth0: removed ("]);
        }
        assert_eq!(leftovers(&sandbox, leases), [false; 3], "{folder}");
        assert_eq!(tool(&sandbox, &["gc"]).stdout(), "nothing is left over\n");
    }
}

/// Another runtime's cache is named, and does not have the container, whose entry can be read or not.
#[test]
fn gc_of_one_cache_leaves_what_is_in_another() {
    let sandbox = host();
    CniTool::new(&sandbox, &list(OWN_LEASES)).add(&sandbox.container("goes")).expect_success();
    lose(&sandbox, "goes");
    fs::create_dir_all(format!("{ELSEWHERE}/results")).expect("create a folder");
    let (file, whole) = (&cache()[0], fs::read(&cache()[0]).expect("read the entry"));
    for (content, code, said) in
        [(&b"{"[..], 1, "nothing is known to be left over\n"), (&whole, 0, "nothing is left over\n")]
    {
        fs::write(file, content).expect("write the entry");
        let before = state(&sandbox);
        let named = tool(&sandbox, &["gc", "--remove", "--cache-dir", ELSEWHERE]);
        assert_eq!((named.stdout(), named.code()), (said, Some(code)), "{named}");
        assert_eq!(state(&sandbox), before);
    }
    assert_says(&tool(&sandbox, &["gc", "--remove"]), 0, &[" eth0: removed ("]);
    assert_eq!(leftovers(&sandbox, OWN_LEASES), [false; 3]);
}

/// Calico replaces the word by the subnet of the host.
#[test]
fn a_range_that_a_plugin_of_others_replaces_has_no_values() {
    let sandbox = host();
    fs::create_dir("/run/others").expect("create a folder");
    let plugin = "cat >/dev/null; test \"$CNI_COMMAND\" != ADD || echo '{\"cniVersion\": \"1.0.0\"}'\n";
    script::install(Path::new("/run/others/calico"), plugin);
    let ipam = json!({"type": "host-local", "ranges": [[{"subnet": "usePodCidr"}]]});
    let list = json!({"cniVersion": "1.0.0", "name": "k8s", "plugins": [{"type": "calico", "ipam": ipam}]});
    CniTool::new(&sandbox, &list).binaries(Path::new("/run/others")).add(&sandbox.container("pod")).expect_success();
    let done = tool(&sandbox, &["metrics"]);
    assert_says(&done, 0, &["\ncni_unreadable_sources 0\n"]);
    assert!(!done.stdout().contains("\ncni_addresses_free{"), "{done}");
}

/// Plugins were used in another namespace that shares `/run` with the host. The kernel's threads are in that of the host.
#[test]
fn the_host_itself_is_not_told_to_go_there() {
    let sandbox = host();
    PublishedContainer::add(&sandbox, "first", 8080);
    sandbox.sh("rm -r /var/lib/cni/results");
    let program = cni_conformance::binaries::under_test().join("cni-plugins");
    let line = ["nsenter", "--net=/proc/2/ns/net", program.to_str().expect("a text"), "list"];
    let said = sandbox.exec(&line);
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), "no containers\n", ""));
}
