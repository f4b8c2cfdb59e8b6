//! Runs tests that need a kernel feature which the machine's kernel lacks.
//!
//! The kernel of Debian's package `user-mode-linux`, an ordinary program, has all such features. The first test that
//! needs it boots it with the host's files, read-only, and runs the whole test binary again inside; every such test
//! then takes its result from that run. A boot takes some time, so all these tests are in one binary,
//! `tests/other_kernel`.

use std::any::type_name;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

use crate::binaries;
use crate::child::{self, DEADLINE, Limit};
use crate::kernel::Feature;
use crate::losses::TABLE;

/// Set for the tests inside, to the features that the kernel outside does not have.
const INSIDE: &str = "CNI_UML";

/// The time limit for the kernel, from boot to end.
const BOOT_DEADLINE: Duration = Duration::from_secs(3600);

/// Programs that are needed, and the Debian packages that have them.
const NEEDED: [(&str, &str); 3] =
    [("/usr/bin/linux.uml", "user-mode-linux"), ("/usr/sbin/modprobe", "kmod"), ("/usr/bin/cc", "gcc")];

/// Runs the body of a test on a kernel with a feature: this one, or another in which the whole test binary runs. The
/// body must be a closure of the test function itself.
///
/// # Panics If the test fails on either kernel, or there is no such kernel.
pub fn on_a_kernel_with<F: FnOnce()>(feature: Feature, body: F) {
    match place(feature) {
        TestedOn::Here => body(),
        TestedOn::Outside => {}
        TestedOn::Elsewhere => assert_passed_elsewhere(feature, type_name::<F>()),
    }
}

/// The outcome of a case that needs a feature, on this kernel or another in which the whole test binary runs. `name` is that of its test.
///
/// # Errors
/// Those of the case.
///
/// # Panics If there is no such kernel.
pub fn result_on_a_kernel_with(
    feature: Option<Feature>,
    name: &str,
    run: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    // What any kernel can do is tested outside.
    let Some(feature) = feature else { return if env::var_os(INSIDE).is_some() { Ok(()) } else { run() } };
    match place(feature) {
        TestedOn::Here => run(),
        TestedOn::Outside => Ok(()),
        TestedOn::Elsewhere if has_passed(console(), name) => Ok(()),
        TestedOn::Elsewhere => Err(format!("in User-Mode-Linux:\n{}", report(console(), name))),
    }
}

/// Whether a case that needs a feature runs on a kernel that is to be booted.
pub fn is_elsewhere(feature: Option<Feature>) -> bool {
    feature.is_some_and(|feature| place(feature) == TestedOn::Elsewhere)
}

/// Where a feature is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestedOn {
    Here,
    /// On the kernel outside of this one, already.
    Outside,
    /// On a kernel that is to be booted.
    Elsewhere,
}

fn place(feature: Feature) -> TestedOn {
    match env::var(INSIDE) {
        Ok(missing) if !missing.split(',').any(|name| name == format!("{feature:?}")) => TestedOn::Outside,
        Ok(_) | Err(_) if feature.is_here() => TestedOn::Here,
        Ok(_) | Err(_) => TestedOn::Elsewhere,
    }
}

fn assert_passed_elsewhere(feature: Feature, closure: &'static str) {
    assert!(env::var_os(INSIDE).is_none(), "the kernel of user-mode-linux has no {feature:?}");
    let name = test_name(closure);
    let console = console();
    assert!(has_passed(console, name), "in User-Mode-Linux:\n{}", report(console, name));
}

/// Whether the test runner reports success. On one processor it prints the name of a test first, then the test's
/// output, and its result at the end.
fn has_passed(console: &str, name: &str) -> bool {
    // A runner may fill names up to the longest.
    let begun = |line: &str| {
        let (found, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (found.trim_end() == name).then(|| rest.to_owned())
    };
    let mut lines = console.lines().skip_while(|line| begun(line).is_none());
    let Some(first) = lines.next().and_then(begun) else { return false };
    let own = std::iter::once(first.as_str()).chain(lines.take_while(|line| !line.starts_with("test ")));
    own.into_iter().find(|line| ["ok", "FAILED"].contains(line)) == Some("ok")
}

/// The name by which the test runner knows the function that a closure is of.
fn test_name(closure: &'static str) -> &'static str {
    let function = closure.strip_suffix("::{{closure}}").unwrap_or_else(|| panic!("{closure} is no closure"));
    function.split_once("::").map_or(function, |(_, name)| name)
}

/// The output of the run inside, which happens once.
pub fn console() -> &'static str {
    static CONSOLE: OnceLock<String> = OnceLock::new();
    CONSOLE.get_or_init(|| {
        for (program, package) in NEEDED {
            assert!(Path::new(program).exists(), "{program} is missing: install the Debian package {package}");
        }
        let scratch = KernelFolder::new();
        let library = library(&scratch.0);
        // What a thread starts has its processor; the tests beside keep all of them.
        let booted = || {
            keep_to_one_processor();
            boot(&scratch.0, &library)
        };
        thread::scope(|scope| scope.spawn(booted).join().expect("boot the kernel"))
    })
}

/// The kernel and its processes take turns, tens of thousands of times in a second. On two processors each turn
/// waits for the other one to wake up, so that all takes twice as long.
fn keep_to_one_processor() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu().expect("ask for this thread's processor")).expect("a processor of the set");
    sched_setaffinity(Pid::from_raw(0), &one).expect("keep to one processor");
}

