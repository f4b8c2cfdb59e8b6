//! Reasons in the container: nothing listens, or only for itself, or the port belongs to another container.

use cni_conformance::Sandbox;

use super::{ADDRESS, Extra, LOST, add, name_of, probe, serve};

#[test]
fn a_container_that_does_not_listen_is_named() {
    let sandbox = Sandbox::new();
    let _web = add(&sandbox, "web", Extra::Firewall);
    let name = name_of(ADDRESS);
    let says = format!("it came to container {name} at {ADDRESS}:80, where no program listens: start the program");
    probe(&sandbox, &["8080"], LOST, &says);
}

#[test]
fn a_program_that_listens_on_loopback_is_named() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "127.0.0.1:80");
    let name = name_of(ADDRESS);
    let says =
        format!("it came to container {name} at {ADDRESS}:80, whose program listens only on its loopback address: ");
    probe(&sandbox, &["8080"], LOST, &says);
}

#[test]
fn a_port_that_another_container_has_is_named() {
    let sandbox = Sandbox::new();
    let first = add(&sandbox, "first", Extra::Firewall);
    let second = add(&sandbox, "second", Extra::Firewall);
    let _servers = [&first, &second].map(|one| serve(one, "0.0.0.0:80"));
    let [older, younger] = [ADDRESS, "10.22.0.3"].map(name_of);
    let says = format!(
        "port 8080/tcp belongs to container {older}, which asked for it first, and container {younger} waits for it: "
    );
    probe(&sandbox, &[&younger], LOST, &says);
    probe(&sandbox, &[&older], 0, &format!("arrived: container {older} has answered port 8080/tcp"));
}

#[test]
fn rules_that_somebody_has_flushed_are_missing() {
    let sandbox = Sandbox::new();
    let web = add(&sandbox, "web", Extra::Firewall);
    let _server = serve(&web, "0.0.0.0:80");
    let name = name_of(ADDRESS);
    sandbox.sh("iptables -t nat -F PREROUTING");
    probe(
        &sandbox,
        &["8080"],
        LOST,
        &format!("no rule leads port 8080/tcp to container {name}: its rules are missing (portmap: "),
    );
}
