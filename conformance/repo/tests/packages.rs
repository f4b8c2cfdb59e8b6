//! The packages of a release: the same bytes each time, laid out as people expect, and installed beside Debian's plugins or in
//! their place.
//!
//! `scripts/release.sh` packs the binary under test. Debian's own package and a runtime that needs it are stood in for by
//! packages of the same names, which are made here from what is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use cni_conformance::binaries;
use cni_conformance::child::{Finished, Limit, run};
use cni_conformance::plugins::ALL;
use cni_repo::top;
use serde_json::Value;

const LIMIT: Limit = Limit::Fail(Duration::from_secs(240));

/// A moment, for packages that are made now and later.
const EPOCH: &str = "1700000000";

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap_or_else(|error| panic!("remove {}: {error}", folder.display()));
    }
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    folder
}

#[track_caller]
fn sh(line: &str, arguments: &[&Path]) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-euc", line, "sh"]).args(arguments).env("SOURCE_DATE_EPOCH", EPOCH).current_dir(top());
    run(command, b"", LIMIT)
}

#[track_caller]
fn said(line: &str, arguments: &[&Path]) -> String {
    sh(line, arguments).expect_success().stdout
}

/// The binary under test without what debuggers need, as releases have it.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let stripped = scratch("packages-binary").join("cni-plugins");
        said("strip -o \"$2\" \"$1\"", &[&binaries::under_test().join("cni-plugins"), &stripped]);
        stripped
    })
}

fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => panic!("releases are not made for {other}"),
    }
}

/// Packs the binary, in surroundings that this line of shell makes.
fn pack(surroundings: &str, folder: &str) -> PathBuf {
    let out = scratch(folder);
    let line = format!("{surroundings}; scripts/release.sh --binary \"$1\" --out \"$2\" {}", arch());
    said(&line, &[binary(), &out]);
    out
}

fn packages() -> &'static Path {
    static PACKAGES: OnceLock<PathBuf> = OnceLock::new();
    PACKAGES.get_or_init(|| pack("umask 022", "packages"))
}

/// The one package whose name begins and ends so.
fn package(start: &str, end: &str) -> PathBuf {
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).expect("names are text");
        name.starts_with(start) && name.ends_with(end)
    };
    let found: Vec<_> = files(packages()).into_iter().filter(named).collect();
    let [one] = &found[..] else { panic!("one package {start}…{end}: {found:?}") };
    one.clone()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn tarball() -> PathBuf {
    package("cni-plugins-rs-linux-", ".tgz")
}

fn bill() -> Value {
    let text = fs::read_to_string(package("cni-plugins-rs-linux-", ".cdx.json")).expect("read the bill of materials");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    let other = pack("umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8; touch \"$1\"", "packages-again");
    let (one, other) = (files(packages()), files(&other));
    assert_eq!(one.len(), 5, "a tarball, two Debian packages, a bill of materials, checksums: {one:?}");
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(fs::read(one).expect("read") == fs::read(other).expect("read"), "{} differs", one.display());
    }
}

#[test]
fn the_checksums_are_those_of_every_package() {
    let checked = said("cd \"$1\" && sha256sum --check --strict SHA256SUMS", &[packages()]);
    assert_eq!(checked.lines().count(), 4, "{checked}");
}

#[test]
fn the_tarball_has_every_plugin_at_its_top_as_one_file() {
    let listed = said("tar --list --verbose --numeric-owner --gzip --file \"$1\"", &[&tarball()]);
    assert!(listed.lines().all(|line| line.contains(" 0/0 ")), "{listed}");
    let folder = scratch("packages-tarball");
    said("tar --extract --gzip --file \"$1\" --directory \"$2\"", &[&tarball(), &folder]);
    let names: BTreeSet<String> = said("ls \"$1\"", &[&folder]).lines().map(str::to_owned).collect();
    let expected = ALL.into_iter().chain(["LICENSE", "README.md", "cni-plugins"]).map(str::to_owned);
    assert_eq!(names, expected.collect());
    for plugin in ALL {
        let about = sh("test \"$1\" -ef \"$2\" && exec \"$1\"", &[&folder.join(plugin), &folder.join("cni-plugins")]);
        assert!(about.expect_success().stderr.starts_with(&format!("CNI {plugin} plugin v")), "{plugin}");
    }
}

