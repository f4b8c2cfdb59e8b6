//! A network with a DHCP server, and a host whose containers get addresses from it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use cni_conformance::child::Running;
use cni_conformance::keys::with;
use cni_conformance::{Attachment, Chain, Container, Runtime, Sandbox, binaries};
use serde_json::{Value, json};

/// How long anything may take that takes a moment.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket of the daemon.
pub const SOCKET: &str = "/run/cni/dhcp.sock";

/// What the server writes down.
const LOG: &str = "/run/conformance/server.log";

/// A list whose only plugin is macvlan, on the interface that leads to the server, in the version that Debian's plugins know too.
pub fn list(ipam: &Value) -> Value {
    let ipam = with(&json!({"type": "dhcp"}), ipam);
    json!({"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "macvlan", "master": "up0", "ipam": ipam}]})
}

/// The same in the version that has GC and STATUS.
pub fn newest(mut list: Value) -> Value {
    list["cniVersion"] = json!("1.1.0");
    list
}

/// Starts a program without input.
pub fn start(command: &mut Command) -> Running {
    Running(command.stdin(Stdio::null()).spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}")))
}

/// Sends a program a signal, and waits for its end.
pub fn end(program: &mut Running, signal: &str) -> Option<i32> {
    Command::new("kill").args(["-s", signal, &program.0.id().to_string()]).status().expect("kill");
    program.0.wait().expect("a child").code()
}

pub struct Lan {
    pub sandbox: Sandbox,
    pub server: Container,
    pub list: Value,
    _serving: Running,
    pub daemon: Running,
    flags: Vec<String>,
}

/// A server.
#[derive(Clone, Copy)]
pub enum Server<'a> {
    /// dnsmasq, with more options of its command line.
    Dnsmasq(&'a [&'a str]),
    /// The one of ISC, with leases of so many seconds.
    Isc(u32),
}

/// The addresses that servers give begin with this one.
pub const FIRST: &str = "10.1.2.50";

impl Lan {
    pub fn new(server: Server<'_>, list: Value) -> Self {
        Self::with_flags(server, list, &[])
    }

    pub fn with_flags(server: Server<'_>, list: Value, flags: &[&str]) -> Self {
        let sandbox = Sandbox::new();
        let there = sandbox.container("server");
        sandbox.sh("ip link add up0 type veth peer name srv0 netns server");
        sandbox.sh("ip link set up0 up");
        there.sh("ip link set srv0 up");
        there.sh("ip address add 10.1.2.1/24 dev srv0");
        let serving = serve(server);
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let daemon = daemon(&flags);
        Self { sandbox, server: there, list, _serving: serving, daemon, flags }
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    pub fn try_to_add(&self, name: &str) -> (Container, Attachment, Chain) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        let chain = self.runtime().add(&mut attachment);
        (container, attachment, chain)
    }

    #[track_caller]
    pub fn add(&self, name: &str) -> (Container, Attachment) {
        let (container, attachment, chain) = self.try_to_add(name);
        chain.expect_success();
        (container, attachment)
    }

    #[track_caller]
    pub fn check(&self, attachment: &Attachment) {
        self.runtime().check(attachment).expect_success();
    }

    #[track_caller]
    pub fn del(&self, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
    }

    /// Starts the daemon again.
    pub fn start_again(&mut self) {
        self.daemon = daemon(&self.flags);
    }

    /// Waits for so many lines of the server's log that hold these words.
    #[track_caller]
    pub fn await_log(&self, words: &str, count: usize) {
        let log = || fs::read_to_string(LOG).unwrap_or_default();
        until(
            || log().lines().filter(|line| line.contains(words)).count() >= count,
            || format!("{count} lines with {words:?} in\n{}", log()),
        );
    }

    pub fn log(&self) -> String {
        fs::read_to_string(LOG).unwrap_or_default()
    }

    /// The files in which the daemon keeps leases.
    pub fn records(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/run/cni/dhcp") else { return Vec::new() };
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Waits until something is so. Looks are counted, not time: where the whole machine has been stopped for a while, nobody else went
/// on meanwhile either.
#[track_caller]
pub fn until(is_so: impl Fn() -> bool, what: impl Fn() -> String) {
    let mut looks = PATIENCE.as_millis() / PAUSE.as_millis();
    while !is_so() {
        assert!(looks > 0, "still waiting for {}", what());
        looks -= 1;
        sleep(PAUSE);
    }
}

fn serve(server: Server<'_>) -> Running {
    fs::create_dir_all("/run/conformance").expect("a folder");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "server"]);
    match server {
        Server::Dnsmasq(more) => {
            command.args(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=srv0"]);
            command.args(["--bind-interfaces", "--user=root", "--pid-file=", "--dhcp-authoritative", "--no-ping"]);
            command.args(["--dhcp-leasefile=/run/conformance/leases", "--log-dhcp", &format!("--log-facility={LOG}")]);
            command.args(["--dhcp-range=10.1.2.50,10.1.2.60,255.255.255.0,2m", "--dhcp-sequential-ip"]).args(more);
        }
        Server::Isc(seconds) => {
            let config = format!(
                "authoritative; default-lease-time {seconds}; max-lease-time {seconds}; min-lease-time {seconds};\n\
                 log-facility local7;\n\
                 subnet 10.1.2.0 netmask 255.255.255.0 {{ range 10.1.2.50 10.1.2.60; option routers 10.1.2.1; }}\n"
            );
            fs::write("/run/conformance/dhcpd.conf", config).expect("a file");
            fs::write("/run/conformance/dhcpd.leases", "").expect("a file");
            let log = fs::File::create(LOG).expect("a file");
            command.args(["dhcpd", "-4", "-f", "-d", "--no-pid", "-cf", "/run/conformance/dhcpd.conf"]);
            command.args(["-lf", "/run/conformance/dhcpd.leases", "srv0"]).stderr(log);
        }
    }
    let running = start(&mut command);
    let listens = || {
        let sockets = Command::new("ip").args(["netns", "exec", "server", "ss", "-Hlun", "sport = :67"]).output();
        !sockets.expect("ss is installed").stdout.is_empty()
    };
    until(listens, || format!("the server: {}", fs::read_to_string(LOG).unwrap_or_default()));
    running
}

fn daemon(flags: &[String]) -> Running {
    await_daemon(Command::new(binaries::under_test().join("dhcp")).arg("daemon").args(flags))
}

/// Starts a daemon by a command, and waits until it answers.
#[track_caller]
pub fn await_daemon(command: &mut Command) -> Running {
    let running = start(command);
    until(|| Path::new(SOCKET).exists() && answers(), || "the daemon".to_owned());
    running
}

fn answers() -> bool {
    std::os::unix::net::UnixStream::connect(SOCKET).is_ok()
}
