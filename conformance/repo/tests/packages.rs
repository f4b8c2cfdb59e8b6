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

const LIMIT: Limit = Limit::Fail(Duration::from_secs(900));

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

#[test]
fn packing_twice_gives_the_same_bytes_with_their_checksums() {
    let other = pack("umask 077; export TZ=Asia/Tokyo LC_ALL=C.UTF-8; touch \"$1\"", "packages-again");
    let (one, other) = (files(packages()), files(&other));
    assert_eq!(
        one.len(),
        12,
        "a tarball, two packages of four kinds, an image, a bill of materials, checksums: {one:?}"
    );
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(fs::read(one).expect("read") == fs::read(other).expect("read"), "{} differs", one.display());
    }
    let checked = said("cd \"$1\" && sha256sum --check --strict SHA256SUMS", &[packages()]);
    assert_eq!(checked.lines().count(), 11, "{checked}");
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
fn the_bill_names_licence_and_checksum_of_every_crate_that_is_linked() {
    let text = fs::read_to_string(package("cni-plugins-rs-linux-", ".cdx.json")).expect("read the bill of materials");
    let bill: Value = serde_json::from_str(&text).expect("JSON");
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
    let names: BTreeSet<&str> = components.iter().map(|one| one["name"].as_str().expect("a name")).collect();
    for linked in ["serde_json", "netlink-packet-route", "zbus", "cni-linux", "rust-std", "musl"] {
        assert!(names.contains(linked), "{linked}");
    }
    for alien in ["proptest", "rtnetlink", "tempfile", "tokio", "cni-conformance"] {
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

    /// Requires that systemd has nothing to complain of, that what units start is there, and that none is enabled.
    #[track_caller]
    fn assert_units(&self, units: &[&str]) {
        let folder = self.0.join("lib/systemd/system");
        let copies = scratch("packages-units");
        for unit in units {
            let text = fs::read_to_string(folder.join(unit)).unwrap_or_else(|error| panic!("read {unit}: {error}"));
            let starts = text.lines().filter_map(|line| line.strip_prefix("ExecStart=")?.split_whitespace().next());
            for program in starts {
                assert!(self.0.join(program.trim_start_matches('/')).exists(), "{unit} starts {program}");
            }
            assert!(!text.contains("/opt/"), "{unit}: {text}");
            // The programs are looked for on the machine of the test.
            let text = text.replace("/usr/lib/cni-plugins-rs/dhcp", "/bin/true");
            let text = text.replace("/usr/lib/cni-plugins-rs/cni-plugins", "/bin/true");
            fs::write(copies.join(unit), text).expect("write a unit");
        }
        // Some units need each other, which are looked for in the same folder.
        for unit in units {
            let verified = sh("systemd-analyze verify --man=no \"$1\"", &[&copies.join(unit)]);
            assert_eq!((verified.code, verified.stderr.as_str()), (Some(0), ""), "{unit}");
        }
        let enabled = said("find \"$1\" -name '*.wants' -o -name '*.requires'", &[&self.0]);
        assert_eq!(enabled, "", "a unit is off unless somebody enables it");
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
    for page in ["cni-plugins", "cni-plugins-list", "cni-plugins-install"] {
        let file = machine.0.join(format!("usr/share/man/man8/{page}.8.gz"));
        let manual = sh("zcat \"$1\"", &[&file]).expect_success().stdout;
        assert!(manual.contains(&format!("\n.TH {page} 8 ")), "{page}: {manual}");
    }
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
    machine.assert_units(&[
        "cni-dhcp.service",
        "cni-dhcp.socket",
        "cni-plugins-repair.service",
        "cni-plugins-metrics.service",
        "cni-plugins-metrics.timer",
    ]);

    // As apt does it, which removes what conflicts before it installs.
    machine.dpkg("--force-depends --remove containernetworking-plugins-rs", &[]).expect_success();
    machine.install(&[&machine.0.with_extension("containernetworking-plugins.deb")]);
    assert_eq!(machine.installed(), ["cni-plugins-rs", "containernetworking-plugins", "runtime"]);
    machine.assert_whole();
    assert!(!machine.about("usr/lib/cni/bridge").starts_with(OURS), "Debian's is back");
}

/// A package as the version before would have brought it: the same files, hard links in place of symbolic ones.
fn version_before(package: &Path) -> PathBuf {
    let name = package.file_name().and_then(|name| name.to_str()).expect("a text").replace('_', "-before_");
    let folder = scratch(&format!("packages-{name}"));
    let old = folder.with_extension("old.deb");
    let line = "dpkg-deb --raw-extract \"$1\" \"$2\"; cd \"$2\"; \
                sed -i \"s/^Version: .*/Version: 0.0.1/; s/(= [^+)]*)/(= 0.0.1)/\" DEBIAN/control; rm DEBIAN/md5sums; \
                folder=usr/lib/cni-plugins-rs; test ! -e $folder || for name in $folder/*; do \
                test $name = $folder/cni-plugins || ln -f $folder/cni-plugins $name; done; \
                dpkg-deb --root-owner-group -Znone --build . \"$3\"";
    said(line, &[package, &folder, &old]);
    old
}

#[test]
fn both_packages_are_upgraded_and_removed_without_a_trace() {
    let machine = Machine::new("packages-upgrade");
    machine.dpkg("--force-depends --remove containernetworking-plugins", &[]).expect_success();
    let before = said("cd \"$1\" && find . -path ./var -prune -o -print | sort", &[&machine.0]);
    let packages = [package("cni-plugins-rs_", ".deb"), package("containernetworking-plugins-rs_", ".deb")];
    let old = packages.each_ref().map(|package| version_before(package));
    machine.install(&[&old[0], &old[1]]);
    let version = || {
        let line = "dpkg-query --admindir=\"$1/var/lib/dpkg\" --show --showformat='${Version} ' 'cni-plugins-rs' 'containernetworking-plugins-rs'";
        said(line, &[&machine.0])
    };
    assert_eq!(version(), "0.0.1 0.0.1 ");
    machine.install(&[&packages[0], &packages[1]]);
    assert_ne!(version(), "0.0.1 0.0.1 ");
    machine.assert_whole();
    assert!(machine.about("usr/lib/cni/bridge").starts_with(OURS));
    machine.dpkg("--force-depends --purge containernetworking-plugins-rs cni-plugins-rs", &[]).expect_success();
    assert_eq!(said("cd \"$1\" && find . -path ./var -prune -o -print | sort", &[&machine.0]), before);
}

/// Requires that a package contains every name. `listed` has its files, and the targets of its links.
#[track_caller]
fn assert_has_every_plugin(listed: &str, folder: &str, target: &str) {
    for plugin in ALL {
        let line = format!("{folder}/{plugin} {target}");
        assert!(listed.lines().any(|one| one == line), "{line} in:\n{listed}");
    }
}

#[test]
fn rpm_reads_its_packages() {
    let (beside, in_place) = (package("cni-plugins-rs-", ".rpm"), package("containernetworking-plugins-rs-", ".rpm"));
    let list =
        |rpm: &Path| said("rpm --query --package --queryformat '[%{FILENAMES} %{FILELINKTOS}\\n]' \"$1\"", &[rpm]);
    assert_has_every_plugin(&list(&beside), "/usr/lib/cni-plugins-rs", "cni-plugins");
    assert_has_every_plugin(&list(&in_place), "/usr/libexec/cni", "../../lib/cni-plugins-rs/cni-plugins");
    for file in [
        "/usr/lib/systemd/system/cni-plugins-repair.service ",
        "/usr/lib/systemd/system/cni-plugins-metrics.timer ",
        "/usr/bin/cni-plugins ../lib/cni-plugins-rs/cni-plugins",
    ] {
        assert!(list(&beside).lines().any(|line| line == file), "{file}");
    }
    for rpm in [&beside, &in_place] {
        let digests = said("rpm --checksig --nosignature \"$1\"", &[rpm]);
        assert!(digests.trim_end().ends_with(": digests OK"), "{digests}");
    }
    let asked = said("for what in requires conflicts; do rpm --query --package --$what \"$1\"; done", &[&in_place]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(asked, format!("cni-plugins-rs = {version}\ncontainernetworking-plugins\n"));
    let provided = said("rpm --query --package --provides \"$1\"", &[&in_place]);
    assert!(provided.contains("containernetworking-plugins = 1."), "{provided}");
}

#[test]
fn pacman_reads_its_packages() {
    let (beside, in_place) = (package("cni-plugins-rs-", ".zst"), package("containernetworking-plugins-rs-", ".zst"));
    let asked = |words: &str, package: &Path| said(&format!("pacman {words} \"$1\""), &[package]);
    for (package, folder) in [
        (&beside, "cni-plugins-rs /usr/lib/cni-plugins-rs"),
        (&in_place, "containernetworking-plugins-rs /usr/lib/cni"),
    ] {
        let listed = asked("-Qlp", package);
        for plugin in ALL {
            assert!(listed.lines().any(|line| line == format!("{folder}/{plugin}")), "{plugin}: {listed}");
        }
        let links = said("tar --list --verbose --zstd --file \"$1\"", &[package]);
        assert!(links.contains("/bridge -> "), "{links}");
    }
    let about = asked("-Qip", &in_place);
    for line in
        ["Provides        : cni-plugins=1.", "Depends On      : cni-plugins-rs=", "Conflicts With  : cni-plugins\n"]
    {
        assert!(about.contains(line), "{line}: {about}");
    }
}

#[test]
fn an_alpine_package_has_every_plugin_where_alpine_looks() {
    let root = scratch("packages-apk");
    let (beside, in_place) = (package("cni-plugins-rs_", ".apk"), package("containernetworking-plugins-rs_", ".apk"));
    for package in [&beside, &in_place] {
        said(
            "tar --extract --gzip --warning=no-unknown-keyword --file \"$1\" --directory \"$2\" usr",
            &[package, &root],
        );
    }
    for plugin in ALL {
        let about = sh("exec \"$1\" </dev/null", &[&root.join("usr/libexec/cni").join(plugin)]).expect_success().stderr;
        assert!(about.starts_with(&format!("CNI {plugin} plugin v")) && about.contains("+rs."), "{plugin}: {about}");
    }
    let about =
        said("tar --extract --gzip --warning=no-unknown-keyword --to-stdout --file \"$1\" .PKGINFO", &[&in_place]);
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("pkgver = {version}-r0"), format!("depend = cni-plugins-rs={version}-r0")] {
        assert!(about.lines().any(|one| one == line), "{line}: {about}");
    }
}

/// The JSON document that a descriptor of the image names.
fn document(image: &Path, descriptor: &Value) -> Value {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest");
    let file = image.join("blobs/sha256").join(digest);
    let size = file.metadata().expect("a blob").len();
    assert_eq!(descriptor["size"], size, "{descriptor}");
    let sum = said("sha256sum <\"$1\"", &[&file]);
    assert!(sum.starts_with(digest), "{descriptor}: {sum}");
    fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or(Value::Null)
}

#[test]
fn the_image_is_one_layer_with_one_file_that_installs_the_plugins() {
    let image = scratch("packages-image");
    said("tar --extract --file \"$1\" --directory \"$2\"", &[&package("cni-plugins-rs-image-", ".tar"), &image]);
    let index: Value = serde_json::from_slice(&fs::read(image.join("index.json")).expect("read")).expect("JSON");
    let platforms = document(&image, &index["manifests"][0]);
    let [platform] = &platforms["manifests"].as_array().expect("manifests")[..] else { panic!("{platforms}") };
    assert_eq!(platform["platform"], serde_json::json!({"os": "linux", "architecture": arch()}));
    let manifest = document(&image, platform);
    let config = document(&image, &manifest["config"]);
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/cni-plugins"]));
    assert_eq!(config["config"]["Cmd"], serde_json::json!(["install", "/host/opt/cni/bin"]));
    let [layer] = &manifest["layers"].as_array().expect("layers")[..] else { panic!("{manifest}") };
    document(&image, layer);
    let digest = layer["digest"].as_str().expect("a digest").replace(':', "/");
    let file = image.join("blobs").join(digest);
    assert_eq!(said("tar --list --gzip --file \"$1\"", &[&file]), "cni-plugins\n");
    let content = said("gzip --decompress --stdout <\"$1\" | sha256sum", &[&file]);
    assert_eq!(config["rootfs"]["diff_ids"][0].as_str(), Some(format!("sha256:{}", &content[..64]).as_str()));
}
