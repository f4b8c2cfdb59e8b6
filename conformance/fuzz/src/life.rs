//! The life of a container with a plugin on a machine in memory, and what must be true of it whatever the configuration says:
//!
//! - no request ends in an error of the plugin itself (code 999);
//! - an ADD that fails leaves nothing, and says so in one line;
//! - what an ADD made passes CHECK, as long as nothing has happened, and misses nothing;
//! - DEL removes exactly what ADD made, and again; STATUS, CHECK and looking for what is missing change nothing;
//! - a result can be printed in the version of its configuration, and read back.

use cni_core::error::{Code, Error};
use cni_core::json::Json;
use cni_core::request::{Call, Environment, Request};
use cni_core::result::CniResult;
use cni_plugin::host::Host as _;
use cni_plugin::journal::Journal;
use cni_plugin::link::Link;
use cni_plugin::plan::Ns;
use cni_plugin::run::Plugin;
use cni_testkit::{FakeContainer, FakeHost};

/// Two containers of a network, one after the other.
pub struct Life {
    pub plugin: &'static dyn Plugin,
    /// The configuration, as JSON.
    pub config: String,
    /// `CNI_ARGS`
    pub args: String,
}

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// The one that was there before.
    Neighbour,
    /// The one that is looked at.
    Own,
}

impl Container {
    const fn id(self) -> &'static str {
        match self {
            Self::Neighbour => "c0",
            Self::Own => "c1",
        }
    }

    /// The path of its namespace.
    pub const fn netns(self) -> &'static str {
        match self {
            Self::Neighbour => "/run/netns/c0",
            Self::Own => "/run/netns/c1",
        }
    }
}

/// A machine with a bridge that somebody else has made, and two containers whose `eth0` another plugin has made if a
/// chained plugin is to work on it.
pub fn machine(is_chained: bool) -> FakeHost {
    let mut host = FakeHost::new().with_bridge("br9", "10.1.2.1/24");
    let files = [
        ("/etc/passwd", "root:x:0:0::/root:/bin/sh\nenvoy:x:1337:1337::/:/bin/false\nbroken\n"),
        ("/etc/services", "http\t80/tcp www # WorldWideWeb\ndomain 53/udp\ndomain 153/tcp\n"),
    ];
    host.administrators_files = files.map(|(path, text)| (path.into(), text.to_owned())).into();
    for container in [Container::Neighbour, Container::Own] {
        host.set_container(container.netns(), FakeContainer::Present(Some(format!("boot:{}", container.id()))));
        host.enter(container.netns()).expect("it is there");
        if is_chained {
            let mac = "02:00:00:00:00:01".parse().ok();
            let eth0 = Link { name: "eth0".to_owned(), mac, mtu: 1500, tx_queue_length: 1000, ..Link::default() };
            host.add_link(Ns::Container, eth0);
        }
    }
    add_device(&mut host);
    host
}

/// A network card of the host, and another device that a program drives.
fn add_device(host: &mut FakeHost) {
    let mac = "02:00:00:00:00:0a".parse().ok();
    host.add_link(Ns::Host, Link { name: "ens1".to_owned(), mac, mtu: 1500, up: true, ..Link::default() });
    host.devices.add_directory("/sys/bus/pci/devices/0000:05:00.0/net/ens1");
    host.devices.add_directory("/sys/bus/pci/devices/0000:07:00.0");
    host.devices.add_link("/sys/bus/pci/devices/0000:07:00.0/driver", "vfio-pci");
}

/// Whether a plugin works on an interface that another has made.
pub fn is_chained(plugin: &dyn Plugin) -> bool {
    ["consul-cni", "firewall", "portmap", "tuning"].contains(&plugin.kind())
}

impl Life {
    /// The request of a command; `None` when it is refused before the plugin sees it.
    pub fn request(&self, container: Container, command: &str, config: &str) -> Option<Request> {
        let variables = [
            ("CNI_CONTAINERID", container.id()),
            ("CNI_NETNS", container.netns()),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
            ("CNI_ARGS", &self.args),
        ];
        let call = Call::parse(command, Environment::new(variables)).expect("the variables are sound");
        known(call.with_config(config.as_bytes().to_vec(), self.plugin.versions())).ok()
    }

