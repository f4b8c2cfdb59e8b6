//! A container, and what the runtime and its own process do with it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use cni_conformance::network::Network as Observed;
use cni_conformance::{Attachment, Chain, Container, Namespace, PortMapping, Runtime, Spelling, result_cache, traffic};
use serde_json::Value;

use crate::context::{Context, DEADLINE};
use crate::id_server::{self, IdServer};
use crate::networks::NetworkTemplate;

/// The external address of the host.
const HOST: IpAddr = IpAddr::V4(cni_conformance::Outside::HOST_V4);

/// How long to wait for an answer. One comes within milliseconds, unless the processors are so busy with other work that
/// the process in the container does not run; then three seconds have not been enough.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the runtime repeats a call that failed in the reference's plugins, or timed out.
const TRIES: usize = 20;

/// A container.
#[derive(Debug)]
pub struct SoakContainer<'n> {
    pub id: String,
    pub network: &'n NetworkTemplate,
    pub attachment: Attachment,
    /// The device of the host for this container.
    device: String,
    /// The named namespace; `None` when the name is removed.
    name: Option<Container>,
    /// Its process; `None` when it has ended.
    server: Option<IdServer>,
    pub port: Option<u16>,
    /// The interface was renamed from inside.
    pub is_renamed: bool,
    /// The reference's plugins added it.
    pub is_of_reference: bool,
}

/// The plugins that are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Implementation {
    Ours,
    Reference,
}

/// The properties of a new container.
pub struct ContainerSpec<'a, 'n> {
    pub id: String,
    /// The name of its namespace, which another container may have had before.
    pub netns_name: &'a str,
    pub network: &'n NetworkTemplate,
    pub args: String,
    pub device: String,
    pub port: Option<u16>,
}

impl<'n> SoakContainer<'n> {
    /// Makes the namespace and starts its process; calls no plugin.
    pub fn create(spec: ContainerSpec<'_, 'n>, context: &Context<'_>) -> Self {
        let ContainerSpec { id, netns_name, network, args, device, port } = spec;
        let container = Container::create(netns_name, context.search_path());
        let server = IdServer::start(&container, &id);
        let mut attachment = Attachment::new(&id, &container).args(&args);
        if let Some(port) = port.filter(|_| network.has_ports) {
            attachment = attachment.ports(&[PortMapping::new(port, id_server::PORT, "tcp")], Spelling::Go);
        }
        if network.needs_device() {
            make_device(&device, context);
        }
        Self {
            id,
            network,
            attachment,
            device,
            name: Some(container),
            server: Some(server),
            port: port.filter(|_| network.has_ports),
            is_renamed: false,
            is_of_reference: false,
        }
    }

    /// Its namespace, found by its process.
    fn namespace(&self, context: &Context<'_>) -> Namespace {
        Namespace::at(&self.id, &self.process_path(), context.search_path())
    }

    /// The path of its namespace in `/proc`.
    pub fn process_path(&self) -> String {
        self.server.as_ref().expect("its process lives").path()
    }

    /// The name of its namespace below `/run/netns`, unless it was removed.
    pub fn netns_name(&self) -> Option<String> {
        self.name.as_ref().map(|container| container.name().to_owned())
    }

