//! Adds, checks and deletes a container on a machine in memory, and asserts what must hold for every configuration:
//!
//! - no error is the plugin's own fault (code 999);
//! - a failed ADD leaves nothing, and its message has one line;
//! - after ADD, CHECK passes as long as nothing has changed, and no rule is missing;
//! - DEL removes exactly what ADD made, also the second time; STATUS, CHECK and looking for missing rules change
//!   nothing;
//! - a result can be printed in the version of its configuration, and read back.

use cni_catalog::PluginKind;
use cni_core::error::{Code, Error};
use cni_core::family::Family;
use cni_core::json::Json;
use cni_core::names::IfName;
use cni_core::request::{Call, Environment, Request};
use cni_core::result::{CniResult, Route};
use cni_core::version::Version;
use cni_interface::alias;
use cni_model::link::{Address, Link};
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, NewRoute, Ns, Step, VethPeer};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;
use cni_testkit::{FakeContainer, FakeHost};

/// Two containers of a network, one after the other.
pub struct TwoContainers {
    pub plugin: &'static dyn Plugin,
    /// The configuration, as JSON.
    pub config: String,
    /// `CNI_ARGS`
    pub args: String,
    /// What the IPAM plugin answers.
    pub answer: String,
}

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FuzzContainer {
    /// The one that was there before.
    Neighbour,
    /// The one that is looked at.
    Own,
}

impl FuzzContainer {
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
        (
            "/run/flannel/subnet.env",
            "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
        ),
        ("/etc/services", "http\t80/tcp www # WorldWideWeb\ndomain 53/udp\ndomain 153/tcp\n"),
    ];
    host.administrators_files = files.map(|(path, text)| (path.into(), text.to_owned())).into();
    for container in [FuzzContainer::Neighbour, FuzzContainer::Own] {
        host.set_container(container.netns(), FakeContainer::Present(Some(format!("boot:{}", container.id()))));
        host.enter(container.netns()).expect("it is there");
        if is_chained {
            add_veth(container, &mut host);
        }
    }
    add_device(&mut host);
    add_default_route(&mut host);
    host.clear_log();
    host
}

/// The name of the other end.
const fn outside(container: FuzzContainer) -> &'static str {
    match container {
        FuzzContainer::Own => "veth0",
        FuzzContainer::Neighbour => "veth1",
    }
}

/// Makes the container's `eth0` and its other end, both up, as bridge and ptp do.
fn add_veth(container: FuzzContainer, host: &mut FakeHost) {
    let name = |text: &str| IfName::parse(text).expect("a name");
    let mac = |text: &str| text.parse().expect("a MAC address");
    let last = match container {
        FuzzContainer::Own => "03",
        FuzzContainer::Neighbour => "04",
    };
    let peer = VethPeer { ns: Ns::Host, name: name(outside(container)), mac: mac(&format!("02:00:00:00:00:{last}")) };
    let (kind, mac) = (LinkKind::Veth { peer }, Some(mac("02:00:00:00:00:01")));
    let link = NewLink { name: name("eth0"), kind, mac, mtu: Some(1500), if_present: IfPresent::Refuse };
    host.apply(&Step::CreateLink { ns: Ns::Container, link }).expect("a veth");
    // The kernel has routes only over links that are up.
    for (ns, name) in [(Ns::Container, "eth0"), (Ns::Host, outside(container))] {
        let name = IfName::parse(name).expect("a name");
        host.apply(&Step::SetLink { ns, name, setting: LinkSetting::Up }).expect("the veth is there");
    }
}

fn add_default_route(host: &mut FakeHost) {
    let route = NewRoute { gw: Some([10, 1, 2, 254].into()), ..NewRoute::to(Family::V4.default_route()) };
    let name = IfName::parse("br9").expect("a name");
    host.apply(&Step::AddRoute { ns: Ns::Host, name, route }).expect("the gateway is on the bridge's network");
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
    cni_catalog::entry(plugin.kind()).is_some_and(|entry| entry.kind == PluginKind::Chained)
}

