//! The plugin as a runtime meets it: environment and configuration in, what is printed and what lies on the
//! disk out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cni_core::error::Error;
use cni_core::json::Json;
use cni_core::request::{Environment, Request};
use cni_host_local::HostLocal;
use cni_plugin::host::Host;
use cni_plugin::run::{Process, run};
use cni_testkit::{FakeContainer, FakeHost};
use tempfile::TempDir;

struct OneCall {
    stdin: Vec<u8>,
    stdout: Option<String>,
    broken_pipe: bool,
    namespace: String,
}

impl Process for OneCall {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.stdin))
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        if std::mem::take(&mut self.broken_pipe) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        assert_eq!(self.stdout.replace(text.to_owned()), None, "one document");
        Ok(())
    }

    fn write_stderr(&mut self, text: &str) {
        unreachable!("nothing is said beside the protocol: {text}");
    }

    fn host(&mut self, _request: &Request) -> Result<Box<dyn Host>, Error> {
        let container = FakeContainer::Present(Some(self.namespace.clone()));
        Ok(Box::new(FakeHost::new().with_container("/netns", container)))
    }
}

struct Fixture {
    root: TempDir,
    config: String,
    container: &'static str,
    namespace: &'static str,
    broken_pipe: bool,
}

impl Fixture {
    fn new(ipam: &str) -> Self {
        let root = tempfile::tempdir().expect("directory");
        let config = config("1.1.0", root.path(), ipam, "");
        Self { root, config, container: "c1", namespace: "ns1", broken_pipe: false }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("net")
    }

    fn call(&self, command: &str) -> (u8, String) {
        self.call_with(command, &self.config, &[])
    }

    fn call_with(&self, command: &str, config: &str, variables: &[(&str, &str)]) -> (u8, String) {
        let usual = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", self.container),
            ("CNI_NETNS", "/netns"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/bin"),
        ];
        let variables = usual.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut call = OneCall {
            stdin: config.as_bytes().to_vec(),
            stdout: None,
            broken_pipe: self.broken_pipe,
            namespace: self.namespace.to_owned(),
        };
        let status = run(&HostLocal, "0", Environment::new(variables), &mut call);
        (status, call.stdout.unwrap_or_default())
    }

    /// Names and contents of the leases.
    fn leases(&self) -> BTreeMap<String, String> {
        let Ok(entries) = fs::read_dir(self.path()) else { return BTreeMap::new() };
        let paths = entries.map(|entry| entry.expect("entry").path());
        let leases = paths.filter(|path| path.is_file() && !path.ends_with("lock"));
        leases
            .map(|path| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).expect("text"))
            })
            .filter(|(name, _)| !name.starts_with("last_reserved_ip"))
            .collect()
    }

    fn names(&self) -> String {
        self.leases().into_keys().collect::<Vec<_>>().join(" ")
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.path()).expect("mkdir");
        fs::write(self.path().join(name), content).expect("write");
    }
}

fn config(version: &str, data_dir: &Path, ipam: &str, more: &str) -> String {
    format!(
        r#"{{"cniVersion":"{version}","name":"net","type":"bridge","ipam":{{"type":"host-local","dataDir":"{}",{ipam}}}{more}}}"#,
        data_dir.display()
    )
}

fn with_keys(config: &str, more: &str) -> String {
    format!("{},{more}}}", config.strip_suffix('}').expect("an object"))
}

/// Code, message and details of a printed error.
fn error((status, stdout): (u8, String)) -> (i128, String, String) {
    assert_eq!(status, 1, "{stdout}");
    let json = Json::parse(stdout.as_bytes()).expect("JSON");
    let Some(Json::Integer(code)) = json.get("code") else { panic!("no code in {stdout}") };
    let text = |key| match json.get(key) {
        Some(Json::String(text)) => text.clone(),
        _ => String::new(),
    };
    (*code, text("msg"), text("details"))
}

const DONE: (u8, String) = (0, String::new());