    fn runtime<'s>(&self, implementation: Implementation, context: &Context<'s>) -> Runtime<'s> {
        context.runtime(self.network, &self.device, implementation == Implementation::Reference).deadline(DEADLINE)
    }

    /// Calls ADD as libcni does, and writes the result cache.
    pub fn add(&mut self, implementation: Implementation, context: &Context<'_>) -> Result<(), String> {
        let _no_flush = context.shared.rules.read().expect("no holder panics with it");
        let runtime = self.runtime(implementation, context);
        for _ in 0..TRIES {
            let chain = runtime.add(&mut self.attachment);
            if chain.succeeded() {
                self.is_of_reference = implementation == Implementation::Reference;
                result_cache::store(runtime.list(), &self.attachment);
                context.note_added(&self.id);
                return Ok(());
            }
            if !gave_up_waiting(&chain) && implementation == Implementation::Ours {
                return Err(chain.to_string());
            }
            // As runtimes do.
            drop(runtime.del(&self.attachment));
        }
        Err(format!("{TRIES} ADDs have failed"))
    }

    /// Calls ADD, and kills it with its runtime: nothing is cached.
    pub fn add_killed(&mut self, after: Duration, context: &Context<'_>) {
        let _no_flush = context.shared.rules.read().expect("no holder panics with it");
        let killed_at = Instant::now() + after;
        drop(self.runtime(Implementation::Ours, context).killed_at(killed_at).add(&mut self.attachment));
        self.attachment.result = None;
    }

    /// Calls DEL, and kills it.
    pub fn del_killed(&self, after: Duration, context: &Context<'_>) {
        context.note_ending(&self.id);
        drop(self.runtime(Implementation::Ours, context).killed_at(Instant::now() + after).del(&self.attachment));
    }

    /// Calls DEL until it succeeds, as runtimes do, and our DEL once more: the reference's may fail the second time.
    pub fn del(&self, implementation: Implementation, context: &Context<'_>) -> Result<(), String> {
        context.note_ending(&self.id);
        let runtime = self.runtime(implementation, context);
        for turn in 0..TRIES {
            let chain = runtime.del(&self.attachment);
            if chain.succeeded() {
                result_cache::remove(runtime.list(), &self.attachment);
                if implementation == Implementation::Reference {
                    return Ok(());
                }
                let again = runtime.del(&self.attachment);
                return if again.succeeded() { Ok(()) } else { Err(format!("a second DEL: {again}")) };
            }
            if turn + 1 == TRIES || !gave_up_waiting(&chain) && implementation == Implementation::Ours {
                return Err(chain.to_string());
            }
        }
        Ok(())
    }

    /// Removes the name of the namespace; the process keeps running.
    pub fn remove_netns_name(&mut self) {
        if let Some(container) = self.name.take() {
            container.remove();
        }
    }

    /// Ends the process and removes the name, so that the namespace ends.
    pub fn end_process(&mut self, context: &Context<'_>) {
        context.note_ending(&self.id);
        self.remove_netns_name();
        self.server = None;
    }

    /// Ends the process and the namespace, and removes the device.
    pub fn end(mut self, context: &Context<'_>) {
        self.end_process(context);
        if self.network.needs_device() {
            remove_device(&self.device, context);
        }
    }

    /// Renames the interface from inside.
    pub fn rename(&mut self, context: &Context<'_>) {
        let renamed = self.namespace(context).exec(&["ip", "link", "set", "eth0", "name", "lan7"]);
        // Old kernels do not rename a link that is up.
        self.is_renamed |= renamed.code == Some(0);
    }

    /// The addresses in the result of ADD.
    pub fn given(&self) -> Vec<IpAddr> {
        let ips = self.attachment.result.as_ref().and_then(|result| result["ips"].as_array());
        let texts = ips.into_iter().flatten().filter_map(|ip: &Value| ip["address"].as_str()?.split('/').next());
        texts.map(|text| text.parse().expect("an address")).collect()
    }

    /// The addresses of its interfaces.
    pub fn addresses(&self, context: &Context<'_>) -> BTreeSet<IpAddr> {
        let found = Observed::observe(&self.namespace(context)).addresses;
        found.iter().map(|address| address.ip).filter(|ip| Context::is_ours(*ip)).collect()
    }

    /// Verifies that it has its addresses, and answers connections to them.
    pub fn verify(&self, context: &Context<'_>) -> Result<(), String> {
        let found = self.addresses(context);
        if let Some(missing) = self.given().into_iter().find(|address| !found.contains(address)) {
            return Err(format!("{} of {} has lost {missing}; it has {found:?}", self.id, self.network.name));
        }
        let Some(router) = context.router(self.network) else { return Ok(()) };
        for address in self.given() {
            self.expect_answer(router, SocketAddr::new(address, id_server::PORT))?;
        }
        Ok(())
    }

    /// Verifies also its host port, ping and CHECK.
    pub fn verify_all(&self, context: &Context<'_>) -> Result<(), String> {
        self.verify(context)?;
        if let Some(router) = context.router(self.network) {
            let unanswered = self.given().into_iter().find(|address| !traffic::ping(router, *address, PATIENCE));
            if let Some(address) = unanswered {
                return Err(format!("{} of {} does not answer a ping at {address}", self.id, self.network.name));
            }
        }
        if let Some(port) = self.port {
            self.expect_answer(&context.outside, SocketAddr::new(HOST, port))?;
        }
        // CHECK does not find a renamed interface, and our CHECK does not fit what the reference made.
        if !self.is_renamed && !self.is_of_reference && self.has_name() {
            let chain = self.runtime(Implementation::Ours, context).check(&self.attachment);
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
                let (network, from) = (&self.network.name, from.name());
                Err(format!("{} of {network} does not answer {from} at {to}: {error}; load: {}", self.id, load()))
            }
        }
    }

    pub fn has_name(&self) -> bool {
        self.name.is_some()
    }
}

/// The load of the machine, proc_loadavg(5).
fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().trim_end().to_owned()
}

/// Whether a plugin timed out while waiting for firewalld or a lock.
fn gave_up_waiting(chain: &Chain) -> bool {
    let text = chain.to_string();
    ["did not answer within", "gave up after"].iter().any(|words| text.contains(words))
}

/// The bridge to which all devices are connected.
pub const DEVICES: &str = "devices0";

/// Makes a device whose peer is a port of the bridge, so that the host reaches its container.
fn make_device(name: &str, context: &Context<'_>) {
    let peer = format!("{name}p");
    context.host.ip(&[
        &format!("link add {name} type veth peer name {peer}"),
        &format!("link set {peer} master {DEVICES}"),
        &format!("link set {peer} up"),
    ]);
}

/// The device may have been deleted with its container.
fn remove_device(name: &str, context: &Context<'_>) {
    drop(context.host.exec(&["ip", "link", "del", &format!("{name}p")]));
}