    /// ADD, with everything taken back when it fails.
    pub fn add(&self, container: Container, host: &mut FakeHost) -> Option<Result<CniResult, Error>> {
        let request = self.request(container, "ADD", &self.config)?;
        let mut journal = Journal::new(host);
        Some(known(match self.plugin.add(&request, &mut journal) {
            Ok(result) => {
                journal.commit();
                Ok(result)
            }
            Err(error) => Err(journal.rollback(error)),
        }))
    }

    /// DEL.
    pub fn del(&self, container: Container, host: &mut FakeHost) -> Option<Result<(), Error>> {
        let request = self.request(container, "DEL", &self.config)?;
        Some(known(self.plugin.del(&request, host)))
    }

    /// Everything of it.
    pub fn live(&self, host: &mut FakeHost) {
        self.prepare(host);
        host.enter(Container::Own.netns()).expect("it is there");
        let before = host.state();
        let Some(added) = self.add(Container::Own, host) else { return };
        match added {
            Err(error) => {
                let text = error.in_full();
                assert!(!text.contains("while undoing"), "{text}");
                assert_same(&before, &host.state(), &format!("an ADD that failed: {text}"));
            }
            Ok(result) => self.look(&result, host),
        }
        for _ in 0..2 {
            if let Some(deleted) = self.del(Container::Own, host) {
                assert_eq!(deleted.map_err(|error| error.in_full()), Ok(()), "DEL");
                assert_same(&before, &host.state(), "DEL");
            }
        }
    }

    /// Makes what all containers of the network share: by a neighbour with other addresses where the input has those of the
    /// seeds, else by the container itself.
    fn prepare(&self, host: &mut FakeHost) {
        let neighbour = Self { config: of_neighbour(&self.config), args: of_neighbour(&self.args), ..*self };
        if (&neighbour.config, &neighbour.args) != (&self.config, &self.args) {
            neighbour.add(Container::Neighbour, host);
            return;
        }
        self.add(Container::Own, host);
        self.del(Container::Own, host);
    }

    /// What changes nothing, between ADD and DEL.
    fn look(&self, result: &CniResult, host: &mut FakeHost) {
        let made = host.state();
        let Some(add) = self.request(Container::Own, "ADD", &self.config) else { return };
        let Ok(text) = known(result.render(add.version).map_err(Error::from)) else { return };
        let printed = Json::parse(text.as_bytes()).expect("JSON");
        let read = CniResult::parse_prev(&printed, add.version).expect("its own result");
        assert_eq!(read.render(add.version).as_ref(), Ok(&text), "what is printed is read back");
        let config = with_prev_result(add.config(), &text);
        if let Some(request) = self.request(Container::Own, "CHECK", &config) {
            let told = known(self.plugin.check(&request, host)).map_err(|error| error.in_full());
            assert_eq!(told, Ok(()), "CHECK after ADD");
        }
        if let Some(request) = self.request(Container::Own, "ADD", &config) {
            let missing = known(self.plugin.find_missing(&request, host)).map_err(|error| error.in_full());
            assert_eq!(missing.map(|parts| parts.len()), Ok(0), "something is missing after ADD");
        }
        if let Some(request) = self.request(Container::Own, "STATUS", &self.config) {
            drop(known(self.plugin.status(&request, host)));
        }
        assert_same(&made, &host.state(), "looking");
    }
}

/// A text with other addresses.
pub fn of_neighbour(text: &str) -> String {
    text.replace("10.1.2.5", "10.1.2.4").replace("fd00::5", "fd00::4")
}

/// Requires that a machine is as it was.
pub fn assert_same(before: &[String], after: &[String], what: &str) {
    let [gone, new] = [(before, after), (after, before)].map(|(here, there)| -> String {
        here.iter().filter(|line| !there.contains(line)).map(|line| format!("\n    {line}")).collect()
    });
    assert!(before == after, "{what} has taken:{gone}\nand has left:{new}");
}

/// A configuration with the result of the plugins so far.
pub fn with_prev_result(config: &Json, result: &str) -> String {
    let text = crate::spelling::plain(config);
    let start = text.strip_suffix('}').unwrap_or(&text);
    let comma = if start.ends_with('{') { "" } else { "," };
    format!("{start}{comma}\"prevResult\":{result}}}")
}

/// What a request came to, which is never an error of the plugin itself; its message is one line.
pub fn known<T>(result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        assert_ne!(error.code(), Code::Internal, "{}", error.in_full());
        assert!(!error.to_string().is_empty(), "an error without a message");
    }
    result
}
