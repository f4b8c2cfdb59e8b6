//! The commands of a script. `conformance/cases/README.md` has the table.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::always::is_mounted;
use super::format::Standing;
use super::world::{Attached, LIST, Said, World};
use super::{known, words};
use crate::losses::Loss;
use crate::namespace::Namespace;
use crate::runtime::Attachment;
use crate::state::differences;
use crate::traffic::{Echo, Transport, ask, ask_within, ping};
use crate::wait::wait_until;
use crate::{Flavour, PortMapping, Spelling, ports};

/// How long an answer may take that must come, and how long one is waited for that must not come.
const ANSWER: Duration = Duration::from_secs(20);
const NO_ANSWER: Duration = Duration::from_millis(500);

/// Carries out one line.
///
/// # Panics
/// If it does not hold, or is no command: the message says what was expected and what was found.
pub fn run(world: &mut World<'_>, line: &str) {
    let line = known::expand(line, &world.known());
    let (must_fail, line) = line.strip_prefix("! ").map_or((false, line.as_str()), |rest| (true, rest));
    if let Some((at, command)) = line.strip_prefix("sh ").and_then(|rest| rest.split_once(' ')) {
        return shell(world, at, command, must_fail);
    }
    let all = words::split(line).unwrap_or_else(|error| panic!("{error}"));
    let (name, rest) = all.split_first().expect("a line of the script has a word");
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (name.as_str(), rest.as_slice()) {
        ("add", [container, options @ ..]) => add(world, container, options, must_fail),
        ("check", [name, options @ ..]) => {
            relist(world, name, options);
            call(world, name, Call::Check, must_fail);
        }
        ("del", [name, options @ ..]) => {
            relist(world, name, options);
            call(world, name, Call::Del, must_fail);
        }
        ("gc", names) => gc(world, names, must_fail),
        ("status", []) => status(world, must_fail),
        ("refuse", [edits @ .., code, text]) => refuse(world, edits, code, text),
        ("miss", [place, command, text]) => miss(world, place, command, text),
        ("losses", options) => losses(world, options),
        ("set", edits) => edits.iter().for_each(|change| set(world, change)),
        ("end", [container]) => end(world, container),
        ("forget", [name, what]) => forget(world, name, what),
        ("error", [code, text]) => expect_error(&world.said, code, text),
        ("stdout", [pattern]) => expect_match(&world.said.stdout, pattern, must_fail),
        ("stderr", [pattern]) => expect_match(&world.said.stderr, pattern, must_fail),
        ("cmp", [file]) => compare(world, file),
        ("serve", [container, port]) => serve(world, container, port),
        ("reach", [from, target, options @ ..]) => reach(world, from, target, options, must_fail),
        ("ping", [from, address]) => echo(world, from, address, must_fail),
        ("rules", [table, options @ ..]) => rules(world, table, options),
        ("nft", options) => nft(world, options),
        ("routes", [place, options @ ..]) => routes(world, place, options),
        ("write", [path, file]) => write(world, path, file),
        ("plugin", [name, file]) => plugin(world, name, file),
        ("live", [container]) => live(world, container),
        ("keep", []) => world.kept = Some(world.state()),
        ("same", []) => same(world),
        ("restored", []) => world.standing.assert_restored(world.sandbox),
        (name, _) => {
            panic!("there is no command {name:?} with these words: the table in conformance/cases/README.md has all")
        }
    }
}

/// Splits `key=value`.
fn pair(option: &str) -> (&str, &str) {
    option.split_once('=').unwrap_or_else(|| panic!("{option:?} is not KEY=VALUE"))
}

/// A new attachment, and the name of its list, with these options of `add`.
fn wanted(world: &mut World<'_>, name: &str, options: &[&str]) -> (Attachment, Value) {
    let container = world.container(name);
    let (mut attachment, mut list) = (Attachment::new(name, &container), LIST);
    for (key, text) in options.iter().map(|option| pair(option)) {
        match key {
            "ports" => attachment.capabilities = with_ports(text, world.sandbox.flavour()),
            "list" => list = text,
            "ifname" => attachment = attachment.ifname(text),
            "args" => attachment = attachment.args(text),
            "id" => text.clone_into(&mut attachment.container_id),
            "as" => {}
            "netns" => attachment = attachment.netns(text),
            capability => drop(attachment.capabilities.insert(capability.to_owned(), value(text))),
        }
    }
    (attachment, world.list(list).clone())
}