#[test]
fn the_bill_names_licence_and_checksum_of_every_crate() {
    let bill = bill();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    let lock = fs::read_to_string(top().join("Cargo.lock")).expect("read Cargo.lock");
    let components = bill["components"].as_array().expect("components");
    assert!(components.len() > 40, "{}", components.len());
    for one in components {
        assert!(one["licenses"][0]["expression"].as_str().is_some_and(|licence| licence != "NOASSERTION"), "{one}");
        let name = one["name"].as_str().expect("a name");
        if name.starts_with("cni-") || ["rust-std", "musl"].contains(&name) {
            continue;
        }
        let sum = one["hashes"][0]["content"].as_str().unwrap_or_else(|| panic!("a checksum: {one}"));
        let version = one["version"].as_str().expect("a version");
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        let (_, rest) = lock.split_once(&entry).unwrap_or_else(|| panic!("Cargo.lock lacks {name} {version}"));
        assert!(rest.lines().take(2).any(|line| line == format!("checksum = \"{sum}\"")), "{one}");
    }
}

#[test]
fn the_bill_has_what_is_linked_and_nothing_that_only_tests_need() {
    let bill = bill();
    let names = bill["components"].as_array().expect("components").iter();
    let names: BTreeSet<&str> = names.map(|one| one["name"].as_str().expect("a name")).collect();
    for linked in ["serde_json", "netlink-packet-route", "zbus", "cni-linux", "rust-std", "musl"] {
        assert!(names.contains(linked), "{linked}");
    }
    for alien in ["proptest", "rtnetlink", "tempfile", "tokio", "cni-conformance", "cni-testkit"] {
        assert!(!names.contains(alien), "{alien}");
    }
}

/// A machine's package database and files, with Debian's plugins and a runtime that needs them.
struct Machine(PathBuf);

impl Machine {
    fn new(name: &str) -> Self {
        let root = scratch(name);
        said(
            "mkdir -p \"$1/var/lib/dpkg/info\" \"$1/var/lib/dpkg/updates\" && touch \"$1/var/lib/dpkg/status\"",
            &[&root],
        );
        let machine = Self(root);
        let debian = machine.stand_in("containernetworking-plugins", "1.1.1+ds1-3", "", "/usr/lib/cni");
        let runtime = machine.stand_in("runtime", "1.0", "Depends: containernetworking-plugins (>= 1.1)", "");
        machine.install(&[&debian, &runtime]);
        machine
    }

    /// A package of this name, with a copy of this folder of the machine that the tests run on.
    fn stand_in(&self, name: &str, version: &str, field: &str, content: &str) -> PathBuf {
        let deb = self.0.with_extension(format!("{name}.deb"));
        let folder = scratch(&format!("{}-{name}", self.0.file_name().and_then(|own| own.to_str()).expect("a name")));
        fs::create_dir(folder.join("DEBIAN")).expect("create a folder");
        let field = if field.is_empty() { String::new() } else { format!("{field}\n") };
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {}\nMaintainer: nobody <nobody@localhost>\n\
             {field}Description: stands in for another\n",
            arch()
        );
        fs::write(folder.join("DEBIAN/control"), control).expect("write a control file");
        if !content.is_empty() {
            said("mkdir -p \"$1/usr/lib\" && cp -r \"$2\" \"$1/usr/lib/cni\"", &[&folder, Path::new(content)]);
        }
        said("dpkg-deb --root-owner-group -Znone --build \"$1\" \"$2\"", &[&folder, &deb]);
        deb
    }

    fn dpkg(&self, words: &str, debs: &[&Path]) -> Finished {
        let arguments: Vec<&Path> = [self.0.as_path()].into_iter().chain(debs.iter().copied()).collect();
        sh(&format!("root=$1; shift; exec dpkg --root=\"$root\" {words} \"$@\""), &arguments)
    }

    #[track_caller]
    fn install(&self, debs: &[&Path]) {
        self.dpkg("--install", debs).expect_success();
    }

    /// Whose plugin a name in a folder is.
    fn about(&self, plugin: &str) -> String {
        sh("exec \"$1\" </dev/null", &[&self.0.join(plugin)]).stderr.lines().next().unwrap_or_default().to_owned()
    }

    fn installed(&self) -> Vec<String> {
        let listed = said(
            "dpkg-query --admindir=\"$1/var/lib/dpkg\" --show --showformat='${Package} ${db:Status-Abbrev}\\n'",
            &[&self.0],
        );
        let installed = listed.lines().filter_map(|line| line.trim_end().strip_suffix(" ii"));
        installed.map(str::to_owned).collect()
    }

    /// Requires that every file is as its package brought it, and that packages have what they need.
    #[track_caller]
    fn assert_whole(&self) {
        let checked = self.dpkg("--verify cni-plugins-rs", &[]).expect_success().stdout;
        assert_eq!(checked, "");
        assert_eq!(self.dpkg("--audit", &[]).expect_success().stdout, "");
    }
}