impl TwoContainers {
    /// The request of a command; `None` when it is refused before the plugin sees it.
    pub fn request(&self, container: FuzzContainer, command: &str, config: &str) -> Option<Request> {
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
    pub fn add(&self, container: FuzzContainer, host: &mut FakeHost) -> Option<Result<CniResult, Error>> {
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
    pub fn del(&self, container: FuzzContainer, host: &mut FakeHost) -> Option<Result<(), Error>> {
        let request = self.request(container, "DEL", &self.config)?;
        Some(known(self.plugin.del(&request, host)))
    }

    /// Everything of it.
    pub fn live(&self, host: &mut FakeHost) {
        self.prepare(host);
        self.attach(FuzzContainer::Own, host);
        host.set_ipam(&self.answer);
        host.enter(FuzzContainer::Own.netns()).expect("it is there");
        let before = host.state();
        let Some(added) = self.add(FuzzContainer::Own, host) else { return };
        let is_added = added.is_ok();
        let reported = match added {
            Err(error) => {
                let text = error.in_full();
                let is_reported = text.contains("while undoing") && !self.says("while undoing");
                assert!(!is_reported, "{text}");
                assert_same(&before, &host.state(), &format!("an ADD that failed: {text}"));
                None
            }
            Ok(result) => {
                self.look(&result, host);
                self.with_result(&result)
            }
        };
        for _ in 0..2 {
            if let Some(deleted) = reported.as_ref().unwrap_or(self).del(FuzzContainer::Own, host) {
                // One that cannot be read is refused both times.
                assert!(deleted.is_ok() || !is_added, "DEL: {deleted:?}");
                assert_same(&before, &host.state(), "DEL");
            }
        }
    }

    /// The same with the result of ADD, as runtimes hand it to DEL, if the plugin makes the interface: the interface
    /// that the input names would be another container's.
    fn with_result(&self, result: &CniResult) -> Option<Self> {
        let add = self.request(FuzzContainer::Own, "ADD", &self.config).filter(|_| !is_chained(self.plugin))?;
        add.prev_result().ok().flatten()?;
        let text = known(result.render(add.version).map_err(Error::from)).ok()?;
        let config = with_prev_result(add.config(), &text);
        Some(Self { config, args: self.args.clone(), answer: self.answer.clone(), ..*self })
    }

    /// Makes what all containers of the network share: by a neighbour with other addresses where the input has those of the
    /// seeds, else by the container itself.
    fn prepare(&self, host: &mut FakeHost) {
        let [config, args, answer] = [&self.config, &self.args, &self.answer].map(|text| of_neighbour(text));
        let neighbour = Self { config, args, answer, ..*self };
        let has_own = if is_chained(self.plugin) {
            (&neighbour.config, &neighbour.args) != (&self.config, &self.args)
        } else {
            // A lease is known by its addresses alone.
            neighbour.answer != self.answer
        };
        let (life, container) =
            if has_own { (&neighbour, FuzzContainer::Neighbour) } else { (self, FuzzContainer::Own) };
        host.set_ipam(&life.answer);
        life.attach(container, host);
        life.add(container, host);
        if !has_own {
            self.del(FuzzContainer::Own, host);
        }
    }

    /// Gives the interface that another plugin has made the addresses and routes of that plugin's result.
    pub fn attach(&self, container: FuzzContainer, host: &mut FakeHost) {
        let Some(request) = self.request(container, "ADD", &self.config) else { return };
        if let Ok(at) = request.attachment()
            && is_chained(self.plugin)
        {
            host.change_link(Ns::Host, outside(container), |link| link.alias = Some(alias::of(&at)));
        }
        let Ok(Some(result)) = request.prev_result() else { return };
        host.enter(container.netns()).expect("it is there");
        let ns = Ns::Container;
        let eth0 = (host as &mut dyn Host).link(ns, &IfName::parse("eth0").expect("a name")).expect("known");
        let Some(eth0) = eth0 else { return };
        for ip in &result.ips {
            let address = Address { cidr: ip.address, tentative: false, dad_failed: false };
            if !host.addresses(ns, Some(eth0.index), None).expect("known").contains(&address) {
                host.add_address(ns, "eth0", address);
            }
        }
        add_routes(&result, host);
    }

    /// Whether the input has words of its own.
    fn says(&self, words: &str) -> bool {
        [&self.config, &self.args, &self.answer].into_iter().any(|text| text.contains(words))
    }

    /// What changes nothing, between ADD and DEL.
    fn look(&self, result: &CniResult, host: &mut FakeHost) {
        let made = host.state();
        let Some(add) = self.request(FuzzContainer::Own, "ADD", &self.config) else { return };
        let Ok(text) = known(result.render(add.version).map_err(Error::from)) else { return };
        let printed = Json::parse(text.as_bytes()).expect("JSON");
        let read = CniResult::parse_prev(&printed, add.version).expect("its own result");
        assert_eq!(read.render(add.version).as_ref(), Ok(&text), "what is printed is read back");
        let config = with_prev_result(add.config(), &text);
        if let Some(request) = self.request(FuzzContainer::Own, "CHECK", &config) {
            let reported = known(self.plugin.check(&request, host)).map_err(|error| error.in_full());
            assert_eq!(reported, Ok(()), "CHECK after ADD");
        }
        if let Some(request) = self.request(FuzzContainer::Own, "ADD", &config) {
            let missing = known(self.plugin.find_missing(&request, host));
            assert!(missing.is_ok_and(|parts| parts.is_empty()) || add.version < Version::V0_3_0, "missing after ADD");
        }
        if let Some(request) = self.request(FuzzContainer::Own, "STATUS", &self.config) {
            drop(known(self.plugin.status(&request, host)));
        }
        assert_same(&made, &host.state(), "looking");
    }
}

/// Adds the routes of a result over the container's `eth0`, without those that the kernel refuses.
fn add_routes(result: &CniResult, host: &mut FakeHost) {
    for Route { dst, gw, .. } in &result.routes {
        let of_address =
            result.ips.iter().filter_map(|ip| ip.gateway).find(|gateway| Family::of(*gateway) == dst.family());
        let route = NewRoute { gw: gw.or(of_address), ..NewRoute::to(*dst) };
        let name = IfName::parse("eth0").expect("a name");
        drop(host.apply(&Step::AddRoute { ns: Ns::Container, name, route }));
    }
}

/// A text with other addresses.
pub fn of_neighbour(text: &str) -> String {
    text.replace("10.1.2.5", "10.1.2.4").replace("fd00::5", "fd00::4")
}

/// Requires that a machine is as it was.
pub fn assert_same(before: &[String], after: &[String], what: &str) {
    let [gone, new] = [(before, after), (after, before)].map(|(here, there)| -> String {
        let lost = here.iter().filter(|line| !there.contains(line) && !is_kernels_own(line));
        lost.map(|line| format!("\n    {line}")).collect()
    });
    assert!(gone.is_empty() && new.is_empty(), "{what} has taken:{gone}\nand has left:{new}");
}

/// The addresses of the loopback interface come when it is set up.
fn is_kernels_own(line: &str) -> bool {
    line.contains(" address ") && line.ends_with(" dev lo")
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
