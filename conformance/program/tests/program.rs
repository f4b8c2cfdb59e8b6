//! `cni-conformance run`: our plugins pass, Debian's fail as expected, plugins that do nothing are found out, and one that hangs is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{binaries, plugins, script};
use serde_json::Value;

/// What all stand-ins answer to VERSION, so that their cases run.
const VERSION: &str = r#"
if [ "$CNI_COMMAND" = VERSION ]; then
    echo '{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}'
    exit 0
fi
"#;

/// A firewall that passes the result on, and makes no rules.
const FIREWALL: &str = "
case $CNI_COMMAND in
VERSION) echo '{\"cniVersion\": \"1.0.0\", \"supportedVersions\": [\"0.4.0\", \"1.0.0\"]}' ;;
ADD) jq '.prevResult + {cniVersion}' ;;
esac
";

const ONE: &str = "spec/add/bridge/1.0.0";

fn run(plugins: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.arg("run").arg("--plugins").arg(plugins).args(["--jobs", "4"]).args(arguments);
    command
}

fn finished(mut command: Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it with `--json`, and returns the document.
fn document(plugins: &Path, arguments: &[&str]) -> Value {
    let output = finished(run(plugins, &[&["--json"], arguments].concat()));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The names of those with this outcome.
fn named(document: &Value, outcome: &str) -> BTreeSet<String> {
    let cases = document["cases"].as_array().expect("a list of cases");
    let chosen = cases.iter().filter(|case| case["outcome"] == outcome);
    chosen.map(|case| case["name"].as_str().expect("a name").to_owned()).collect()
}

/// A folder of one script under the name of every plugin, which is there until the end of the test.
struct StandIns(PathBuf);

impl StandIns {
    fn new(name: &str, lines: &str) -> Self {
        Self::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name, lines)
    }

    fn below(parent: &Path, name: &str, lines: &str) -> Self {
        let folder = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for stand-ins");
        for plugin in plugins::ALL {
            script::install(&folder.join(plugin), lines);
        }
        Self(folder)
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("remove the stand-ins");
    }
}

/// `cases` runs all for ours; this is one of each topic.
#[test]
fn ours_pass() {
    let words = [ONE, "spec/del/sbr/", "spec/status-not-ready/", "spec/check-other/host-local/", "bridge/names"];
    let document = document(&binaries::under_test(), &[&["--all"], &words[..]].concat());
    assert_eq!(named(&document, "passed").len(), 11, "{document:#}");
    assert_eq!(document["cases"].as_array().map(Vec::len), Some(11), "{document:#}");
}

#[test]
fn debians_fail_as_they_are_expected_to() {
    let folder = Path::new("/usr/lib/cni");
    assert!(folder.join("bridge").exists(), "install the package containernetworking-plugins");
    let of = ["/bridge/1.0.0", "/firewall/1.0.0", "/host-local/1.0.0", "/sbr/1.0.0", "/tap/1.0.0", "/bridge/1.1.0"];
    let document = document(folder, &of);
    let names =
        |words: &str| words.split_whitespace().map(|name| format!("spec/{name}/1.0.0")).collect::<BTreeSet<_>>();
    // sbr knows no CHECK, and its DEL fails when the namespace or the interface is missing.
    let failed = "check-other/sbr check-without-result/sbr del-again/sbr del-never-added/sbr del-without-interface/sbr \
                  del-without-netns/sbr";
    assert_eq!(named(&document, "failed"), names(failed));
    let differ = "del-plain-file/bridge del-plain-file/sbr del-without-namespace/sbr del-without-result/firewall \
                  del-without-result/sbr delegate-rollback/bridge error-version/bridge error-version/firewall \
                  error-version/host-local error-version/sbr no-namespace/bridge result-of-ipam/bridge";
    assert_eq!(named(&document, "differs"), names(differ));
    let reasons: BTreeSet<&str> =
        document["cases"].as_array().expect("cases").iter().filter_map(|case| case["reason"].as_str()).collect();
    let expected = ["the plugin does not know version 1.1.0 of the SPEC", "there is no tap in /usr/lib/cni"];
    assert_eq!(reasons, BTreeSet::from(expected));
    assert!(document["passed"].as_u64().is_some_and(|passed| passed > 80), "{} passed", document["passed"]);
    assert_eq!(document["failed_must"], 4);
}

#[test]
fn a_difference_that_the_reference_does_not_show_is_a_failure() {
    let differs = ["--differences", "spec/no-namespace/bridge/1.0.0"];
    let folder = Path::new("/usr/lib/cni");
    assert_eq!(finished(run(folder, &differs)).status.code(), Some(0));
    let output = finished(run(folder, &[&differs[..], &["spec/del-plain-file/static/1.0.0"]].concat()));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("spec/del-plain-file says"), "{output:?}");
}