const OURS: &str = "CNI bridge plugin v1.9.1+rs.";

#[test]
fn one_package_is_installed_beside_debians_plugins() {
    let machine = Machine::new("packages-beside");
    machine.install(&[&package("cni-plugins-rs_", ".deb")]);
    assert_eq!(machine.installed(), ["cni-plugins-rs", "containernetworking-plugins", "runtime"]);
    machine.assert_whole();
    assert!(machine.about("usr/lib/cni-plugins-rs/bridge").starts_with(OURS));
    assert!(!machine.about("usr/lib/cni/bridge").starts_with(OURS), "Debian's stays");
    let tool = sh("exec \"$1\" version", &[&machine.0.join("usr/sbin/cni-plugins")]).expect_success();
    assert!(tool.stdout.starts_with("cni-plugins "), "{}", tool.stdout);
    let manual = sh("zcat \"$1\"", &[&machine.0.join("usr/share/man/man8/cni-plugins.8.gz")]).expect_success();
    assert!(manual.stdout.starts_with(".TH CNI-PLUGINS 8 "), "{}", manual.stdout);
    for completion in ["bash-completion/completions/cni-plugins", "zsh/vendor-completions/_cni-plugins"] {
        let script = fs::read_to_string(machine.0.join("usr/share").join(completion)).expect("read a completion");
        assert!(script.contains("doctor"), "{completion}");
    }
}

#[test]
fn the_other_takes_the_place_of_debians_plugins_and_gives_it_back() {
    let machine = Machine::new("packages-in-place");
    let in_place = package("containernetworking-plugins-rs_", ".deb");
    machine.install(&[&package("cni-plugins-rs_", ".deb"), &in_place]);
    assert_eq!(machine.installed(), ["cni-plugins-rs", "containernetworking-plugins-rs", "runtime"]);
    machine.assert_whole();
    for plugin in ALL {
        let about = machine.about(&format!("usr/lib/cni/{plugin}"));
        assert!(about.starts_with(&format!("CNI {plugin} plugin v")) && about.contains("+rs."), "{plugin}: {about}");
    }
    for unit in ["cni-dhcp.service", "cni-dhcp.socket"] {
        let text = fs::read_to_string(machine.0.join("lib/systemd/system").join(unit)).expect("read a unit");
        assert!(!text.contains("/opt/"), "{unit}: {text}");
    }

    // As apt does it, which removes what conflicts before it installs.
    machine.dpkg("--force-depends --remove containernetworking-plugins-rs", &[]).expect_success();
    machine.install(&[&machine.0.with_extension("containernetworking-plugins.deb")]);
    assert_eq!(machine.installed(), ["cni-plugins-rs", "containernetworking-plugins", "runtime"]);
    machine.assert_whole();
    assert!(!machine.about("usr/lib/cni/bridge").starts_with(OURS), "Debian's is back");
}
