//! A D-Bus daemon and a firewalld for one sandbox.
//!
//! Both are real, do not use the machine's own bus, and end with the sandbox. `dbus-send` asks firewalld about its
//! zones.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::namespace::Namespace;
use crate::plugin::Invocation;
use crate::sandbox::Sandbox;

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/firewalld";

/// Programs that are needed, and the Debian packages that have them.
const NEEDED: [(&str, &str); 3] =
    [("/usr/bin/dbus-daemon", "dbus-daemon"), ("/usr/bin/dbus-send", "dbus-bin"), ("/usr/sbin/firewalld", "firewalld")];

/// The time limit for a daemon to answer, or to end. Many may start at once on a few processors.
const PATIENCE: Duration = Duration::from_secs(60);

const SYSTEM_BUS: &str = "unix:path=/run/dbus/system_bus_socket";

/// Allows everything to every user; only root is in the sandbox.
const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>ADDRESS</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
"#;

const FIREWALLD: &str = "DefaultZone=public\nFirewallBackend=nftables\nIPv6_rpfilter=no\nCleanupModulesOnExit=no\n";

/// A sandbox with a bus, if it has one, and a firewalld on it, if that runs.
#[derive(Debug)]
pub struct FirewalldHost {
    // Daemons end before the sandbox does.
    firewalld: Option<DaemonProcess>,
    bus: Option<DaemonProcess>,
    address: String,
    host: Namespace,
    sandbox: Option<Sandbox>,
}

impl FirewalldHost {
    /// Uses an existing sandbox, without a bus.
    ///
    /// # Panics If programs are missing; a test must not pass without running.
    pub fn on(sandbox: Sandbox) -> Self {
        let address = format!("unix:path={FOLDER}/bus");
        let mut machine = Self::beside(sandbox.host(), address);
        machine.sandbox = Some(sandbox);
        machine
    }

    /// On a host that somebody else has made, with the bus at the place that all know.
    ///
    /// # Panics If programs are missing.
    pub fn beside_others(host: &Namespace) -> Self {
        fs::create_dir_all("/run/dbus").expect("create the system bus's folder");
        Self::beside(host, SYSTEM_BUS.to_owned())
    }

    fn beside(host: &Namespace, address: String) -> Self {
        for (program, package) in NEEDED {
            assert!(Path::new(program).exists(), "{program} is missing: install the Debian package {package}");
        }
        fs::create_dir(FOLDER).expect("create the daemons' folder");
        Self { firewalld: None, bus: None, address, host: host.clone(), sandbox: None }
    }

    /// A running firewalld.
    pub fn with_firewalld() -> Self {
        let mut machine = Self::on(Sandbox::new());
        machine.start();
        machine
    }

