//! firewalld's answers, in the words of firewalld 1.3.

use std::io::{Read, Write};

use super::fake::{FakeBus, FakeReply};

use super::*;

const EXCEPTION: &str = "org.fedoraproject.FirewallD1.Exception";

const LIMIT: Duration = Duration::from_secs(3);

fn address() -> IpAddr {
    IpAddr::from([10, 88, 0, 5])
}

fn trusted() -> Zone {
    Zone::fixed("trusted")
}

/// Asks a firewalld that says this; returns what was asked as well.
fn asking<T>(say: FakeReply, ask: impl FnOnce(&mut SystemFirewalld) -> T) -> (T, Vec<String>) {
    let fake = FakeBus::start(&[say]);
    let mut firewalld = SystemFirewalld::at(fake.address.clone(), LIMIT);
    let answer = ask(&mut firewalld);
    drop(firewalld);
    (answer, fake.heard())
}

fn describe(error: &Error) -> (u32, String) {
    (error.code().number(), error.to_string())
}

/// Of a user without root's rights on the host, as polkit decides. The bus is not asked again.
#[test]
fn firewalld_that_does_not_serve_this_user_counts_as_not_running() {
    let text = "Not Authorized(uid): org.fedoraproject.FirewallD1.config";
    let ((error, is_running), heard) = asking(FakeReply::Fail(EXCEPTION, text), |firewalld| {
        let error = firewalld.add_source(&trusted(), address()).expect_err("refused");
        (error.to_string(), firewalld.is_running())
    });
    assert_eq!((error.ends_with(text), is_running, heard.len()), (true, false, 1), "{error}");
}

#[test]
fn a_source_that_is_not_there_or_elsewhere_counts_as_removed() {
    for text in ["UNKNOWN_SOURCE: '10.88.0.5/32' not in any zone", "ZONE_CONFLICT: 'x' bound to y", "INVALID_ZONE: x"] {
        let (removed, _) = asking(FakeReply::Fail(EXCEPTION, text), |bus| bus.remove_source(&trusted(), address()));
        removed.unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn a_source_that_gets_no_answer_is_rolled_back_in_the_end() {
    let (added, heard) = asking(FakeReply::Nothing, |firewalld| firewalld.add_source(&trusted(), address()));
    let error = added.expect_err("no answer");
    assert_eq!(describe(&error), (11, "failed to add the address 10.88.0.5/32 to trusted zone".to_owned()));
    assert!(error.details().ends_with("did not answer within 3s"), "{}", error.details());
    assert_eq!(
        heard.last().map(String::as_str),
        Some("3 org.fedoraproject.FirewallD1.zone.removeSource(trusted, 10.88.0.5/32)")
    );
}

#[test]
fn a_source_that_was_added_over_a_lost_connection_is_removed_over_another_one() {
    let fake = FakeBus::start(&[FakeReply::HangUp, FakeReply::Text("trusted")]);
    let added = SystemFirewalld::at(fake.address.clone(), LIMIT).add_source(&trusted(), address());
    assert_eq!(added.expect_err("the connection is lost").code(), Code::Io);
    let calls = ["addSource", "removeSource"].map(|name| format!("FirewallD1.zone.{name}(trusted, 10.88.0.5/32)"));
    let heard = fake.heard();
    assert!(heard.iter().zip(&calls).all(|(heard, call)| heard.ends_with(call)) && heard.len() == 2, "{heard:?}");
}

#[test]
fn a_source_that_stays_is_a_failure() {
    let say = FakeReply::Fail(EXCEPTION, "COMMAND_FAILED: nft");
    let (removed, _) = asking(say, |firewalld| firewalld.remove_source(&trusted(), address()));
    let want = "failed to remove the address 10.88.0.5/32 from trusted zone: COMMAND_FAILED: nft";
    assert_eq!(describe(&removed.expect_err("stays")), (104, want.to_owned()));
    let (removed, _) = asking(FakeReply::HangUp, |firewalld| firewalld.remove_source(&trusted(), address()));
    assert_eq!(removed.expect_err("stays").code(), Code::Io);
}

#[test]
fn an_answer_that_makes_no_sense_is_none() {
    for (say, code, text) in [(FakeReply::Text("yes"), 5, ""), (FakeReply::Done, 5, "")] {
        let (found, _) = asking(say, |firewalld| firewalld.has_source(&trusted(), address()));
        let error = found.expect_err("no answer");
        let want = (code, format!("failed to find the address 10.88.0.5/32 in trusted zone{text}"));
        assert_eq!((error.code().number(), error.to_string()), want);
    }
}

#[test]
fn without_a_bus_there_is_no_firewalld_and_no_source() {
    let mut firewalld = SystemFirewalld::at("unix:path=/nonexistent/bus".to_owned(), LIMIT);
    assert!(!firewalld.is_running());
    assert!(!firewalld.has_source(&trusted(), address()).expect("an answer"));
    firewalld.remove_source(&trusted(), address()).expect("gone");
    let error = firewalld.add_source(&trusted(), address()).expect_err("impossible");
    assert_eq!(error.code(), Code::Program);
    assert_eq!(error.details(), "cannot connect to D-Bus at /nonexistent/bus: No such file or directory (os error 2)");
    let fake = FakeBus::start(&[FakeReply::Bool(true)]);
    let list = format!("unix:path=/nonexistent/bus;{}", fake.address);
    assert!(SystemFirewalld::at(list, LIMIT).has_source(&trusted(), address()).expect("an answer"));
    let error = SystemFirewalld::at("/run/dbus".to_owned(), LIMIT).add_source(&trusted(), address());
    let details = error.expect_err("the address makes no sense").details();
    assert!(details.starts_with("cannot connect to D-Bus at /run/dbus: "), "{details}");
}

#[test]
fn a_bus_that_does_not_let_the_client_in_or_makes_no_sense_fails() {
    for (said, problem) in [("REJECTED ANONYMOUS\r\n", "EXTERNAL rejected"), ("nonsense\r\n", "handshake failed")] {
        let fake = FakeBus::with(move |listener| {
            let (mut client, _) = listener.accept().expect("a client");
            client.read_exact(&mut [0; 5]).expect("a question");
            client.write_all(said.as_bytes()).expect("an answer");
            client.read_to_end(&mut Vec::new()).expect("the end");
            Vec::new()
        });
        let added = SystemFirewalld::at(fake.address.clone(), LIMIT).add_source(&trusted(), address());
        let error = added.expect_err("no way in");
        assert_eq!(error.code(), Code::Io);
        assert!(error.details().contains(problem), "{}", error.details());
    }
}
