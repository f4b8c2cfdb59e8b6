//! DEL of a network that has been renamed since ADD.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::{Call, Environment, Request};
use cni_core::result::CniResult;
use cni_core::version::Version;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::namespace::{self, RecordedNamespace};
use cni_plugin::other_network::{former, mark};
use cni_plugin::run::{Plugin, Process, run};
use cni_plugin::share::Share;

use crate::stub::{NETNS, StubHost, Told, at};

const STDIN: &[u8] = br#"{"cniVersion": "1.0.0", "name": "net", "type": "stub"}"#;

/// Notes the networks of its DELs, and fails in the network `former`.
#[derive(Default)]
struct StubPlugin(Mutex<Vec<String>>);

impl Plugin for StubPlugin {
    fn kind(&self) -> &'static str {
        "stub"
    }

    fn share(&self) -> Share {
        Share::Interface
    }

    fn add(&self, _: &Request, _: &mut Journal<'_>) -> Result<CniResult, Error> {
        unimplemented!()
    }

    fn del(&self, request: &Request, _: &mut dyn Host) -> Result<(), Error> {
        self.0.lock().expect("one thread").push(request.network.to_string());
        if request.network.as_str() == "former" { Err(Told("refused").into()) } else { Ok(()) }
    }

    fn check(&self, _: &Request, _: &mut dyn Host) -> Result<(), Error> {
        unimplemented!()
    }
}

/// Each call gets a copy of the host.
struct StubProcess {
    host: StubHost,
    stdout: String,
}

impl Process for StubProcess {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(STDIN.to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.push_str(text);
        Ok(())
    }

    fn write_stderr(&mut self, _: &str) {}

    fn host(&mut self, _: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(self.host.clone()))
    }
}

/// A host where the network `former` has the interface, and its container's namespace.
fn recorded() -> (StubHost, RecordedNamespace) {
    let mut host = StubHost::new();
    host.enter(NETNS).expect("entered");
    let namespace = namespace::of_entered(NETNS, &mut host).expect("asked").expect("identified");
    let at = Attachment { network: NetworkName::parse("former").expect("a network"), ..at("c1", "eth0") };
    let maker = "stub".to_owned();
    let record = AttachmentRecord {
        at,
        maker,
        namespace: namespace.clone(),
        link: None,
        is_again: false,
        written: Duration::ZERO,
    };
    host.apply(&record.write()).expect("written");
    (host, namespace)
}

fn environment() -> Environment {
    let names = [("CNI_CONTAINERID", "c1"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", NETNS), ("CNI_PATH", "/")];
    Environment::new(names.into_iter().chain([("CNI_COMMAND", "DEL")]))
}

/// The exit status of a DEL of the network `net`, what it prints, and the networks of the plugin's DELs.
fn deleted(is_ledger_unreadable: bool) -> (u8, String, Vec<String>) {
    let host = StubHost { is_ledger_unreadable, ..recorded().0 };
    let (plugin, mut process) = (StubPlugin::default(), StubProcess { host, stdout: String::new() });
    let status = run(&plugin, "1", environment(), &mut process);
    (status, process.stdout, plugin.0.into_inner().expect("one thread"))
}

#[test]
fn a_del_that_fails_under_the_former_name_is_reported_and_does_not_keep_the_other_back() {
    let (status, stdout, networks) = deleted(false);
    assert_eq!((status, networks.join(" ").as_str()), (1, "former net"));
    assert!(stdout.contains(r#""msg": "refused""#), "{stdout}");
}

#[test]
fn records_that_cannot_be_read_do_not_fail_a_del() {
    assert_eq!(deleted(true), (0, String::new(), vec!["net".to_owned()]));
}

/// The container has renamed the interface, so nothing has the name.
#[test]
fn a_refused_add_is_marked_where_only_a_record_shows_the_other_network() {
    let (mut host, namespace) = recorded();
    host.namespaces[0].links.clear();
    let call = Call::parse("DEL", environment()).expect("a call");
    let request = call.with_config(STDIN.to_vec(), Version::ALL).expect("a request");
    let networks = |host: &mut StubHost| former("stub", Share::Interface, &request, host).expect("asked").len();
    assert_eq!(networks(&mut host), 1);
    mark(("stub", Share::Interface), &request, Some(&namespace), true, &mut host).expect("marked");
    assert_eq!(networks(&mut host), 0);
}
