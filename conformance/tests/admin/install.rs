//! `cni-plugins install` and `uninstall`, on folders of their own.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cni_conformance::binaries;
use cni_conformance::child::{Finished, Limit, run};
use cni_conformance::plugins::ALL;
use cni_conformance::wait::wait_until;

const LIMIT: Limit = Limit::Fail(Duration::from_secs(60));

/// A plugin of somebody else.
const OTHER: &str = "#!/bin/sh\necho 'CNI bridge plugin v1.4.0' >&2\n";

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{name}"));
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("remove {}: {error}", folder.display()));
    }
    folder
}

fn tool() -> PathBuf {
    binaries::under_test().join("cni-plugins")
}

/// Runs the tool under test behind these words of a command line; the folder comes last.
fn run_with(before: &[&str], words: &[&str], folder: &Path) -> Finished {
    let tool = tool();
    let mut line: Vec<&str> = before.to_vec();
    line.push(tool.to_str().expect("a text"));
    line.extend(words);
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).arg(folder);
    run(command, b"", LIMIT)
}

#[track_caller]
fn install(words: &[&str], folder: &Path) -> String {
    run_with(&[], &[&["install"], words].concat(), folder).expect_success().stdout
}

#[track_caller]
fn uninstall(words: &[&str], folder: &Path) -> String {
    run_with(&[], &[&["uninstall"], words].concat(), folder).expect_success().stdout
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a text")).collect()
}

fn all_names() -> BTreeSet<String> {
    ALL.into_iter().chain(["cni-plugins"]).map(str::to_owned).collect()
}

fn write(path: &Path, content: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, content).expect("write a file");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set a mode");
}

/// A folder with plugins of others: a file, a link, and one with a name that we do not have.
fn folder_of_others(name: &str) -> PathBuf {
    let folder = folder(name);
    fs::create_dir(&folder).expect("create a folder");
    write(&folder.join("bridge"), OTHER, 0o750);
    symlink("bridge", folder.join("ptp")).expect("create a link");
    write(&folder.join("calico"), "#!/bin/sh\n", 0o755);
    folder
}

#[track_caller]
fn assert_as_others_left_it(folder: &Path) {
    assert_eq!(names(folder), ["bridge", "calico", "ptp"].map(str::to_owned).into());
    assert_eq!(fs::read_to_string(folder.join("bridge")).expect("read"), OTHER);
    assert_eq!(folder.join("bridge").metadata().expect("a file").mode() & 0o7777, 0o750);
    assert_eq!(fs::read_link(folder.join("ptp")).expect("a link"), Path::new("bridge"));
}

#[track_caller]
fn assert_runs(folder: &Path, plugin: &str) {
    let about = run(Command::new(folder.join(plugin)), b"", LIMIT).expect_success().stderr;
    assert!(about.starts_with(&format!("CNI {plugin} plugin v")) && about.contains("+rs."), "{about}");
}

#[test]
fn every_name_is_the_same_file() {
    let folder = folder("new").join("opt/cni/bin");
    let report = install(&[], &folder);
    assert!(report.contains(&format!("under {} names\n  new: bandwidth", ALL.len() + 1)), "{report}");
    assert!(report.contains(&format!("to go back: {0}/cni-plugins uninstall {0}\n", folder.display())), "{report}");
    assert_eq!(names(&folder), all_names());
    let inodes: BTreeSet<u64> =
        all_names().iter().map(|name| folder.join(name).metadata().expect("a file").ino()).collect();
    assert_eq!(inodes.len(), 1);
    assert_eq!(folder.join("bridge").metadata().expect("a file").mode() & 0o7777, 0o755);
    assert_runs(&folder, "bridge");

    let again = install(&[], &folder);
    assert!(again.contains(" already, under "), "{again}");
    let inode = folder.join("bridge").metadata().expect("a file").ino();
    assert!(inodes.contains(&inode), "nothing is written anew");
    uninstall(&[], &folder);
    assert_eq!(names(&folder), BTreeSet::new());
}

#[test]
fn a_dry_run_changes_nothing() {
    let folder = folder_of_others("dry");
    let report = install(&["--dry-run"], &folder);
    let has = |words: &str| report.contains(words);
    assert!(has("would be installed") && has("in place of CNI plugin v1.4.0: bridge"), "{report}");
    assert_as_others_left_it(&folder);
    let nowhere = folder.join("nowhere");
    install(&["--dry-run"], &nowhere);
    assert!(!nowhere.exists());
    install(&[], &folder);
    let before = names(&folder);
    let report = uninstall(&["--dry-run"], &folder);
    assert!(report.contains("put back as before: bridge ptp\n"), "{report}");
    assert_eq!(names(&folder), before);
    assert_runs(&folder, "ptp");
}

#[test]
fn uninstall_restores_the_former_files_and_touches_nothing_else() {
    let folder = folder_of_others("others");
    let report = install(&[], &folder);
    assert!(report.contains("\n  in place of CNI plugin v1.4.0: bridge\n"), "{report}");
    assert!(report.contains(&format!("are kept in {}/.cni-plugins-rs\n", folder.display())), "{report}");
    assert_runs(&folder, "bridge");
    assert_runs(&folder, "ptp");
    install(&[], &folder);
    let mut own = Command::new(folder.join("cni-plugins"));
    own.arg("uninstall").arg(&folder);
    let report = run(own, b"", LIMIT);
    assert!(report.expect_success().stdout.contains("put back as before: bridge ptp\n"));
    assert_as_others_left_it(&folder);
    assert!(uninstall(&[], &folder).contains("has no file of cni-plugins"));
    assert_as_others_left_it(&folder);
}