/// One run of every case of the SPEC.
fn one_of_each() -> Vec<String> {
    let mut list = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    list.args(["run", "--list"]);
    let mut chosen = BTreeMap::new();
    for line in text(&finished(list).stdout).lines() {
        let name = line.split_whitespace().next().expect("a line begins with a name");
        let words: Vec<&str> = name.split('/').collect();
        // This machine's kernel may lack the links of the others.
        if let ["spec", case, plugin, _] = words[..]
            && plugins::that_can_add().contains(&plugin)
        {
            chosen.entry(case.to_owned()).or_insert_with(|| name.to_owned());
        }
    }
    assert!(chosen.len() > 60, "{} cases", chosen.len());
    chosen.into_values().collect()
}

#[test]
fn no_case_passes_with_plugins_that_say_yes_and_with_plugins_that_say_no() {
    let names = one_of_each();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let yes = StandIns::new("yes", &format!("{VERSION}exit 0\n"));
    let no = StandIns::new(
        "no",
        &format!("{VERSION}echo '{{\"cniVersion\": \"1.0.0\", \"code\": 100, \"msg\": \"no\"}}'\nexit 1\n"),
    );
    let [yes, no] = [&yes, &no].map(|plugins| named(&document(&plugins.0, &names), "passed"));
    let both: Vec<&String> = yes.intersection(&no).filter(|name| !name.starts_with("spec/version")).collect();
    assert!(both.is_empty(), "these pass with plugins that do nothing either way: {both:#?}");
    let mute = StandIns::new("mute", "exit 0\n");
    assert_eq!(named(&document(&mute.0, &["spec/version"]), "passed"), BTreeSet::new());
}