const SUBNET: &str = r#""subnet":"10.1.2.0/29""#;

#[test]
fn add_prints_the_result_of_the_configurations_version() {
    let resolv_conf = tempfile::NamedTempFile::new().expect("file");
    fs::write(resolv_conf.path(), "nameserver 192.0.2.53\nsearch example.org\n").expect("write");
    let ipam = format!(
        r#""ranges":[[{{"subnet":"10.1.2.0/29"}}],[{{"subnet":"2001:db8::/64"}}]],"routes":[{{"dst":"0.0.0.0/0"}}],"resolvConf":"{}""#,
        resolv_conf.path().display()
    );
    let fixture = Fixture::new(&ipam);
    let (status, stdout) = fixture.call("ADD");
    let want = r#"{
    "cniVersion": "1.1.0",
    "dns": {
        "nameservers": [
            "192.0.2.53"
        ],
        "search": [
            "example.org"
        ]
    },
    "ips": [
        {
            "address": "10.1.2.2/29",
            "gateway": "10.1.2.1"
        },
        {
            "address": "2001:db8::2/64",
            "gateway": "2001:db8::1"
        }
    ],
    "routes": [
        {
            "dst": "0.0.0.0/0"
        }
    ]
}"#;
    assert_eq!((status, stdout.as_str()), (0, want));
    let old = Fixture::new(SUBNET);
    let (status, stdout) = old.call_with("ADD", &config("0.2.0", old.root.path(), SUBNET, ""), &[]);
    assert_eq!(status, 0);
    assert!(stdout.contains(r#""ip4": {"#) && stdout.contains(r#""ip": "10.1.2.2/29""#), "{stdout}");
}

#[test]
fn a_resolv_conf_that_cannot_be_read_is_named_before_anything_is_touched() {
    let fixture = Fixture::new(r#""subnet":"10.1.2.0/29","resolvConf":"/nowhere/resolv.conf""#);
    let (code, text, details) = error(fixture.call("ADD"));
    assert_eq!((code, text.as_str()), (5, "open /nowhere/resolv.conf"));
    assert!(details.contains("No such file"), "{details}");
    let long = tempfile::NamedTempFile::new().expect("file");
    fs::write(long.path(), "x".repeat(70_000)).expect("write");
    let ipam = format!(r#"{SUBNET},"resolvConf":"{}""#, long.path().display());
    let refused = error(fixture.call_with("ADD", &config("1.1.0", fixture.root.path(), &ipam, ""), &[]));
    assert_eq!(refused, (5, "a line is longer than 64 KiB".to_owned(), long.path().display().to_string()));
    long.as_file().set_len(20 << 30).expect("a sparse file");
    let (code, text, details) = error(fixture.call_with("ADD", &config("1.1.0", fixture.root.path(), &ipam, ""), &[]));
    assert_eq!((code, text), (5, format!("read {}", long.path().display())));
    assert!(details.contains("it has more than 1048576 bytes"), "{details}");
    assert!(!fixture.path().exists());
}

#[test]
fn an_invalid_configuration_is_refused_before_anything_is_touched() {
    let fixture = Fixture::new(r#""subnet":"10.1.2.0/31""#);
    let (code, text, _) = error(fixture.call("ADD"));
    assert_eq!((code, text.as_str()), (7, "invalid range set 0: Network 10.1.2.0/31 too small to allocate from"));
    let (code, text, _) = error(fixture.call_with("ADD", &fixture.config, &[("CNI_ARGS", "A=b")]));
    assert_eq!(
        (code, text.as_str()),
        (4, "ARGS: unknown args [\"A=b\"]"),
        "as the reference: the arguments come first"
    );
    assert!(!fixture.path().exists());
}

#[test]
fn a_result_that_cannot_be_written_is_undone_and_nothing_else() {
    let mut fixture = Fixture::new(SUBNET);
    fixture.container = "c0";
    assert_eq!(fixture.call("ADD").0, 0);
    fixture.container = "c1";
    fixture.broken_pipe = true;
    let (code, text, _) = error(fixture.call("ADD"));
    assert_eq!((code, text.as_str()), (5, "could not write the result to stdout"));
    assert_eq!(fixture.names(), "10.1.2.2");
    fixture.broken_pipe = false;
    assert_eq!(fixture.call("ADD").0, 0, "and can be tried again");
    fixture.namespace = "ns2";
    fixture.broken_pipe = true;
    assert_eq!(fixture.call("ADD").0, 1);
    assert_eq!(fixture.names(), "10.1.2.2 10.1.2.4", "a lease that was given again stays");
    fixture.broken_pipe = false;
    assert_eq!(fixture.call("ADD").0, 0, "in this namespace, too");
}

#[test]
fn del_needs_nothing_of_the_configuration_but_the_directory() {
    let fixture = Fixture::new(SUBNET);
    assert_eq!(fixture.call("ADD").0, 0);
    let broken = r#""ranges":[[{"subnet":"not a subnet"}]],"resolvConf":"/nowhere""#;
    let broken = config("1.1.0", fixture.root.path(), broken, r#","runtimeConfig":{"ips":[null]}"#);
    assert_eq!(fixture.call_with("DEL", &broken, &[("CNI_ARGS", "x"), ("CNI_NETNS", "")]), DONE);
    assert_eq!(fixture.names(), "");
    assert!(fixture.path().join("last_reserved_ip.0").exists());
    assert_eq!(fixture.call("DEL"), DONE, "twice");
    let (code, text, details) = error(fixture.call_with("DEL", r#"{"name":"net","ipam":{"dataDir":[]}}"#, &[]));
    assert_eq!((code, text.as_str()), (6, "failed to load netconf"));
    assert!(details.starts_with("ipam.dataDir: "), "{details}");
}

#[test]
fn del_touches_no_file_that_is_no_lease() {
    let mut fixture = Fixture::new(SUBNET);
    fixture.container = "10.1.2.2";
    fixture.write("last_reserved_ip.0", "10.1.2.2");
    fixture.write("notes", "10.1.2.2\r\neth0");
    fs::create_dir(fixture.path().join("below")).expect("mkdir");
    fixture.write("below/10.1.2.3", "10.1.2.2\r\neth0");
    assert_eq!(fixture.call("DEL"), DONE);
    for name in ["last_reserved_ip.0", "notes", "below/10.1.2.3", "lock"] {
        assert!(fixture.path().join(name).exists(), "{name}");
    }
}

#[test]
fn check_finds_the_lease_of_the_attachment() {
    let mut fixture = Fixture::new(SUBNET);
    let missing = |container, details: &str| {
        (100, format!("host-local: Failed to find address added by container {container}"), details.to_owned())
    };
    assert_eq!(error(fixture.call("CHECK")), missing("c1", ""));
    assert!(!fixture.path().exists(), "CHECK makes no directory");
    assert_eq!(fixture.call("ADD").0, 0);
    assert_eq!(fixture.call("CHECK"), DONE);
    let checked = |addresses: &str| {
        let interfaces = r#""interfaces":[{"name":"br0"},{"name":"eth0","sandbox":"/netns"}]"#;
        let result = format!(r#""prevResult":{{"cniVersion":"1.1.0",{interfaces},"ips":[{addresses}]}}"#);
        fixture.call_with("CHECK", &with_keys(&fixture.config, &result), &[])
    };
    assert_eq!(checked(r#"{"address":"10.1.2.2/29","interface":1},{"address":"192.0.2.9/24","interface":1}"#), DONE);
    assert_eq!(checked(r#"{"address":"10.1.2.5/29","interface":0}"#), DONE, "another interface's");
    let details = "10.1.2.5 of prevResult is not leased to it";
    assert_eq!(error(checked(r#"{"address":"10.1.2.2/29"},{"address":"10.1.2.5/29"}"#)), missing("c1", details));
    fixture.container = "c2";
    assert_eq!(error(fixture.call("CHECK")), missing("c2", ""));
    fixture.write("10.1.2.6", "c2");
    assert_eq!(fixture.call("CHECK"), DONE, "a lease of an old release");
}

/// A runtime reports a network as not ready by STATUS, and Kubernetes evicts what runs there.
#[test]
fn a_full_set_passes_status_and_is_named_to_the_tool() {
    let fixture = Fixture::new(r#""ranges":[[{"subnet":"10.1.2.0/30"}],[{"subnet":"2001:db8::/126"}]]"#);
    let full = |fixture: &Fixture| {
        assert_eq!(fixture.call("STATUS"), DONE);
        let request =
            cni_testkit::request("STATUS", &[], &fixture.config.replacen('{', r#"{"cniVersion":"1.1.0","#, 1));
        cni_host_local::full_sets(&request).expect("read")
    };
    assert!(full(&fixture).is_empty());
    fixture.write("10.1.2.1", "the gateway's\r\neth0");
    fixture.write("2001:db8::2", "other\r\neth0");
    assert!(full(&fixture).is_empty());
    assert_eq!(fixture.call("ADD").0, 0);
    assert_eq!(full(&fixture), ["10.1.2.1-10.1.2.2", "2001:db8::1-2001:db8::3"]);
    fixture.write("10.1.2.2", "");
    assert_eq!(full(&fixture), ["2001:db8::1-2001:db8::3"], "a torn lease is free");
}

#[test]
fn status_names_the_directory_that_cannot_be_used() {
    let fixture = Fixture::new(SUBNET);
    fs::write(fixture.path(), "").expect("write");
    let (code, text, details) = error(fixture.call("STATUS"));
    assert_eq!((code, text), (50, format!("leases cannot be written to {}", fixture.path().display())));
    assert!(details.starts_with(&format!("open {}/lock: Not a directory", fixture.path().display())), "{details}");
    let (code, text, _) = error(Fixture::new(r#""x":1"#).call("STATUS"));
    assert_eq!((code, text.as_str()), (7, "no IP ranges specified"));
}

#[test]
fn status_leaves_nothing_where_nothing_was() {
    let fixture = Fixture::new(SUBNET);
    assert_eq!(fixture.call("STATUS"), DONE);
    assert!(!fixture.path().exists());
}

#[test]
fn gc_keeps_what_is_valid() {
    let fixture = Fixture::new(SUBNET);
    let gc = |valid: &str| fixture.call_with("GC", &with_keys(&fixture.config, valid), &[]);
    assert_eq!(gc(r#""cni.dev/valid-attachments":[]"#), DONE);
    assert!(!fixture.path().exists(), "GC makes no directory");
    assert_eq!(fixture.call("ADD").0, 0);
    fixture.write("10.1.2.3", "c1\r\neth1");
    fixture.write("10.1.2.4", "c1");
    fixture.write("10.1.2.5", "c2");
    fixture.write("10.1.2.6", "");
    fixture.write("192.0.2.1", "odd\nowner");
    fixture.write("notes", "c9\r\neth0");
    let all = fixture.names();
    assert_eq!((gc(r#""x":1"#), fixture.names()), (DONE, all.clone()), "without a list nothing is removed");
    let (code, ..) = error(gc(r#""cni.dev/valid-attachments":[{"containerID":"c1"}]"#));
    assert_eq!((code, fixture.names()), (7, all));
    assert_eq!(gc(r#""cni.dev/attachments":[{"containerID":"c1","ifname":"eth0"}]"#), DONE);
    assert_eq!(fixture.names(), "10.1.2.2 10.1.2.4 notes");
    assert_eq!(gc(r#""cni.dev/valid-attachments":[]"#), DONE);
    assert_eq!(fixture.names(), "notes");
    assert!(fixture.path().join("last_reserved_ip.0").exists() && fixture.path().join("lock").exists());
    assert_eq!(fixture.call("CHECK").0, 1);
}
