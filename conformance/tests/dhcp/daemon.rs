//! The daemon as a program: flags, socket, signals, other daemons, and who asks nonsense.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use cni_conformance::child::Running;
use cni_conformance::{Attachment, Network, binaries};
use serde_json::json;

use crate::dhcp::setup::{FIRST, Lan, PATIENCE, SOCKET, Server, await_daemon, end, list, start, until};

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(binaries::under_test().join("dhcp"));
    command.arg("daemon").args(words).stdin(Stdio::null()).output().expect("the daemon")
}

#[test]
fn wrong_flags_and_a_second_daemon_are_refused() {
    let lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    for (words, code, says) in [
        (&["--timeout", "5"][..], 2, "invalid value \"5\" for flag -timeout"),
        (&["-pidfile", "rel"], 1, ""),
        (&[], 1, "Error getting listener: "),
    ] {
        let output = run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && text.contains(says), "{text}");
        assert_eq!(text.contains("-resendtimeout duration"), code == 2, "{text}");
    }
    let (_container, attachment) = lan.add("c1");
    lan.del(&attachment);
}

/// The reference does not start any more.
#[test]
fn the_socket_of_a_killed_daemon_is_no_obstacle_and_that_of_an_ended_one_goes() {
    let mut lan =
        Lan::with_flags(Server::Dnsmasq(&[]), list(&json!({})), &["-pidfile", "/run/dhcp.pid", "--broadcast=true"]);
    assert_eq!(fs::read_to_string("/run/dhcp.pid").expect("a pid file"), lan.daemon.0.id().to_string());
    let mode = fs::metadata(SOCKET).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "root's alone whatever the umask");
    end(&mut lan.daemon, "KILL");
    assert!(Path::new(SOCKET).exists());
    lan.start_again();
    let (_container, attachment) = lan.add("c1");
    lan.del(&attachment);
    assert_eq!(end(&mut lan.daemon, "INT"), Some(0));
    assert!(!Path::new(SOCKET).exists() && !Path::new("/run/dhcp.pid").exists());
}

#[test]
fn a_socket_that_systemd_has_opened_is_used() {
    let mut lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    end(&mut lan.daemon, "TERM");
    let script = "import os,socket,sys\n\
        s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); os.dup2(s.fileno(), 3)\n\
        os.set_inheritable(3, True); os.environ.update(LISTEN_FDS=sys.argv[3], LISTEN_PID=str(os.getpid()))\n\
        os.execv(sys.argv[2], [sys.argv[2], 'daemon'])";
    let program = binaries::under_test().join("dhcp");
    let activated = |fds: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", script, SOCKET]).arg(&program).arg(fds);
        command
    };
    let output = activated("2").output().expect("python3 is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("Too many (2) FDs passed through socket activation"), "{text}");
    fs::remove_file(SOCKET).expect("the socket stays");
    lan.daemon = start(&mut activated("1"));
    until(|| UnixStream::connect(SOCKET).is_ok(), || "the daemon".to_owned());
    let (_container, attachment) = lan.add("c1");
    lan.del(&attachment);
    assert_eq!(end(&mut lan.daemon, "TERM"), Some(0));
    assert!(Path::new(SOCKET).exists(), "it is systemd's");
}

/// Each side says so, in place of waiting or of garbage.
#[test]
fn plugins_and_daemons_of_another_make_are_distinguished() {
    let mut lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    let mut stream = UnixStream::connect(SOCKET).expect("the daemon");
    stream.write_all(b"CONNECT /_goRPC_ HTTP/1.0\n\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 500 the DHCP daemon belongs to other plugins"), "{answer}");
    end(&mut lan.daemon, "TERM");
    let listener = std::os::unix::net::UnixListener::bind(SOCKET).expect("a socket");
    // As Go's server, which answers when it has read a line.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a plugin");
            BufReader::new(&stream).read_until(b'\n', &mut Vec::new()).expect("a line");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("written");
        }
    });
    let (container, attachment, chain) = lan.try_to_add("c1");
    chain.expect_error("macvlan", 104, "belongs to other plugins: stop it, and start the one of these plugins");
    assert!(Network::observe(&container).link("eth0").is_none());
    lan.del(&attachment);
}