    /// Returns the sandbox.
    ///
    /// # Panics If somebody else has made it.
    pub fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("a sandbox of its own")
    }

    /// Tells a plugin where the bus is, or would be.
    pub fn with_bus(&self, call: Invocation) -> Invocation {
        let (key, value) = self.bus_variable();
        call.env(key, value)
    }

    /// Returns the variable that says where the bus is, or would be.
    pub fn bus_variable(&self) -> (&'static str, &str) {
        ("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
    }

    /// Starts firewalld, and a bus where there is none.
    pub fn start(&mut self) {
        if self.bus.is_none() {
            self.start_bus();
        }
        self.start_firewalld();
    }

    fn start_bus(&mut self) {
        let config = format!("{FOLDER}/bus.conf");
        fs::write(&config, BUS.replace("ADDRESS", &self.address)).expect("write the bus's configuration");
        let arguments = [&format!("--config-file={config}"), "--nofork", "--nopidfile", "--nosyslog"];
        self.bus = Some(DaemonProcess::start("dbus-daemon", &arguments, &self.address));
        self.await_answer("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.GetId");
    }

    /// Starts firewalld; it knows nothing of an earlier one.
    pub fn start_firewalld(&mut self) {
        let config = format!("{FOLDER}/etc");
        fs::create_dir_all(&config).expect("create firewalld's folder");
        fs::write(format!("{config}/firewalld.conf"), FIREWALLD).expect("write firewalld's configuration");
        let log = format!("{FOLDER}/firewalld.own.log");
        let arguments = ["--nofork", "--nopid", "--system-config", &config, "--log-file", &log];
        self.firewalld = Some(DaemonProcess::start("firewalld", &arguments, &self.address));
        self.await_answer(NAME, OBJECT, "org.fedoraproject.FirewallD1.getDefaultZone");
        // A zone's chains are made for its first source, and stay.
        for method in ["addSource", "removeSource"] {
            self.zone(method, &["trusted", "192.0.2.99/32"]);
        }
    }

    /// Does what `firewall-cmd --reload` asks for.
    ///
    /// # Panics
    /// When firewalld refuses.
    #[track_caller]
    pub fn reload_firewalld(&self) {
        let reloaded = self.ask(NAME, OBJECT, "org.fedoraproject.FirewallD1.reload", &[]);
        reloaded.unwrap_or_else(|error| panic!("reload: {error}{}", logs()));
    }

    /// Ends firewalld.
    ///
    /// # Panics
    /// When it does not run.
    pub fn stop_firewalld(&mut self) {
        self.firewalld.take().expect("firewalld runs").stop();
    }

    /// Stops firewalld, or lets it answer again.
    ///
    /// # Panics If it does not run.
    pub fn freeze_firewalld(&self, frozen: bool) {
        self.firewalld.as_ref().expect("firewalld runs").freeze(frozen);
    }

    /// Stops the bus, or lets it answer again.
    ///
    /// # Panics If there is none.
    pub fn freeze_bus(&self, frozen: bool) {
        self.bus.as_ref().expect("a bus runs").freeze(frozen);
    }

    #[track_caller]
    fn await_answer(&self, name: &str, object: &str, method: &str) {
        let started = Instant::now();
        while self.ask(name, object, method, &[]).is_err() {
            assert!(started.elapsed() < PATIENCE, "{name} does not answer: {}", logs());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Calls a method with texts, and returns what `dbus-send` prints of the answer, or of the failure.
    fn ask(&self, name: &str, object: &str, method: &str, texts: &[&str]) -> Result<String, String> {
        let mut argv =
            vec!["dbus-send".to_owned(), format!("--bus={}", self.address), "--print-reply=literal".to_owned()];
        argv.extend([format!("--dest={name}"), object.to_owned(), method.to_owned()]);
        argv.extend(texts.iter().map(|text| format!("string:{text}")));
        let ended = self.host.exec(&argv.iter().map(String::as_str).collect::<Vec<_>>());
        if ended.code == Some(0) { Ok(ended.stdout) } else { Err(ended.stderr) }
    }

    /// Calls a method of firewalld's zones that must succeed.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn zone(&self, method: &str, texts: &[&str]) -> String {
        let method = format!("org.fedoraproject.FirewallD1.zone.{method}");
        self.ask(NAME, OBJECT, &method, texts).unwrap_or_else(|error| panic!("{method} {texts:?}: {error}{}", logs()))
    }

    /// The sources of a zone, in order.
    #[track_caller]
    pub fn sources(&self, zone: &str) -> Vec<String> {
        let answer = self.zone("getSources", &[zone]);
        let words = answer.split_whitespace().filter(|word| word.contains('/'));
        let mut sources: Vec<String> = words.map(str::to_owned).collect();
        sources.sort();
        sources
    }
}

const NAME: &str = "org.fedoraproject.FirewallD1";
const OBJECT: &str = "/org/fedoraproject/FirewallD1";

/// A process that is ended when the test is.
#[derive(Debug)]
struct DaemonProcess(Child);

impl DaemonProcess {
    /// Starts a daemon that is killed even if the test's thread ends without cleaning up.
    fn start(program: &str, arguments: &[&str], bus: &str) -> Self {
        let log =
            || File::options().create(true).append(true).open(format!("{FOLDER}/{program}.log")).expect("open a log");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]).args(arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.env("DBUS_SYSTEM_BUS_ADDRESS", bus);
        command.stdin(Stdio::null()).stdout(log()).stderr(log());
        Self(command.spawn().unwrap_or_else(|error| panic!("start {program}: {error}")))
    }

    fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let started = Instant::now();
        while self.0.try_wait().expect("wait for a daemon").is_none() {
            assert!(started.elapsed() < PATIENCE, "a daemon does not end: {}", logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn freeze(&self, frozen: bool) {
        self.signal(if frozen { Signal::SIGSTOP } else { Signal::SIGCONT });
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).expect("a pid fits")), signal).expect("signal a daemon");
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.signal(Signal::SIGKILL);
            self.0.wait().expect("wait for a killed daemon");
        }
    }
}

/// The log of the daemons.
fn logs() -> String {
    let read = |name| fs::read_to_string(format!("{FOLDER}/{name}")).unwrap_or_default();
    ["dbus-daemon.log", "firewalld.log", "firewalld.own.log"].map(read).join("\n")
}