#[test]
fn a_selection_leaves_other_names_alone() {
    let folder = folder_of_others("only");
    let report = install(&["--only", "tap,dummy,tap"], &folder);
    assert!(report.contains(", under 3 names\n"), "{report}");
    assert_eq!(names(&folder), ["bridge", "calico", "cni-plugins", "dummy", "ptp", "tap"].map(str::to_owned).into());
    assert_eq!(fs::read_to_string(folder.join("bridge")).expect("read"), OTHER);
    let refused = run_with(&[], &["install", "--only", "dummy,calico"], &folder);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let why = "invalid value 'calico' for '--only <NAMES>': there is no such plugin";
    assert!(refused.stderr.contains(why), "{refused:?}");
    uninstall(&[], &folder);
    assert_as_others_left_it(&folder);
}

/// Puts the program with the mark of another release into a folder.
fn older_release(folder: &Path) {
    let mut content = fs::read(tool()).expect("read the tool");
    let mark = concat!("\0cni-plugins-rs, the release ", env!("CARGO_PKG_VERSION"), "\0").as_bytes();
    let at = content.windows(mark.len()).position(|window| window == mark).expect("the mark of a release");
    content[at + mark.len() - env!("CARGO_PKG_VERSION").len() - 1] = b'9';
    write(&folder.join("bridge"), content, 0o755);
}

#[test]
fn another_release_is_ours_and_not_kept() {
    let folder = folder("older");
    fs::create_dir(&folder).expect("create a folder");
    older_release(&folder);
    let report = install(&["--only", "bridge"], &folder);
    assert!(report.contains("\n  in place of cni-plugins 9.") && report.contains("\n  or, to release 9."), "{report}");
    assert_eq!(names(&folder), ["bridge", "cni-plugins"].map(str::to_owned).into());
    older_release(&folder);
    let report = uninstall(&[], &folder);
    let (start, end) = ("cni-plugins removed from ", "\n  removed: bridge cni-plugins\n");
    assert!(report.starts_with(start) && report.ends_with(end), "{report}");
    assert_eq!(names(&folder), BTreeSet::new());
}

/// Somebody replaces a plugin while `install` waits for another one to end.
#[test]
fn what_is_kept_is_decided_under_the_lock() {
    let folder = folder("locked");
    install(&["--only", "ptp"], &folder);
    older_release(&folder);
    let own = folder.join(".cni-plugins-rs");
    fs::create_dir(&own).expect("create a folder");
    let lock = fs::File::open(&own).expect("open the folder");
    lock.lock().expect("lock the folder");
    let mut waiting = Command::new(tool()).args(["install", "--only", "bridge"]).arg(&folder).spawn().expect("start");
    let files = format!("/proc/{}/fd", waiting.id());
    let is_open =
        |file: Result<fs::DirEntry, _>| file.is_ok_and(|file| fs::read_link(file.path()).is_ok_and(|to| to == own));
    wait_until("it waits", || fs::read_dir(&files).expect("its files").any(is_open));
    fs::remove_file(folder.join("bridge")).expect("remove a file");
    write(&folder.join("bridge"), OTHER, 0o750);
    drop(lock);
    assert!(waiting.wait().expect("it ends").success());
    assert_eq!(fs::read_to_string(own.join("bridge")).expect("it is kept"), OTHER);
}

#[test]
fn what_is_no_file_is_refused_before_anything_changes() {
    let folder = folder_of_others("refused");
    fs::create_dir(folder.join("vlan")).expect("create a folder");
    let refused = run_with(&[], &["install"], &folder);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("vlan is not a file: move it away"), "{}", refused.stderr);
    fs::remove_dir(folder.join("vlan")).expect("remove a folder");
    assert_as_others_left_it(&folder);
}

#[test]
fn without_hard_links_every_name_is_a_copy() {
    let folder = folder_of_others("copies");
    let no_links = ["strace", "-qq", "-o", "/dev/null", "-e", "inject=link,linkat:error=EPERM"];
    run_with(&no_links, &["install"], &folder).expect_success();
    assert_eq!(folder.join("bridge").metadata().expect("a file").nlink(), 1);
    for plugin in ["bridge", "ptp", "vrf"] {
        assert_runs(&folder, plugin);
    }
    uninstall(&[], &folder);
    assert_as_others_left_it(&folder);
}

#[test]
fn killed_at_any_name_it_leaves_whole_plugins_and_can_be_repeated() {
    for moment in [1, 2, 7] {
        let folder = folder_of_others(&format!("killed-{moment}"));
        let inject = format!("inject=rename,renameat,renameat2:signal=KILL:when={moment}");
        let killed = run_with(&["strace", "-qq", "-o", "/dev/null", "-e", &inject], &["install"], &folder);
        assert_ne!(killed.code, Some(0), "{killed:?}");
        for name in names(&folder).into_iter().filter(|name| ALL.contains(&name.as_str())) {
            let about = run(Command::new(folder.join(&name)), b"", LIMIT).expect_success().stderr;
            assert!(about.starts_with("CNI "), "{name}: {about}");
        }
        install(&[], &folder);
        uninstall(&[], &folder);
        assert_as_others_left_it(&folder);
    }
}