#[test]
fn nonsense_is_answered_or_hung_up_on_and_harms_nobody() {
    let lan = Lan::new(Server::Dnsmasq(&[]), list(&json!({})));
    let ask = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(SOCKET).expect("the daemon");
        stream.write_all(bytes).expect("written");
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut answer = Vec::new();
        // A connection that is reset is one that was hung up on.
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(ask(b"\0\0\0\x02{}").contains("does not understand the question"));
    assert!(ask(br#"....{"protocol":2}"#).is_empty());
    let other = br#"{"protocol":2,"verb":"status"}"#;
    let framed = [&u32::try_from(other.len()).expect("short").to_be_bytes()[..], other].concat();
    assert!(ask(&framed).contains("the daemon speaks protocol 1, the plugin 2: restart the daemon"));
    assert!(ask(b"\xff\xff\xff\xff").is_empty());
    assert!(ask(b"").is_empty());
    let (_container, attachment) = lan.add("c1");
    lan.del(&attachment);
}

/// The reference waits for 208 seconds, whatever a runtime thinks of it.
#[test]
fn a_server_that_is_silent_is_not_waited_for_longer_than_the_flags_say() {
    let lan = Lan::with_flags(Server::Dnsmasq(&[]), list(&json!({})), &["-resendtimeout", "2s", "-timeout=1s"]);
    lan.server.sh("ip link set srv0 down");
    let started = Instant::now();
    let (container, _, chain) = lan.try_to_add("c1");
    chain.expect_error("macvlan", 102, "error calling DHCP daemon: no more tries");
    assert!(started.elapsed() < PATIENCE);
    assert!(Network::observe(&container).link("eth0").is_none());
}

/// For interfaces that share a MAC address, as those of ipvlan.
#[test]
fn with_broadcast_the_server_answers_to_everybody() {
    for (flags, addressee) in [(&["-broadcast"][..], "255.255.255.255"), (&[], FIRST)] {
        let lan = Lan::with_flags(Server::Dnsmasq(&[]), list(&json!({})), flags);
        let rule = "add rule inet seen out udp sport 67";
        let watch = format!(
            "add table inet seen; add chain inet seen out {{ type filter hook output priority 0; }}; \
             {rule} counter; {rule} ip daddr {addressee} counter"
        );
        lan.server.exec(&["nft", &watch]).expect_success();
        let (_container, attachment) = lan.add("c1");
        let seen = lan.server.sh("nft list chain inet seen out");
        assert_eq!(
            seen.matches("counter packets 2 ").count(),
            2,
            "an offer and its acknowledgement, to it alone: {seen}"
        );
        lan.del(&attachment);
    }
}

/// A daemon in a container of its own, which sees the host's files below a folder, and its own in their place.
fn start_in_a_container() -> Running {
    let lines = "mkdir -p $1; mount --rbind / $1; mount -t tmpfs none /run/netns; exec $0 daemon -hostprefix $1";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", lines]).arg(binaries::under_test().join("dhcp"));
    await_daemon(command.arg("/run/conformance/host"))
}

#[test]
fn with_hostprefix_socket_and_namespaces_are_the_hosts() {
    let mut lan = Lan::new(Server::Isc(6), list(&json!({})));
    end(&mut lan.daemon, "TERM");
    let container = lan.sandbox.container("c1");
    lan.daemon = start_in_a_container();
    let mut attachment = Attachment::new("c1", &container);
    lan.runtime().add(&mut attachment).expect_success();
    end(&mut lan.daemon, "TERM");
    lan.daemon = start_in_a_container();
    lan.check(&attachment);
    lan.await_log("DHCPACK", 3);
    assert_eq!(lan.log().matches("DHCPDISCOVER").count(), 1, "{}", lan.log());
    lan.del(&attachment);
    lan.await_log("DHCPRELEASE", 1);
}
