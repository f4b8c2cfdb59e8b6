//! A container, and what a runtime and its own process do with it.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use cni_conformance::network::Network as Observed;
use cni_conformance::{Attachment, Chain, Container, Namespace, PortMapping, Runtime, Spelling, result_cache, traffic};
use serde_json::Value;

use crate::inhabitant::{self, Inhabitant};
use crate::networks::Network;
use crate::stage::{DEADLINE, Stage};

/// The address of the host towards the outside.
const HOST: IpAddr = IpAddr::V4(cni_conformance::Outside::HOST_V4);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often a runtime repeats a call that the reference's plugins, or firewalld, did not manage.
const TRIES: usize = 20;

/// A container.
#[derive(Debug)]
pub struct Guest<'n> {
    pub id: String,
    pub network: &'n Network,
    pub attachment: Attachment,
    /// The device of the host that it gets.
    device: String,
    /// The name of its namespace; none when that is lost.
    name: Option<Container>,
    /// Its process; none when it has ended.
    inhabitant: Option<Inhabitant>,
    pub port: Option<u16>,
    /// Somebody inside has given its interface another name.
    pub is_renamed: bool,
    /// The reference's plugins have added it.
    pub is_of_reference: bool,
}

/// Whose call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Ours,
    Reference,
}

/// What a container is made of.
pub struct Order<'a, 'n> {
    pub id: String,
    /// The name of its namespace, by which another container may have been known.
    pub place: &'a str,
    pub network: &'n Network,
    pub args: String,
    pub device: String,
    pub port: Option<u16>,
}

impl<'n> Guest<'n> {
    /// Makes the namespace and its process; no plugin is called.
    pub fn enter(order: Order<'_, 'n>, stage: &Stage<'_>) -> Self {
        let Order { id, place, network, args, device, port } = order;
        let container = Container::create(place, stage.search_path());
        let inhabitant = Inhabitant::start(&container, &id);
        let mut attachment = Attachment::new(&id, &container).args(&args);
        if let Some(port) = port.filter(|_| network.has_ports) {
            attachment = attachment.ports(&[PortMapping::new(port, inhabitant::PORT, "tcp")], Spelling::Go);
        }
        if network.needs_device() {
            make_device(&device, stage);
        }
        Self {
            id,
            network,
            attachment,
            device,
            name: Some(container),
            inhabitant: Some(inhabitant),
            port: port.filter(|_| network.has_ports),
            is_renamed: false,
            is_of_reference: false,
        }
    }

    /// Its namespace by way of its process.
    fn namespace(&self, stage: &Stage<'_>) -> Namespace {
        Namespace::at(&self.id, &self.process_path(), stage.search_path())
    }

    /// The path by which its process leads to its namespace.
    pub fn process_path(&self) -> String {
        self.inhabitant.as_ref().expect("its process lives").path()
    }

    /// The name below `/run/netns` of its namespace, unless it is lost.
    pub fn place(&self) -> Option<String> {
        self.name.as_ref().map(|container| container.name().to_owned())
    }