/// JSON, or else a text.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn add(world: &mut World<'_>, name: &str, options: &[&str], must_fail: bool) {
    let (mut attachment, list) = wanted(world, name, options);
    let runtime = world.runtime(&list);
    if world.is_on(Standing::Restored) && !must_fail {
        world.standing.learn(world.sandbox, &runtime, &attachment);
    }
    let before = must_fail.then(|| world.state());
    let chain = runtime.add(&mut attachment);
    world.judge(&chain, must_fail);
    let known_as = options.iter().find_map(|option| option.strip_prefix("as="));
    let by_interface =
        if attachment.ifname == "eth0" { name.to_owned() } else { format!("{name}.{}", attachment.ifname) };
    let known_as = known_as.map_or(by_interface, str::to_owned);
    let is_kept = must_fail && world.attached.iter().any(|one| one.name == known_as);
    if !is_kept {
        world.attached.retain(|one| one.name != known_as);
        world.attached.push(Attached { name: known_as.clone(), list, attachment });
    }
    let Some(before) = before else { return check_standing(world, &known_as) };
    let mut left = differences(&before, &world.state());
    left.retain(|line| line.contains(name) || line.contains("veth"));
    assert!(left.is_empty(), "ADD has failed, and left:\n{}", left.join("\n"));
}

/// `8080:80/tcp`, `8080:80` for tcp and udp, as Nomad asks for it, and `192.0.2.1:8080:80/tcp`, several with commas between them.
/// In the spelling of the SPEC, and in that of Go's runtimes on the legacy flavour.
fn with_ports(text: &str, flavour: Flavour) -> Map<String, Value> {
    let mut mappings = Vec::new();
    for one in text.split(',') {
        let (numbers, protocol) =
            one.split_once('/').map_or((one, None), |(numbers, protocol)| (numbers, Some(protocol)));
        let parse = |number: &str| number.parse().unwrap_or_else(|_| panic!("{number:?} in {one:?} is no port"));
        let (before, container) = numbers.rsplit_once(':').unwrap_or_else(|| panic!("{one:?} is not HOST:CONTAINER"));
        let (address, host) = before.rsplit_once(':').unwrap_or(("", before));
        let (host, container) = (parse(host), parse(container));
        let made = match protocol {
            Some(protocol) => vec![PortMapping::new(host, container, protocol)],
            None => PortMapping::twins(host, container),
        };
        mappings.extend(made.into_iter().map(|mapping| mapping.on(address.trim_matches(['[', ']']))));
    }
    let spelling = if flavour == Flavour::Nft { Spelling::Spec } else { Spelling::Go };
    [("portMappings".to_owned(), ports::render(&mappings, spelling))].into_iter().collect()
}

/// CHECK passes after ADD, and changes nothing.
fn check_standing(world: &mut World<'_>, name: &str) {
    let one = world.attachment(name);
    let has_check = !["0.1.0", "0.2.0", "0.3.0", "0.3.1"].iter().any(|version| one.list["cniVersion"] == *version);
    if world.is_on(Standing::Check) && has_check {
        let runtime = world.runtime(&one.list);
        let before = world.state();
        runtime.check(&one.attachment).expect_success();
        assert_same(&before, &world.state());
    }
}

/// Takes a list as it is now in place of that of ADD.
fn relist(world: &mut World<'_>, name: &str, options: &[&str]) {
    for option in options {
        let list = option.strip_prefix("list=").unwrap_or_else(|| panic!("{option:?} is not list=NAME"));
        world.attachment_mut(name).list = world.list(list).clone();
    }
}

enum Call {
    Check,
    Del,
}

fn call(world: &mut World<'_>, name: &str, call: Call, must_fail: bool) {
    let one = world.attachment(name);
    let runtime = world.runtime(&one.list);
    let chain = match call {
        Call::Check => runtime.check(&one.attachment),
        Call::Del => runtime.del(&one.attachment),
    };
    world.judge(&chain, must_fail);
}

/// GC keeps the attachments that are named.
fn gc(world: &mut World<'_>, names: &[&str], must_fail: bool) {
    let valid: Vec<&Attachment> = names.iter().map(|name| &world.attachment(name).attachment).collect();
    let chain = world.runtime(world.list(LIST)).gc(&valid);
    world.judge(&chain, must_fail);
}

