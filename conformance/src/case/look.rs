//! The commands of a script that look: what was said, what rules and routes there are, who answers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use regex_lite::Regex;
use serde_json::Value;

use super::command::place;
use super::world::{Said, World};
use super::{beside, known};
use crate::state::differences;
use crate::traffic::{Echo, Transport, ask_by, ping};
use crate::transcript;

/// How long an answer may take that must come, and how long one is waited for that must not come.
const ANSWER: Duration = Duration::from_secs(20);
const NO_ANSWER: Duration = Duration::from_millis(500);

pub fn expect_error(said: &Said, code: &str, text: &str) {
    let error = said.error.as_ref().expect("the command before must fail with a CNI error");
    let is_known = |code: &str| code == "*" || code.trim_end_matches('+').parse::<u64>().is_ok();
    assert!(code.split(',').all(is_known), "{code:?} is not a list of codes, such as 7, 100+ or *");
    let is = |code: &str| match code.strip_suffix('+') {
        Some(least) => least.parse().is_ok_and(|least: u64| error.code >= least),
        None => code == "*" || code == error.code.to_string(),
    };
    let has_code = code.split(',').any(is);
    let has_text = error.msg.contains(text) || error.details.contains(text);
    assert!(has_code && has_text, "expected: code {code}, text {text:?}\nfound:    {error:?}");
}

pub fn expect_match(text: &str, pattern: &str, must_fail: bool) {
    let regex = Regex::new(&format!("(?m){pattern}")).unwrap_or_else(|error| panic!("{pattern:?}: {error}"));
    match regex.find(text) {
        None if !must_fail => panic!("expected: line that matches {pattern}\nfound:\n{text}"),
        Some(found) if must_fail => {
            let lines = text[..found.start()].lines().count().saturating_sub(1);
            let whole: Vec<&str> = text.lines().skip(lines).take(found.as_str().lines().count().max(1) + 1).collect();
            panic!("expected: no line that matches {pattern}\nfound:\n{}", whole.join("\n"));
        }
        Some(_) | None => {}
    }
}

/// Compares what the last command said with a file: JSON by its values, everything else line by line.
pub fn compare(world: &World<'_>, file: &str) {
    let names = world.known();
    let want = world.case().file(file).unwrap_or_else(|| panic!("the case has no file {file:?}"));
    let lines = |text: &str| {
        text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let found = known::collapse(&world.said.stdout, &names);
    let (want, found) = match (serde_json::from_str::<Value>(want), serde_json::from_str::<Value>(&found)) {
        (Ok(want), Ok(found)) => (lines(&format!("{want:#}")), lines(&format!("{found:#}"))),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => (lines(&known::collapse(want, &names)), lines(&found)),
    };
    assert!(differences(&want, &found).is_empty(), "{file}:\n{}", beside::set(&want, &found));
}

pub fn serve(world: &mut World<'_>, container: &str, port: &str) {
    let port = port.parse().unwrap_or_else(|_| panic!("{port:?} is no port"));
    let place = place(world, container);
    world.servers.extend(Echo::everywhere(&place, port));
}

/// `reach outside 192.0.2.1:8080 udp as=10.1.0.2`: a server answers, and sees the client under this address.
pub fn reach(world: &mut World<'_>, from: &str, target: &str, options: &[&str], must_fail: bool) {
    let at = place(world, from);
    let target: SocketAddr = target.parse().unwrap_or_else(|_| panic!("{target:?} is not ADDRESS:PORT"));
    let transport = if options.contains(&"udp") { Transport::Udp } else { Transport::Tcp };
    let option = |key| options.iter().find_map(|option| option.strip_prefix(key));
    let port = option("port=").map_or(0, |port| port.parse().unwrap_or_else(|_| panic!("{port:?} is no port")));
    let answer = ask_by(&at, transport, target, port, if must_fail { NO_ANSWER } else { ANSWER });
    if must_fail {
        assert!(answer.is_err(), "{target} must not be reached from {from} by {transport}, and answers {answer:?}");
        return;
    }
    let (seen, name) =
        answer.unwrap_or_else(|error| panic!("{target} must be reached from {from} by {transport}: {error}"));
    let (client, server) = (option("as="), option("by="));
    if let Some(want) = client {
        assert_eq!(seen.ip().to_string(), want, "the client that the server sees");
    }
    if let Some(want) = server {
        assert_eq!(name, want, "who answers");
    }
}

pub fn echo(world: &mut World<'_>, from: &str, address: &str, must_fail: bool) {
    let at = place(world, from);
    let address: IpAddr = address.parse().unwrap_or_else(|_| panic!("{address:?} is no address"));
    let (time, found) = if must_fail { (NO_ANSWER, "answers") } else { (ANSWER, "does not answer") };
    assert!(ping(&at, address, time) != must_fail, "{address} {found} {from}");
}

/// `rules nat dnat`, `rules6 filter`, `rules nat CNI-DN-$web dnat`: the rules of a table, or those with a text, as `iptables -S` prints them.
pub fn rules(world: &mut World<'_>, table: &str, options: &[&str]) {
    let (program, table) = table.strip_suffix('6').map_or(("iptables", table), |table| ("ip6tables", table));
    let listed = world.sandbox.sh(&format!("{program} --wait -t {table} -S"));
    let own = listed.lines().filter(|line| !line.starts_with("-P "));
    show(world, own, options);
}

/// `nft 'inet cni_plugins_masquerade' masq`: a table as `nft list` prints it; without a table, all.
pub fn nft(world: &mut World<'_>, options: &[&str]) {
    let (table, options) = options.split_first().map_or(("", options), |(table, rest)| (*table, rest));
    let listed = world.sandbox.sh(&format!("nft --stateless list table {table}"));
    show(world, listed.lines(), options);
}

/// Keeps lines as what was said, those with a text if there is one, and compares them with a file if there is one.
fn show<'l>(world: &mut World<'_>, lines: impl Iterator<Item = &'l str>, options: &[&str]) {
    let file = options.last().filter(|name| world.case().file(name).is_some());
    let is_compared = file.is_some() || world.is_asked || transcript::is_kept();
    assert!(is_compared, "nothing is compared: name a file of the case, or let stdout follow");
    let part = options.first().filter(|part| Some(part) != file.as_ref());
    let kept = lines.filter(|line| part.is_none_or(|part| line.contains(part)));
    let stdout: String = kept.map(|line| format!("{line}\n")).collect();
    world.said = Said { stdout, ..Said::default() };
    if let Some(file) = file {
        compare(world, file);
    }
}

/// The routes of a place, of both families, sorted; those of link-local addresses are left out.
pub fn routes(world: &mut World<'_>, at: &str, options: &[&str]) {
    let place = place(world, at);
    let listed = place.sh("ip -4 route") + &place.sh("ip -6 route");
    let mut lines: Vec<&str> = listed.lines().map(str::trim).filter(|line| !line.starts_with("fe80")).collect();
    lines.sort_unstable();
    show(world, lines.into_iter(), options);
}