    fn runtime<'s>(&self, caller: Caller, stage: &Stage<'s>) -> Runtime<'s> {
        stage.runtime(self.network, &self.device, caller == Caller::Reference).deadline(DEADLINE)
    }

    /// ADD as libcni does it, with a file of the cache at its end.
    pub fn add(&mut self, caller: Caller, stage: &Stage<'_>) -> Result<(), String> {
        let _no_flush = stage.rules.read().expect("nobody panics with it");
        let runtime = self.runtime(caller, stage);
        for _ in 0..TRIES {
            let chain = runtime.add(&mut self.attachment);
            if chain.succeeded() {
                self.is_of_reference = caller == Caller::Reference;
                result_cache::store(runtime.list(), &self.attachment);
                stage.is_born(&self.id);
                return Ok(());
            }
            if !is_late(&chain) && caller == Caller::Ours {
                return Err(chain.to_string());
            }
            // As a runtime does it.
            drop(runtime.del(&self.attachment));
        }
        Err(format!("{TRIES} ADDs have failed"))
    }

    /// ADD that is killed, with the runtime that called it: nothing is cached.
    pub fn add_killed(&mut self, after: Duration, stage: &Stage<'_>) {
        let _no_flush = stage.rules.read().expect("nobody panics with it");
        let killed_at = Instant::now() + after;
        drop(self.runtime(Caller::Ours, stage).killed_at(killed_at).add(&mut self.attachment));
        self.attachment.result = None;
    }

    /// DEL that is killed.
    pub fn del_killed(&self, after: Duration, stage: &Stage<'_>) {
        stage.is_ending(&self.id);
        drop(self.runtime(Caller::Ours, stage).killed_at(Instant::now() + after).del(&self.attachment));
    }

    /// DEL until it succeeds, as a runtime does it, and once more by ours: a second DEL of the reference's may fail.
    pub fn del(&self, caller: Caller, stage: &Stage<'_>) -> Result<(), String> {
        stage.is_ending(&self.id);
        let runtime = self.runtime(caller, stage);
        for turn in 0..TRIES {
            let chain = runtime.del(&self.attachment);
            if chain.succeeded() {
                result_cache::remove(runtime.list(), &self.attachment);
                if caller == Caller::Reference {
                    return Ok(());
                }
                let again = runtime.del(&self.attachment);
                return if again.succeeded() { Ok(()) } else { Err(format!("a second DEL: {again}")) };
            }
            if turn + 1 == TRIES || !is_late(&chain) && caller == Caller::Ours {
                return Err(chain.to_string());
            }
        }
        Ok(())
    }

    /// Takes the name of the namespace away; the process lives on.
    pub fn lose_name(&mut self) {
        if let Some(container) = self.name.take() {
            container.remove();
        }
    }

    /// Ends the process and removes the name, so that nothing keeps the namespace.
    pub fn die(&mut self, stage: &Stage<'_>) {
        stage.is_ending(&self.id);
        self.lose_name();
        self.inhabitant = None;
    }

    /// The same, for a container that is not needed any more.
    pub fn end(mut self, stage: &Stage<'_>) {
        self.die(stage);
        if self.network.needs_device() {
            remove_device(&self.device, stage);
        }
    }

    /// Gives the interface another name, from inside.
    pub fn rename(&mut self, stage: &Stage<'_>) {
        let renamed = self.namespace(stage).exec(&["ip", "link", "set", "eth0", "name", "lan7"]);
        // Old kernels rename no link that is up.
        self.is_renamed |= renamed.code == Some(0);
    }

    /// The addresses that ADD has given.
    pub fn given(&self) -> Vec<IpAddr> {
        let ips = self.attachment.result.as_ref().and_then(|result| result["ips"].as_array());
        let texts = ips.into_iter().flatten().filter_map(|ip: &Value| ip["address"].as_str()?.split('/').next());
        texts.map(|text| text.parse().expect("an address")).collect()
    }

    /// The addresses that its interfaces have.
    pub fn addresses(&self, stage: &Stage<'_>) -> BTreeSet<IpAddr> {
        let found = Observed::observe(&self.namespace(stage)).addresses;
        found.iter().map(|address| address.ip).filter(|ip| Stage::is_ours(*ip)).collect()
    }

    /// Requires that it has its addresses, and that it is reached at them.
    pub fn look(&self, stage: &Stage<'_>) -> Result<(), String> {
        let found = self.addresses(stage);
        if let Some(missing) = self.given().into_iter().find(|address| !found.contains(address)) {
            return Err(format!("{} of {} has lost {missing}; it has {found:?}", self.id, self.network.name));
        }
        let Some(router) = stage.router(self.network) else { return Ok(()) };
        for address in self.given() {
            self.expect_answer(router, SocketAddr::new(address, inhabitant::PORT))?;
        }
        Ok(())
    }

    /// The same with its host port, ping, and CHECK; no rule may be missing.
    pub fn look_closely(&self, stage: &Stage<'_>) -> Result<(), String> {
        self.look(stage)?;
        if let Some(router) = stage.router(self.network) {
            let unanswered = self.given().into_iter().find(|address| !traffic::ping(router, *address, PATIENCE));
            if let Some(address) = unanswered {
                return Err(format!("{} of {} does not answer a ping at {address}", self.id, self.network.name));
            }
        }
        if let Some(port) = self.port {
            self.expect_answer(&stage.outside, SocketAddr::new(HOST, port))?;
        }
        // The interface that CHECK looks for has another name now, and the reference has no CHECK for what it made before.
        if !self.is_renamed && !self.is_of_reference && self.has_name() {
            let chain = self.runtime(Caller::Ours, stage).check(&self.attachment);
            if !chain.succeeded() {
                return Err(format!("CHECK of {}: {chain}", self.id));
            }
        }
        Ok(())
    }

    fn expect_answer(&self, from: &Namespace, to: SocketAddr) -> Result<(), String> {
        let answer = from.run(|| {
            let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        });
        match answer {
            Ok(id) if id == self.id => Ok(()),
            Ok(id) => Err(format!("{id} answers at {to} in place of {}", self.id)),
            Err(error) => {
                Err(format!("{} of {} does not answer {} at {to}: {error}", self.id, self.network.name, from.name()))
            }
        }
    }

    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }
}

/// Whether a plugin has given up waiting, for firewalld or a lock, which it must do after a while.
fn is_late(chain: &Chain) -> bool {
    let said = chain.to_string();
    ["did not answer within", "gave up after"].iter().any(|words| said.contains(words))
}

/// The bridge of devices.
pub const DEVICES: &str = "devices0";

/// A device that ends at the bridge of devices, so that the host reaches who has it.
fn make_device(name: &str, stage: &Stage<'_>) {
    let peer = format!("{name}p");
    stage.host.ip(&[
        &format!("link add {name} type veth peer name {peer}"),
        &format!("link set {peer} master {DEVICES}"),
        &format!("link set {peer} up"),
    ]);
}

/// It may have ended with its container.
fn remove_device(name: &str, stage: &Stage<'_>) {
    drop(stage.host.exec(&["ip", "link", "del", &format!("{name}p")]));
}