fn status(world: &mut World<'_>, must_fail: bool) {
    let chain = world.runtime(world.list(LIST)).status();
    world.judge(&chain, must_fail);
}

/// ADD with these changes of the list fails so, and changes nothing.
fn refuse(world: &mut World<'_>, edits: &[&str], code: &str, text: &str) {
    let list = world.list(LIST).clone();
    edits.iter().for_each(|change| set(world, change));
    let edited = std::mem::replace(world.lists.get_mut(LIST).expect("the list is there"), list);
    let container = world.container("refused");
    let before = world.state();
    let (runtime, mut attachment) = (world.runtime(&edited), Attachment::new("refused", &container));
    let chain = runtime.add(&mut attachment);
    world.judge(&chain, true);
    expect_error(&world.said, code, text);
    if chain.steps().len() > 1 {
        // Plugins before it have made something.
        runtime.del(&attachment).expect_success();
        world.standing.assert_unchanged_since(&before, world.sandbox);
    } else {
        assert_same(&before, &world.state());
    }
}

/// Of a new container, CHECK misses what this command takes away, says so with code 100, and changes nothing. `$it` is the container.
fn miss(world: &mut World<'_>, at: &str, command: &str, text: &str) {
    add(world, "it", &[], false);
    let names = world.known();
    let at = if at == "it" { "it" } else { at };
    let done = place(world, at).exec(&["sh", "-ec", &known::expand(command, &names)]);
    assert!(done.code == Some(0), "{command}: {}", done.stderr);
    let before = world.state();
    call(world, "it", Call::Check, true);
    expect_error(&world.said, "100", &known::expand(text, &names));
    assert_same(&before, &world.state());
    finish(world, "it");
}

/// Deletes an attachment, and ends its container.
fn finish(world: &mut World<'_>, name: &str) {
    call(world, name, Call::Del, false);
    if let Some(container) = world.containers.remove(name) {
        if is_mounted(&container) {
            container.unmount();
        }
        // The path may be missing by now, or a plain file.
        drop(std::fs::remove_file(container.path()));
    }
    world.attached.retain(|one| one.name != name);
    world.standing.leave(name);
}

/// Requires that nothing has changed.
#[track_caller]
fn assert_same(before: &[String], after: &[String]) {
    let changes = differences(before, after);
    assert!(changes.is_empty(), "this has changed:\n{}", changes.join("\n"));
}

/// DEL, called twice, removes what ADD made, whatever the container or the runtime has lost meanwhile ([`Loss`]), and leaves what others
/// have.
fn losses(world: &mut World<'_>, options: &[&str]) {
    let of_ports: &[Loss] =
        if options.iter().any(|option| option.starts_with("ports=")) { &Loss::OF_PORTS } else { &[] };
    for loss in Loss::ALL.iter().chain(of_ports) {
        let before = world.state();
        add(world, "it", options, false);
        let container = world.container("it");
        let one = world.attachment_mut("it");
        one.attachment = loss.strike(&container, one.attachment.clone());
        for time in ["once", "again"] {
            let one = world.attachment("it");
            let chain = world.runtime(&one.list).del(&one.attachment);
            assert!(chain.succeeded(), "{loss}, DEL {time}: {chain}");
        }
        finish(world, "it");
        world.said.stdout = loss.to_string();
        world.standing.assert_unchanged_since(&before, world.sandbox);
    }
}

/// `bridge.ipam.type=static` sets a key of the first plugin of this type, `cniVersion=1.0.0` one of the list; nothing behind `=` removes it.
fn set(world: &mut World<'_>, change: &str) {
    let (path, text) = pair(change);
    let (list, path) = path.split_once('/').unwrap_or((LIST, path));
    let list = world.lists.get_mut(list).unwrap_or_else(|| panic!("the case has no file {list}.conflist"));
    let mut keys: Vec<&str> = path.split('.').collect();
    let plugins = list["plugins"].as_array_mut().expect("a list has plugins");
    let place = plugins.iter_mut().find(|plugin| plugin["type"] == keys[0]);
    let mut place = match place {
        Some(plugin) if keys.len() > 1 => {
            keys.remove(0);
            plugin
        }
        Some(_) | None => list,
    };
    let last = keys.pop().expect("a path has a key");
    for key in keys {
        place = &mut place[key];
    }
    match text {
        "" => drop(place.as_object_mut().expect("an object").remove(last)),
        text => place[last] = value(text),
    }
}

