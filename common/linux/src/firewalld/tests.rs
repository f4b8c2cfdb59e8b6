//! firewalld's answers, in the words of firewalld 1.3.

use std::io::{Read, Write};

use cni_core::error::{Code, Failure};

use super::fake::{FakeBus, FakeReply};
use super::*;

const EXCEPTION: &str = "org.fedoraproject.FirewallD1.Exception";
const NO_OWNER: &str = "org.freedesktop.DBus.Error.NameHasNoOwner";

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

fn describe(error: &dyn Failure) -> (u32, String) {
    (error.code().number(), error.to_string())
}

#[test]
fn a_source_is_added_once() {
    let set = FakeReply::Fail(EXCEPTION, "ZONE_ALREADY_SET: '10.88.0.5/32' already bound to 'trusted'");
    for (say, want) in [(FakeReply::Text("trusted"), SourceAdded::Now), (set, SourceAdded::Before)] {
        let (added, heard) = asking(say, |firewalld| firewalld.add_source(&trusted(), address()));
        assert_eq!(added.expect("added"), want);
        assert_eq!(heard, ["0 org.fedoraproject.FirewallD1.zone.addSource(trusted, 10.88.0.5/32)"]);
    }
}

#[test]
fn a_source_that_is_refused_is_so_in_the_words_of_firewalld() {
    let unknown = "The name org.fedoraproject.FirewallD1 was not provided by any .service files";
    for (name, text, code) in [
        (EXCEPTION, "ZONE_CONFLICT: '10.88.0.5/32' already bound to a zone", 103),
        (EXCEPTION, "INVALID_ZONE: trusted", 7),
        ("org.freedesktop.DBus.Error.ServiceUnknown", unknown, 104),
    ] {
        let (added, _) = asking(FakeReply::Fail(name, text), |firewalld| firewalld.add_source(&trusted(), address()));
        let want = (code, format!("failed to add the address 10.88.0.5/32 to trusted zone: {text}"));
        assert_eq!(describe(&added.expect_err("refused")), want);
    }
    let (added, _) = asking(FakeReply::Fail(EXCEPTION, ""), |firewalld| firewalld.add_source(&trusted(), address()));
    let want = format!("failed to add the address 10.88.0.5/32 to trusted zone: {EXCEPTION}");
    assert_eq!(describe(&added.expect_err("refused")), (104, want));
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
fn a_source_is_gone_whatever_the_reason() {
    for say in [
        FakeReply::Text("trusted"),
        FakeReply::Fail(EXCEPTION, "UNKNOWN_SOURCE: '10.88.0.5/32' is not in any zone"),
        FakeReply::Fail(EXCEPTION, "ZONE_CONFLICT: remove_source(trusted, 10.88.0.5/32): zos='work'"),
        FakeReply::Fail(EXCEPTION, "INVALID_ZONE: trusted"),
        FakeReply::Fail(NO_OWNER, "Name \"org.fedoraproject.FirewallD1\" does not exist"),
    ] {
        let (removed, heard) = asking(say, |firewalld| firewalld.remove_source(&trusted(), address()));
        removed.expect("gone");
        assert_eq!(heard, ["2 org.fedoraproject.FirewallD1.zone.removeSource(trusted, 10.88.0.5/32)"]);
    }
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
fn a_source_is_found_or_not() {
    for (say, want) in [
        (FakeReply::Bool(true), true),
        (FakeReply::Bool(false), false),
        (FakeReply::Fail(NO_OWNER, "Name \"org.fedoraproject.FirewallD1\" does not exist"), false),
    ] {
        let (found, heard) = asking(say, |firewalld| firewalld.has_source(&trusted(), address()));
        assert_eq!(found.expect("an answer"), want);
        assert_eq!(heard, ["2 org.fedoraproject.FirewallD1.zone.querySource(trusted, 10.88.0.5/32)"]);
    }
    for (say, code, text) in [
        (FakeReply::Fail(EXCEPTION, "INVALID_ZONE: trusted"), 7, ": INVALID_ZONE: trusted"),
        (FakeReply::Text("yes"), 5, ""),
        (FakeReply::Done, 5, ""),
        (FakeReply::Nothing, 11, ""),
    ] {
        let (found, _) = asking(say, |firewalld| firewalld.has_source(&trusted(), address()));
        let error = found.expect_err("no answer");
        let want = (code, format!("failed to find the address 10.88.0.5/32 in trusted zone{text}"));
        assert_eq!((error.code().number(), error.to_string()), want);
    }
}

#[test]
fn firewalld_runs_when_somebody_has_its_name() {
    for (say, want) in
        [(FakeReply::Text(":1.3"), true), (FakeReply::Fail(NO_OWNER, "nobody"), false), (FakeReply::Nothing, false)]
    {
        let (running, heard) = asking(say, Firewalld::is_running);
        assert_eq!(running, want, "{say:?}");
        assert_eq!(heard, ["0 org.freedesktop.DBus.GetNameOwner(org.fedoraproject.FirewallD1)"]);
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
}

#[test]
fn the_first_bus_that_answers_is_used() {
    let fake = FakeBus::start(&[FakeReply::Bool(true)]);
    let list = format!("unix:path=/nonexistent/bus;{}", fake.address);
    assert!(SystemFirewalld::at(list, LIMIT).has_source(&trusted(), address()).expect("an answer"));
}

#[test]
fn an_address_that_makes_no_sense_leads_to_no_bus() {
    let firewalld = SystemFirewalld::at("/run/dbus".to_owned(), LIMIT);
    firewalld.remove_source(&trusted(), address()).expect("gone");
    let error = firewalld.add_source(&trusted(), address()).expect_err("impossible");
    assert!(error.details().starts_with("cannot connect to D-Bus at /run/dbus: "), "{}", error.details());
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

#[test]
fn a_bus_that_says_nothing_at_all_is_given_up() {
    let fake = FakeBus::with(|listener| {
        let _held = listener.accept().expect("a client");
        std::thread::sleep(2 * LIMIT);
        Vec::new()
    });
    let added = SystemFirewalld::at(fake.address.clone(), LIMIT).add_source(&trusted(), address());
    let error = added.expect_err("no answer");
    assert_eq!(error.code(), Code::TryAgain);
    assert!(error.details().ends_with("did not answer within 3s"), "{}", error.details());
}