#[test]
fn the_exit_status_says_whether_all_passed() {
    let ours = binaries::under_test();
    assert_eq!(finished(run(&ours, &[ONE])).status.code(), Some(0));
    for (folder, arguments) in [
        (Path::new("/nowhere"), &[ONE][..]),
        (&ours, &["no-such-case"]),
        (&ours, &["--no-such-option"]),
        (Path::new("/etc"), &[ONE]),
    ] {
        let output = finished(run(folder, arguments));
        assert_eq!(output.status.code(), Some(2), "{folder:?} {arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn two_sets_are_compared_by_cases_and_drawn_histories() {
    let (ours, no, lies) =
        (binaries::under_test(), StandIns::new("compared", "exit 1\n"), StandIns::new("lies", FIREWALL));
    for plugin in plugins::ALL.into_iter().filter(|plugin| *plugin != "firewall") {
        fs::remove_file(lies.0.join(plugin)).expect("remove a script");
        symlink(ours.join(plugin), lies.0.join(plugin)).expect("link a plugin");
    }
    for (folders, drawn, status, words) in [
        ([&ours, &ours], "3", 0, "4 runs of cases and histories are the same with both, 0 are not; 0 fail"),
        ([&ours, &no.0], "0", 1, "only the first passes: spec/add/bridge/1.0.0"),
        ([&no.0, &ours], "0", 1, "only the second passes: spec/add/bridge/1.0.0"),
        ([&ours, &lies.0], "12", 1, "\n  rules filter\n  the first says:\n-N CNI-FORWARD"),
        ([&ours, &PathBuf::from("/nowhere")], "0", 2, "compare /nowhere: No such file"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
        command.arg("compare").args(folders).arg(ONE).args(["--drawn", drawn]);
        let output = finished(command);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(words), "{said}");
    }
}

#[test]
fn a_failure_says_what_was_expected_and_how_to_run_it_again() {
    let no = StandIns::new("again", "exit 1\n");
    let output = finished(run(&no.0, &[ONE, "--verbose"]));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = text(&output.stdout);
    let again = format!("again: cni-conformance run --plugins {} --verbose {ONE}", no.0.display());
    let call = ["CNI_COMMAND=ADD", "CNI_NETNS=/run/netns/web", "\"type\":\"bridge\"", "ended with status 1 after "];
    let failure = ["spec/add.case:4: add web", "ADD must succeed", "MUST of SPEC 1.0.0", "1 failed MUST", &again];
    for part in call.iter().chain(&failure) {
        assert!(shown.contains(part), "{part:?} in\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "colours are for terminals: {shown}");
    let junit = text(&finished(run(&no.0, &["--junit", ONE])).stdout);
    for part in ["<testsuites name=\"cni-conformance\" tests=\"1\"", "failures=\"1\"", &format!("name=\"{ONE}\"")] {
        assert!(junit.contains(part), "{part:?} in\n{junit}");
    }
}

/// The command that `--keep` prints leads to the host of the case, with its container.
#[test]
fn the_host_of_a_failing_case_is_kept() {
    let no = StandIns::new("kept", &format!("{VERSION}exit 1\n"));
    let shown = text(&finished(run(&no.0, &["--keep", ONE])).stdout);
    let process = shown.split_once("nsenter --target ").and_then(|(_, rest)| rest.split_once(' '));
    let (process, _) = process.unwrap_or_else(|| panic!("no nsenter in\n{shown}"));
    let mut enter = Command::new("nsenter");
    enter.args(["--target", process, "--mount", "--net", "ip", "netns"]);
    let inside = text(&finished(enter).stdout);
    let ended = Command::new("kill").arg(process).status().expect("start kill");
    assert!(ended.success() && inside.contains("web"), "{inside:?} of {process}");
}

#[test]
fn a_shell_runs_on_the_host_of_a_case() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.args(["shell", ONE, "--plugins"]).arg(binaries::under_test()).env("SHELL", "/bin/sh");
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the program");
    let input = b"ip netns exec web ip -o address show eth0\n";
    std::io::Write::write_all(&mut shell.stdin.take().expect("its input is piped"), input).expect("write to the shell");
    let output = shell.wait_with_output().expect("the program ends");
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("its script has passed"), "{output:?}");
    assert!(shown.contains("inet 10.88.0.5/24"), "{shown}");
}

/// Where k3s has its plugins, and others.
#[test]
fn plugins_may_be_where_private_hosts_have_their_own_files() {
    for parent in ["/run", "/var/lib"] {
        let lines = format!("{VERSION}[ \"$CNI_COMMAND\" = ADD ] || exit 0\necho '{{\"cniVersion\": \"1.0.0\"}}'\n");
        let plugins = StandIns::below(Path::new(parent), "cni-conformance-test", &lines);
        let output = finished(run(&plugins.0, &[ONE]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

/// A number of seconds that no other run of these tests sleeps for at the same time.
fn mark(seconds: u32) -> String {
    format!("{seconds}.{:010}", std::process::id())
}

/// How many processes there are with this in their command lines.
fn processes(mark: &str) -> usize {
    let found = fs::read_dir("/proc").expect("list processes").filter_map(|entry| {
        let command = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        text(&command).contains(mark).then_some(())
    });
    found.count()
}

fn until(holds: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !holds() && started.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(20));
    }
    holds()
}

/// The plugin ignores all signals that it can, and starts a process that does the same in a session of its own.
#[test]
fn a_plugin_that_never_ends_is_reported_and_leaves_no_process() {
    let mark = &mark(86411);
    let sleeps = format!(
        "{VERSION}trap '' TERM INT HUP\n[ \"$CNI_COMMAND\" = ADD ] || exit 0\nsetsid sleep {mark} &\nsleep {mark}\n"
    );
    let slow = StandIns::new("slow", &sleeps);
    let document = document(&slow.0, &["--limit", "4", ONE]);
    let case = &document["cases"][0];
    let found = case["text"].as_str().is_some_and(|text| text.contains("expected: an end within 4 seconds"));
    assert!(case["outcome"] == "failed" && found, "{case}");
    assert!(until(|| processes(mark) == 0), "{} processes are left", processes(mark));
    let mut running = run(&slow.0, &[ONE]).stdout(Stdio::null()).spawn().expect("start the program");
    assert!(until(|| processes(mark) == 2), "{} processes", processes(mark));
    running.kill().expect("kill the program");
    running.wait().expect("the program ends");
    assert!(until(|| processes(mark) == 0), "{} processes are left", processes(mark));
}

/// A plugin of somebody's own: it makes a link in the container, and forgets about errors of its input.
const FOREIGN: &str = r#"
config=$(cat)
fail() { echo "{\"cniVersion\": \"1.0.0\", \"code\": $1, \"msg\": \"$2\"}"; exit 1; }
version=$(printf %s "$config" | sed -n 's/.*"cniVersion": *"\([^"]*\)".*/\1/p')
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}' ;;
ADD)
    for name in CNI_CONTAINERID CNI_IFNAME CNI_NETNS; do eval [ -n "\"\$$name\"" ] || fail 4 "$name is missing"; done
    case "$version" in 0.4.0 | 1.0.0) ;; *) fail 1 "unknown version" ;; esac
    nsenter --net="$CNI_NETNS" ip link add "$CNI_IFNAME" up type bridge 2>/dev/null || fail 100 "cannot make the link"
    mac=$(nsenter --net="$CNI_NETNS" ip -o link show dev "$CNI_IFNAME" | sed 's/.*link.ether \([^ ]*\).*/\1/')
    echo "{\"cniVersion\": \"$version\", \"interfaces\": [{\"name\": \"$CNI_IFNAME\", \"sandbox\": \"$CNI_NETNS\", \"mac\": \"$mac\"}]}"
    ;;