/// Ends the processes and the namespace of a container, and waits until the kernel has deleted the ends of its veths on the host.
fn end(world: &mut World<'_>, name: &str) {
    let veths: Vec<String> =
        world.known().into_iter().filter(|(key, _)| *key == format!("${name}.veth")).map(|(_, veth)| veth).collect();
    world.end_processes(name);
    world.containers.get(name).unwrap_or_else(|| panic!("there is no container {name:?}")).remove();
    let is_left = |veth: &String| Path::new("/sys/class/net").join(veth).exists();
    wait_until("the host's ends are deleted", || !veths.iter().any(is_left));
}

/// What the runtime has forgotten of an attachment.
fn forget(world: &mut World<'_>, name: &str, what: &str) {
    let attachment = &mut world.attachment_mut(name).attachment;
    match what {
        "result" => attachment.result = None,
        "ports" => attachment.capabilities.clear(),
        "netns" => attachment.netns.clear(),
        "all" => {
            attachment.result = None;
            attachment.capabilities.clear();
            attachment.netns.clear();
        }
        other => panic!("{other:?} cannot be forgotten: result, ports, netns and all can"),
    }
}

fn expect_error(said: &Said, code: &str, text: &str) {
    let error = said.error.as_ref().expect("the command before must fail with a CNI error");
    let has_code = code == "*" || code == error.code.to_string();
    let has_text = error.msg.contains(text) || error.details.contains(text);
    assert!(has_code && has_text, "expected: code {code}, text {text:?}\nfound:    {error:?}");
}

fn expect_match(text: &str, pattern: &str, must_fail: bool) {
    let regex = Regex::new(&format!("(?m){pattern}")).unwrap_or_else(|error| panic!("{pattern:?}: {error}"));
    let not = if must_fail { "no " } else { "" };
    assert!(regex.is_match(text) != must_fail, "expected: {not}line that matches {pattern}\nfound:\n{text}");
}