/// The kernel's folder for as long as it runs.
struct KernelFolder(PathBuf);

impl KernelFolder {
    fn new() -> Self {
        let path = env::temp_dir().join(format!("cni-uml-{}", std::process::id()));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        Self(path)
    }
}

impl Drop for KernelFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("remove {}: {error}", self.0.display());
        }
    }
}

fn asset(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("uml").join(name)
}

/// Compiles what the kernel needs on new processors.
fn library(scratch: &Path) -> PathBuf {
    let library = scratch.join("xstate.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(asset("xstate.c"));
    compiler.arg("-ldl");
    child::run(compiler, b"", Limit::Fail(DEADLINE)).expect_success();
    library
}

fn boot(scratch: &Path, library: &Path) -> String {
    // On its one processor it takes as long as all that runs beside it, and all would wait for it at the end.
    let mut kernel = Command::new("nice");
    kernel.args(["-n", "-10", "linux.uml", "rootfstype=hostfs", "root=/dev/root", "rootflags=/", "ro", "mem=768M"]);
    // A network card, whose packets leave this machine by no way.
    kernel.arg("eth0=mcast,02:00:00:00:00:0a,239.192.168.1,1102,0");
    kernel.args(["con0=null,fd:1", "con=null", "quiet", "loglevel=1", "init=/bin/sh", "--"]);
    for word in [asset("init.sh"), binaries::under_test(), env::current_exe().expect("name the test binary")] {
        kernel.arg(format!("\"{}\"", word.display()));
    }
    let missing = Feature::ALL.into_iter().filter(|feature| !feature.is_here()).map(|feature| format!("{feature:?}"));
    kernel.arg(missing.collect::<Vec<_>>().join(","));
    kernel.arg(arguments().join(","));
    kernel.arg(faults());
    kernel.arg(env::var(TABLE).unwrap_or_else(|_| "-".to_owned()));
    kernel.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", scratch).env("LD_PRELOAD", library);
    let finished = child::run(kernel, b"", Limit::Kill(BOOT_DEADLINE));
    let end = finished.code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with {code}"));
    let text = format!("{}{}\nthe kernel {end} after {:?}\n", finished.stdout, finished.stderr, finished.elapsed);
    text.replace('\r', "")
}

/// How many faults are tried for each case: a quarter, since there everything takes several times as long; or all.
fn faults() -> String {
    let wanted = env::var("CNI_CASE_FAULTS").unwrap_or_else(|_| "0".to_owned());
    wanted.parse().map_or(wanted, |number: usize| number.div_ceil(4).to_string())
}

/// The arguments of the test binary inside: one test at a time, since there is one processor, and the names of the
/// selected tests.
fn arguments() -> Vec<String> {
    ["--test-threads=1".to_owned(), "--color=never".to_owned()].into_iter().chain(filter()).collect()
}

/// The words that choose the tests of this run: all but those that say how many run at once, and how they are shown.
fn filter() -> Vec<String> {
    let (mut words, mut chosen) = (env::args().skip(1), Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--test-threads" | "--color" | "--format" => drop(words.next()),
            "--quiet" | "-q" | "--nocapture" => {}
            option if ["--test-threads=", "--color=", "--format="].iter().any(|form| option.starts_with(form)) => {}
            _ => chosen.push(word),
        }
    }
    chosen
}

/// The output of the run inside about one test, or all of it if the test did not run.
fn report(console: &str, name: &str) -> String {
    let begin = ["---- {name} stdout ----", "---- {name} ----"].map(|form| console.find(&form.replace("{name}", name)));
    let begin = begin.into_iter().flatten().next();
    let section = begin.and_then(|begin| console.get(begin..));
    let section = section.map(|text| text.split("\n\n---- ").next().unwrap_or(text));
    section.map_or_else(|| console.to_owned(), |text| text.split("\n\n\nfailures:").next().unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::has_passed;

    #[test]
    fn what_a_test_says_stands_before_its_verdict() {
        let console = "test a::b ... ok\ntest a::c ... NOT COMPARED: it is too old\nok\ntest a::d ... said\nFAILED\n\
                       test a::e ... killed\ntest a::f ... ok\n";
        let passed = ["a::b", "a::c", "a::d", "a::e", "a::f", "a"].map(|name| has_passed(console, name));
        assert_eq!(passed, [true, true, false, false, true, false]);
    }
}
