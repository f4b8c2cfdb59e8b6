//! What the other side of a connection may do.

use std::io::Write;
use std::time::{Duration, Instant};

use cni_core::error::{Code, Failure};

use super::fake::{FakeBus, Say, expect_line};
use super::*;

const LIMIT: Duration = Duration::from_millis(300);

const CALL: Call<'_> =
    Call { destination: "a.b", path: "/a", interface: "a.b", member: "c", arguments: &[], start: Start::Refused };

fn call_of(script: &[Say], arguments: &[&str]) -> (Result<Answer, BusError>, Vec<String>) {
    let fake = FakeBus::start(script);
    let mut bus = Bus::connect(&fake.address, LIMIT).expect("connected");
    let answer = bus.call(&Call { arguments, ..CALL });
    drop(bus);
    (answer, fake.heard())
}

#[test]
fn a_method_is_called_and_its_answer_read() {
    for (say, want) in [(Say::Bool(true), Some(true)), (Say::Bool(false), Some(false)), (Say::Text("x"), None)] {
        let (answer, heard) = call_of(&[say], &["one", "", "three"]);
        let Ok(Answer::Value(value)) = answer else { panic!("{say:?}: {answer:?}") };
        assert_eq!(value.boolean().expect("well-formed"), want);
        assert_eq!(heard, ["2 a.b.c(one, , three)"]);
    }
}

#[test]
fn a_failure_is_an_answer() {
    for (text, want) in [("CODE: why", "CODE: why"), ("", "")] {
        let (answer, _) = call_of(&[Say::Fail("a.b.Error", text)], &[]);
        let Ok(Answer::Error { name, text }) = answer else { panic!("{answer:?}") };
        assert_eq!((name.as_str(), text.as_str()), ("a.b.Error", want));
    }
}

#[test]
fn one_connection_serves_many_calls() {
    let fake = FakeBus::start(&[Say::Text("x"), Say::Nothing, Say::Bool(true)]);
    let mut bus = Bus::connect(&fake.address, LIMIT).expect("connected");
    assert!(matches!(bus.call(&CALL), Ok(Answer::Value(_))));
    bus.send(&Call { start: Start::Allowed, ..CALL }).expect("sent");
    assert!(matches!(bus.call(&CALL), Ok(Answer::Value(_))));
    drop(bus);
    assert_eq!(fake.heard(), ["2 a.b.c()", "1 a.b.c()", "2 a.b.c()"]);
}

#[test]
fn an_answer_that_does_not_come_is_given_up() {
    let started = Instant::now();
    let (answer, _) = call_of(&[Say::Nothing], &[]);
    let error = answer.expect_err("no answer");
    assert_eq!(error.code(), Code::TryAgain);
    assert!(error.to_string().ends_with("gave no answer within 300ms"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_bus_that_drips_is_given_up() {
    let fake = FakeBus::with(|stream| {
        while stream.write_all(b"O").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Vec::new()
    });
    let error = Bus::connect(&fake.address, LIMIT).expect_err("no welcome");
    assert!(error.to_string().ends_with("gave no answer within 300ms"), "{error}");
}

#[test]
fn what_is_no_message_is_no_answer() {
    let no_order: &[u8] = b"x\x02\0\x01\0\0\0\0\x01\0\0\0\0\0\0\0";
    let version: &[u8] = b"l\x02\0\x02\0\0\0\0\x01\0\0\0\0\0\0\0";
    let endless: &[u8] = b"l\x02\0\x01\xff\xff\xff\xff\x01\0\0\0\xff\xff\xff\xff";
    let no_fields: &[u8] = b"l\x02\0\x01\0\0\0\0\x01\0\0\0\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
    for bytes in [no_order, version, endless, no_fields] {
        let (answer, _) = call_of(&[Say::Bytes(bytes)], &[]);
        let error = answer.expect_err("no message");
        assert_eq!(error.code(), Code::Io);
        assert!(error.to_string().ends_with("is not understood"), "{error}: {}", error.details());
    }
}

#[test]
fn a_bus_that_ends_is_told_from_one_that_is_absent() {
    let (answer, _) = call_of(&[Say::HangUp], &[]);
    let error = answer.expect_err("hung up");
    assert!(error.to_string().ends_with("cannot be talked to"), "{error}");
    for address in ["unix:path=/nonexistent/bus", "tcp:host=h;unix:abstract=nobody-listens-here"] {
        let error = Bus::connect(address, LIMIT).expect_err("nobody listens");
        assert_eq!(error.code(), Code::Program);
        assert!(error.to_string().starts_with("there is no bus at "), "{error}");
    }
    let error = Bus::connect("tcp:host=h,port=1", LIMIT).expect_err("not here");
    assert_eq!(error.to_string(), r#""tcp:host=h,port=1" has no address of a bus on this machine"#);
}

#[test]
fn the_first_bus_that_answers_is_used() {
    let fake = FakeBus::start(&[Say::Text("x")]);
    let list = format!("unix:path=/nonexistent/bus;{}", fake.address);
    assert!(matches!(Bus::connect(&list, LIMIT).expect("connected").call(&CALL), Ok(Answer::Value(_))));
}

#[test]
fn a_bus_may_refuse_the_user() {
    let fake = FakeBus::with(|stream| {
        let asked = expect_line(stream);
        stream.write_all(b"REJECTED EXTERNAL\r\n").expect("an answer");
        vec![asked]
    });
    let error = Bus::connect(&fake.address, LIMIT).expect_err("refused");
    let user = nix::unistd::geteuid();
    assert!(error.to_string().ends_with(&format!(r#"answers "REJECTED EXTERNAL" to the user {user}"#)), "{error}");
}