DEL) nsenter --net="$CNI_NETNS" ip link del "$CNI_IFNAME" 2>/dev/null || true ;;
CHECK) nsenter --net="$CNI_NETNS" ip link show "$CNI_IFNAME" >/dev/null 2>&1 || fail 100 "the link is gone" ;;
esac
"#;

#[test]
fn the_cases_of_its_kind_run_for_an_unknown_plugin() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign");
    fs::create_dir_all(&folder).expect("a folder for the plugin");
    script::install(&folder.join("somebodys"), FOREIGN);
    let file = folder.join("somebodys.conf");
    fs::write(&file, r#"{"cniVersion": "1.0.0", "name": "any", "type": "somebodys"}"#).expect("write it");
    let file = file.to_str().expect("paths are text");
    let document = document(&folder, &["/somebodys/", "--config", file]);
    for name in ["version", "add-interface", "add-occupied", "result-interfaces", "check-interface", "del-plain-file"] {
        let name = format!("spec/{name}/somebodys/1.0.0");
        assert!(named(&document, "passed").contains(&name), "{name} in {document:#}");
    }
    assert!(named(&document, "failed").contains("spec/error-object/somebodys/1.0.0"), "{document:#}");
    assert!(named(&document, "not-had").contains("spec/gc-silent/somebodys/1.1.0"), "{document:#}");
}

#[test]
fn the_table_of_requirements_is_for_programs_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cni-conformance"));
    command.args(["requirements", "--json"]);
    let rows: Value = serde_json::from_slice(&finished(command).stdout).expect("a document");
    let rows = rows.as_array().expect("a list");
    assert!(rows.len() > 80, "{} rows", rows.len());
    assert!(rows.iter().all(|row| (row["can_be_broken_by"] == "plugin") == (row["cases"] != serde_json::json!([]))));
}
