//! (set-up) a container whose interface is led into a guest, which is a namespace that can be asked, and a runtime for such lists

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

use cni_conformance::{Attachment, Container, Network, Runtime, Sandbox, Verb};
use serde_json::{Value, json};

/// The `type` in lists.
pub const TAP: &str = "tc-redirect-tap";

/// The container's ID, which is also that of the guest.
pub const ID: &str = "vm1";

/// A host, the container's namespace, and the guest.
pub struct Machine {
    pub container: Container,
    pub guest: Container,
    pub sandbox: Sandbox,
    monitor: RefCell<Option<Monitor>>,
}

/// Opens the device as a monitor does, makes another one in the guest's namespace, and passes frames between them.
const CABLE: &str = r#"
import ctypes, fcntl, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def tap(netns, name):
    if libc.setns(os.open(netns, os.O_RDONLY), 0x40000000):
        raise OSError(ctypes.get_errno(), netns)
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454ca, struct.pack("16sH22x", name.encode(), 0x1002))
    return device
ends = [tap(sys.argv[1], sys.argv[2]), tap(sys.argv[3], "eth0")]
print("open", flush=True)
while True:
    for ready in select.select(ends, [], [])[0]:
        try:
            os.write(ends[ends.index(ready) ^ 1], os.read(ready, 65536))
        except OSError as error:
            if error.errno == 77:
                sys.exit()
"#;

/// The program that has the device open; it ends with this value.
struct Monitor(Child);

impl Monitor {
    fn start(container: &Container, device: &str, guest: &Container) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", CABLE, container.path(), device, guest.path()]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("python3 is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("read what python3 says");
        assert_eq!(line, "open\n", "the device can be opened");
        Self(child)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("kill the monitor: {error}");
        }
    }
}

/// What the monitor of a guest reads in the result.
pub struct GuestConfig {
    pub mac: String,
    /// With the length of its prefix.
    pub address: String,
    pub gateway: IpAddr,
}

impl Machine {
    pub fn new() -> Self {
        let sandbox = Sandbox::new();
        Self {
            container: sandbox.container("c1"),
            guest: sandbox.container("guest"),
            sandbox,
            monitor: RefCell::default(),
        }
    }

    pub fn attachment(&self) -> Attachment {
        Attachment::new(ID, &self.container)
    }

    /// Runs ADD of a list, and starts the guest at the end.
    ///
    /// # Panics
    /// When a plugin fails, or the guest cannot be configured from the result.
    #[track_caller]
    pub fn add(&self, list: &Value, attachment: &mut Attachment) -> Value {
        let result = Runtime::new(&self.sandbox, list.clone()).add(attachment).expect_success().result();
        self.connect(&result);
        self.start_guest(&result);
        result
    }

    /// Runs CHECK of every plugin with the whole result.
    #[track_caller]
    pub fn check(&self, list: &Value, attachment: &Attachment) {
        Runtime::new(&self.sandbox, list.clone()).check(attachment).expect_success();
    }

    /// Runs DEL of every plugin, the last one first.
    #[track_caller]
    pub fn del(&self, list: &Value, attachment: &Attachment) {
        Runtime::new(&self.sandbox, list.clone()).del(attachment).expect_success();
    }

    /// Runs ADD of the last plugin after that of others.
    #[track_caller]
    pub fn redirect(&self, version: &str, attachment: &Attachment, result: &Value) -> Value {
        let list = list(version, json!([{"type": TAP}]));
        Runtime::new(&self.sandbox, list).invocation(Verb::Add, TAP, attachment, Some(result)).run().result()
    }

    /// Starts the monitor: it passes frames between the device and the guest.
    fn connect(&self, result: &Value) {
        let interfaces = result["interfaces"].as_array().expect("interfaces");
        let device = interfaces.iter().find(|one| one["sandbox"] == ID).expect("an entry of the guest");
        let device = device["name"].as_str().expect("a name");
        *self.monitor.borrow_mut() = Some(Monitor::start(&self.container, device, &self.guest));
    }

    pub fn link(&self, name: &str) -> cni_conformance::network::Link {
        Network::observe(&self.container).link(name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    /// Configures the guest from the result alone, as its monitor does.
    fn start_guest(&self, result: &Value) {
        let GuestConfig { mac, address, gateway } = guest_config(result);
        self.guest.sh("ip link set lo up");
        self.guest.sh(&format!("ip link set eth0 address {mac} up"));
        self.guest.sh(&format!("ip addr add {address} dev eth0"));
        for route in result["routes"].as_array().into_iter().flatten() {
            let via = route["gw"].as_str().map_or_else(|| gateway.to_string(), str::to_owned);
            let to = route["dst"].as_str().expect("a route has a destination");
            self.guest.sh(&format!("ip route replace {to} via {via}"));
        }
    }
}

/// The addresses of the container's interface, found as `tc-redirect-tap` finds them: by name and namespace, to the byte.
pub fn addresses(attachment: &Attachment, result: &Value) -> Vec<Value> {
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let is_own = |ip: &&Value| {
        let index = ip["interface"].as_u64().and_then(|index| usize::try_from(index).ok());
        let interface = index.map(|index| interfaces.get(index).unwrap_or_else(|| panic!("index {index}: {result:#}")));
        interface.is_some_and(|one| one["name"] == *attachment.ifname && one["sandbox"] == *attachment.netns)
    };
    result["ips"].as_array().expect("addresses").iter().filter(is_own).cloned().collect()
}

/// The one address of the entry whose sandbox is the guest.
#[track_caller]
pub fn guest_config(result: &Value) -> GuestConfig {
    let interfaces = result["interfaces"].as_array().expect("interfaces");
    let index = interfaces.iter().position(|one| one["sandbox"] == ID).expect("an entry of the guest");
    let ips = result["ips"].as_array().expect("addresses").iter().filter(|ip| ip["interface"] == index);
    let [ip] = ips.collect::<Vec<_>>()[..] else { panic!("one address: {result:#}") };
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("no text: {result:#}")).to_owned();
    let gateway = text(&ip["gateway"]).parse().expect("a gateway");
    GuestConfig { mac: text(&interfaces[index]["mac"]), address: text(&ip["address"]), gateway }
}

/// Where the addresses come from.
pub fn ipams() -> [(&'static str, Value); 2] {
    let routes = json!([{"dst": "0.0.0.0/0"}]);
    [
        ("host-local", json!({"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": routes})),
        (
            "static",
            json!({
                "type": "static", "routes": routes,
                "addresses": [{"address": "10.88.0.2/24", "gateway": "10.88.0.1"}],
            }),
        ),
    ]
}

/// A bridge with everything that guests need.
pub fn bridge(ipam: &Value) -> Value {
    json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": ipam})
}

pub fn list(version: &str, plugins: Value) -> Value {
    json!({"cniVersion": version, "name": "fcnet", "plugins": plugins})
}