/// Compares what the last command said with a file: JSON by its values, everything else line by line.
fn compare(world: &World<'_>, file: &str) {
    let names = world.known();
    let want = world.case.file(file).unwrap_or_else(|| panic!("the case has no file {file:?}"));
    let lines = |text: &str| {
        text.lines().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let found = known::collapse(&world.said.stdout, &names);
    let (want, found) = match (serde_json::from_str::<Value>(want), serde_json::from_str::<Value>(&found)) {
        (Ok(want), Ok(found)) => (lines(&format!("{want:#}")), lines(&format!("{found:#}"))),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => (lines(&known::collapse(want, &names)), lines(&found)),
    };
    let changes = differences(&want, &found);
    assert!(changes.is_empty(), "{file} (- expected, + found):\n{}", changes.join("\n"));
}

fn place(world: &mut World<'_>, name: &str) -> Namespace {
    match name {
        "host" => world.sandbox.host().clone(),
        "outside" => (**world.outside.as_ref().expect("the outside is there")).clone(),
        name => (*world.container(name)).clone(),
    }
}

fn serve(world: &mut World<'_>, container: &str, port: &str) {
    let port = port.parse().unwrap_or_else(|_| panic!("{port:?} is no port"));
    let place = place(world, container);
    world.servers.extend(Echo::everywhere(&place, port));
}

/// `reach outside 192.0.2.1:8080 udp as=10.1.0.2`: a server answers, and sees the client under this address.
fn reach(world: &mut World<'_>, from: &str, target: &str, options: &[&str], must_fail: bool) {
    let from = place(world, from);
    let target: SocketAddr = target.parse().unwrap_or_else(|_| panic!("{target:?} is not ADDRESS:PORT"));
    let transport = if options.contains(&"udp") { Transport::Udp } else { Transport::Tcp };
    if must_fail {
        let answer = ask_within(&from, transport, target, NO_ANSWER);
        assert!(answer.is_err(), "{target} must not be reached by {transport}, and answers {answer:?}");
        return;
    }
    let seen = ask(&from, transport, target).unwrap_or_else(|error| panic!("{target} by {transport}: {error}"));
    let want = options.iter().find_map(|option| option.strip_prefix("as="));
    assert!(want.is_none_or(|want| want == seen.ip().to_string()), "the server sees {seen}, not {want:?}");
}

fn echo(world: &mut World<'_>, from: &str, address: &str, must_fail: bool) {
    let (from, address): (_, IpAddr) =
        (place(world, from), address.parse().unwrap_or_else(|_| panic!("{address:?} is no address")));
    let time = if must_fail { NO_ANSWER } else { ANSWER };
    assert!(ping(&from, address, time) != must_fail, "{address} answers: {must_fail}");
}

/// What the script does on the host stays; it is its own.
fn shell(world: &mut World<'_>, name: &str, command: &str, must_fail: bool) {
    let place = place(world, name);
    let before = world.state();
    let done = place.exec(&["sh", "-ec", command]);
    world.standing.rebase(world.sandbox, &before);
    assert!((done.code == Some(0)) != must_fail, "{command}: {:?}\n{}{}", done.code, done.stdout, done.stderr);
    world.said = Said { stdout: done.stdout, stderr: done.stderr, error: None };
}

/// `rules nat dnat`, `rules6 filter`, `rules nat CNI-DN-$web dnat`: the rules of a table, or those with a text, as `iptables -S` prints them.
fn rules(world: &mut World<'_>, table: &str, options: &[&str]) {
    let (program, table) = table.strip_suffix('6').map_or(("iptables", table), |table| ("ip6tables", table));
    let listed = world.sandbox.sh(&format!("{program} --wait -t {table} -S"));
    let own = listed.lines().filter(|line| !line.starts_with("-P "));
    show(world, own, options);
}

/// `nft 'inet cni_plugins_masquerade' masq`: a table as `nft list` prints it; without a table, all.
fn nft(world: &mut World<'_>, options: &[&str]) {
    let (table, options) = options.split_first().map_or(("", options), |(table, rest)| (*table, rest));
    let listed = world.sandbox.sh(&format!("nft --stateless list table {table}"));
    show(world, listed.lines(), options);
}

/// Keeps lines as what was said, those with a text if there is one, and compares them with a file if there is one.
fn show<'l>(world: &mut World<'_>, lines: impl Iterator<Item = &'l str>, options: &[&str]) {
    let file = options.last().filter(|name| world.case.file(name).is_some());
    let part = options.first().filter(|part| Some(part) != file.as_ref());
    let kept = lines.filter(|line| part.is_none_or(|part| line.contains(part)));
    let stdout: String = kept.map(|line| format!("{line}\n")).collect();
    world.said = Said { stdout, ..Said::default() };
    if let Some(file) = file {
        compare(world, file);
    }
}

fn write(world: &mut World<'_>, path: &str, file: &str) {
    let text = world.case.file(file).unwrap_or_else(|| panic!("the case has no file {file:?}")).to_owned();
    let before = world.state();
    let folder = Path::new(path).parent().expect("a path has a folder");
    std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    std::fs::write(path, text).unwrap_or_else(|error| panic!("write {path}: {error}"));
    world.standing.rebase(world.sandbox, &before);
}

/// The routes of a place, of both families, sorted; those of link-local addresses are left out.
fn routes(world: &mut World<'_>, at: &str, options: &[&str]) {
    let place = place(world, at);
    let listed = place.sh("ip -4 route") + &place.sh("ip -6 route");
    let mut lines: Vec<&str> = listed.lines().map(str::trim).filter(|line| !line.starts_with("fe80")).collect();
    lines.sort_unstable();
    show(world, lines.into_iter(), options);
}

/// A shell script that plays a plugin, beside those under test.
fn plugin(world: &mut World<'_>, name: &str, file: &str) {
    let text = world.case.file(file).unwrap_or_else(|| panic!("the case has no file {file:?}"));
    world.folder = Some(crate::stand_in::install(name, text));
}

/// A process of the container, which ends with the case or by `end`.
fn live(world: &mut World<'_>, name: &str) {
    let container = world.container(name);
    let process = container.run(|| Command::new("sleep").arg("1000").spawn().expect("start sleep"));
    world.processes.push((name.to_owned(), process));
}

/// Containers that came later do not count.
fn same(world: &World<'_>) {
    let kept = world.kept.as_ref().expect("`keep` comes before `same`");
    let place = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let places: BTreeSet<String> = kept.iter().map(|line| place(line)).collect();
    let now: Vec<String> = world.state().into_iter().filter(|line| places.contains(&place(line))).collect();
    assert_same(kept, &now);
}
