//! `dhcp daemon` on Linux: waits for plugins, for answers of DHCP servers, and for the signal to end. It has a single
//! thread, since it enters namespaces.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use cni_dhcp::daemon::flags::USAGE;
use cni_dhcp::daemon::{ConnectionId, Daemon, DaemonHost as _, Flags, FlagsError};
use cni_dhcp::record::LeaseKey;

use cni_linux::output::install_logger;
use machine::LinuxDaemonHost;
use service::OwnSocket;

mod connection;
mod machine;
mod packet;
mod records;
mod service;

/// The exit status for a wrong command line, as of Go's programs.
const USAGE_STATUS: u8 = 2;

/// Runs the daemon until it is to end.
pub fn run(words: &[String]) -> ExitCode {
    let flags = match Flags::parse(words) {
        Ok(flags) => flags,
        Err(FlagsError::Help) => return say(USAGE, ExitCode::SUCCESS),
        Err(error) => return say(&format!("{error}\n{USAGE}"), ExitCode::from(USAGE_STATUS)),
    };
    install_logger("dhcp");
    service::allow_most_descriptors();
    match start(&flags).and_then(|service| service.serve().map_err(cannot_wait)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&format!("{error}\n"), ExitCode::FAILURE),
    }
}

/// A failure to write to standard error cannot be reported anywhere.
fn say(text: &str, status: ExitCode) -> ExitCode {
    let _lost = io::stderr().lock().write_all(text.as_bytes());
    status
}

/// The sockets of the daemon.
struct Service {
    listener: UnixListener,
    end: OwnedFd,
    machine: LinuxDaemonHost,
    daemon: Daemon,
    /// The socket that the daemon has made itself.
    own: Option<OwnSocket>,
    pid_file: Option<String>,
}

fn start(flags: &Flags) -> io::Result<Service> {
    let socket = format!("{}{}", flags.host_prefix, flags.socket);
    let (listener, own) = match service::passed_listener()? {
        Some(listener) => (listener, None),
        None => OwnSocket::listen(Path::new(&socket)).map(|(listener, own)| (listener, Some(own)))?,
    };
    listener.set_nonblocking(true).map_err(cannot_wait)?;
    let end = service::end_signal().map_err(cannot_wait)?;
    let directory = cni_dhcp::leases_of(&socket);
    let mut machine = LinuxDaemonHost::new(flags.host_prefix.clone(), Path::new(&directory));
    let mut daemon = Daemon::new(flags.limits, flags.broadcast);
    let kept = machine.kept();
    let leases = kept.len();
    for record in kept {
        daemon.resume(record, &mut machine);
    }
    if let Some(Err(error)) = flags.pid_file.as_deref().map(write_pid_file) {
        if let Some(own) = own {
            own.remove();
        }
        return Err(error);
    }
    log::info!("{leases} leases are gone on with");
    Ok(Service { listener, end, machine, daemon, own, pid_file: flags.pid_file.clone() })
}

fn cannot_wait(error: io::Error) -> io::Error {
    io::Error::other(format!("the daemon cannot wait for anything: {error}"))
}

fn write_pid_file(path: &str) -> io::Result<()> {
    let failed = |error| io::Error::other(format!("Error writing pidfile {path:?}: {error}"));
    if !path.starts_with('/') {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "path not absolute")));
    }
    fs::write(path, std::process::id().to_string()).map_err(failed)
}

/// A source with input.
enum ReadySource {
    End,
    Listener,
    Connection(ConnectionId),
    Wire(LeaseKey),
}

impl Service {
    fn serve(mut self) -> io::Result<()> {
        loop {
            let ready = self.wait()?;
            for one in ready {
                match one {
                    ReadySource::End => {
                        self.finish();
                        return Ok(());
                    }
                    ReadySource::Listener => self.machine.accept(&self.listener),
                    ReadySource::Connection(asker) => self.read(asker),
                    ReadySource::Wire(key) => self.receive(&key),
                }
            }
            self.daemon.on_time(&mut self.machine);
            for asker in self.machine.broken() {
                self.daemon.gone(asker, &mut self.machine);
            }
        }
    }

    /// Waits until a source has input.
    fn wait(&mut self) -> io::Result<Vec<ReadySource>> {
        let now = self.machine.now();
        let others = [self.machine.silent_until(), self.machine.deaf_until()];
        let due = self.daemon.due(now).into_iter().chain(others.into_iter().flatten()).min();
        let mut what = vec![ReadySource::End];
        let mut fds = vec![self.end.as_fd()];
        if self.machine.has_room() {
            what.push(ReadySource::Listener);
            fds.push(self.listener.as_fd());
        }
        for (asker, fd) in self.machine.connections() {
            what.push(ReadySource::Connection(asker));
            fds.push(fd);
        }
        for (key, fd) in self.machine.wires() {
            what.push(ReadySource::Wire(key.clone()));
            fds.push(fd);
        }
        let can = service::wait(&fds, due.map(|due| due - now))?;
        Ok(what.into_iter().zip(can).filter_map(|(what, can)| can.then_some(what)).collect())
    }

    fn read(&mut self, asker: ConnectionId) {
        match self.machine.read(asker) {
            connection::ReadEvent::Nothing => {}
            connection::ReadEvent::Question(verb) => self.daemon.asked(asker, *verb, &mut self.machine),
            connection::ReadEvent::Odd(answer) => self.machine.answer(asker, &answer),
            connection::ReadEvent::End => {
                self.machine.hang_up(asker);
                self.daemon.gone(asker, &mut self.machine);
            }
        }
    }

    fn receive(&mut self, key: &LeaseKey) {
        for (packet, from) in self.machine.receive(key) {
            self.daemon.received(key, &packet, from, &mut self.machine);
        }
    }

    /// Ends the daemon. Leases stay: the next daemon continues with them.
    fn finish(self) {
        if let Some(path) = &self.pid_file {
            let removed = fs::remove_file(path);
            removed.unwrap_or_else(|error| log::warn!("{path} could not be removed: {error}"));
        }
        if let Some(own) = self.own {
            own.remove();
        }
    }
}
