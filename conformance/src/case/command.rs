//! The commands of a script. `conformance/cases/README.md` has the table.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

use cni_catalog::CommandSide;
use serde_json::{Map, Value, json};

use super::always::is_mounted;
use super::world::{Attached, LIST, Said, World};
use super::{known, look, losses, valid, words};
use crate::firewalld::FirewalldHost;
use crate::namespace::Namespace;
use crate::plugin::{Invocation, Verb};
use crate::result_cache;
use crate::runtime::{Attachment, Chain};
use crate::state::differences;
use crate::wait::wait_until;
use crate::{Flavour, PortMapping, Spelling, ports};

/// After these commands the last state still holds: they change nothing, or look themselves.
const KEEP_LAST_STATE: [&str; 9] = ["refuse", "write", "error", "stdout", "stderr", "cmp", "rules", "nft", "routes"];

/// These may stand behind `!`.
const MAY_FAIL: [&str; 10] = ["add", "check", "del", "call", "gc", "status", "stdout", "stderr", "reach", "ping"];

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
    if !KEEP_LAST_STATE.contains(&name.as_str()) {
        world.last = None;
    }
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    assert!(!must_fail || MAY_FAIL.contains(&name.as_str()), "{name} cannot be expected to fail");
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
        ("call", [name, verb, changes @ ..]) => call_alone(world, name, verb, changes, must_fail),
        ("at-once", [count]) => at_once(world, count),
        ("gc", names) => gc(world, names, must_fail),
        ("status", []) => status(world, must_fail),
        ("refuse", [edits @ .., code, text]) => refuse(world, edits, code, text),
        ("gives", [edits @ .., what, text]) => gives(world, edits, what, text),
        ("miss", [place, command, text]) => miss(world, place, command, text),
        ("losses", options) => losses::losses(world, options),
        ("changed", [key, one, other, options @ ..]) => changed(world, key, [one, other], options),
        ("set", edits) => edits.iter().for_each(|change| set(world, change)),
        ("end", [container]) => end(world, container),
        ("alter", [name, change]) => alter(world, name, change),
        ("damage", [name]) => damage(world, name),
        ("valid", [name, parts @ ..]) => valid::expect(world, name, parts),
        ("forget", [name, what]) => forget(world, name, what),
        ("error", [code, text]) => look::expect_error(&world.said, code, text),
        ("stdout", [pattern]) => look::expect_match(&world.said.stdout, pattern, must_fail),
        ("stderr", [pattern]) => look::expect_match(&world.said.stderr, pattern, must_fail),
        ("cmp", [file]) => look::compare(world, file),
        ("serve", [container, port]) => look::serve(world, container, port),
        ("reach", [from, target, options @ ..]) => look::reach(world, from, target, options, must_fail),
        ("ping", [from, address]) => look::echo(world, from, address, must_fail),
        ("rules", [table, options @ ..]) => look::rules(world, table, options),
        ("nft", options) => look::nft(world, options),
        ("routes", [place, options @ ..]) => look::routes(world, place, options),
        ("write", [path, file]) => write(world, path, file),
        ("plugin", [name, file]) => plugin(world, name, file),
        ("live", [container]) => live(world, container),
        ("tool", words) => tool(world, words),
        ("firewalld", [what]) => firewalld(world, what),
        ("path", [folders]) => world.path = Some((*folders).to_owned()),
        ("keep", []) => world.kept = Some(world.state()),
        ("same", []) => same(world),
        ("restored", []) => world.standing.assert_restored(world.sandbox),
        (name, _) => {
            panic!("there is no command {name:?} with these words: the table in conformance/cases/README.md has all")
        }
    }
}

/// Splits `key=value`.
pub fn pair(option: &str) -> (&str, &str) {
    option.split_once('=').unwrap_or_else(|| panic!("{option:?} is not KEY=VALUE"))
}

/// A new attachment, and the name of its list, with these options of `add`.
fn wanted(world: &mut World<'_>, name: &str, options: &[&str]) -> (Attachment, Value) {
    let list = options.iter().find_map(|option| option.strip_prefix("list=")).unwrap_or(LIST);
    let list = world.list(list).clone();
    let mut attachment = world.unattached(name, &list);
    for (key, text) in options.iter().map(|option| pair(option)) {
        match key {
            "ports" => attachment.capabilities = with_ports(text, world.sandbox.flavour()),
            "ifname" => attachment = attachment.ifname(text),
            "args" => attachment = attachment.args(text),
            "id" => text.clone_into(&mut attachment.container_id),
            "as" | "list" => {}
            "netns" => attachment = attachment.netns(text),
            capability => drop(attachment.capabilities.insert(capability.to_owned(), value(text))),
        }
    }
    (attachment, list)
}

/// `CNI_ARGS` as the key `args` of a list gives them, which plugins do not get: `{"MAC": "…", "KEY": {"a": 1}}` is `KEY={"a":1};MAC=…`.
pub fn args_of(list: &Value) -> String {
    let pair = |(key, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}={value}"),
    };
    let pairs: Vec<String> = list["args"].as_object().into_iter().flatten().map(pair).collect();
    pairs.join(";")
}

/// JSON, or else a text.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

pub fn add(world: &mut World<'_>, name: &str, options: &[&str], must_fail: bool) {
    let (mut attachment, list) = wanted(world, name, options);
    let runtime = world.runtime(&list);
    let usual = world.subject().map_or("eth0", |(subject, _)| subject.ifname());
    if world.shares() && !must_fail {
        world.standing.learn(world.sandbox, &runtime, &attachment);
    }
    let before = must_fail.then(|| world.state());
    let chain = runtime.add(&mut attachment);
    world.judge(&chain, must_fail);
    let known_as = options.iter().find_map(|option| option.strip_prefix("as="));
    let by_interface =
        if attachment.ifname == usual { name.to_owned() } else { format!("{name}.{}", attachment.ifname) };
    let known_as = known_as.map_or(by_interface, str::to_owned);
    if world.case().has_tool() && !must_fail {
        result_cache::store(&list, &attachment);
    }
    let is_kept = must_fail && world.attached.iter().any(|one| one.name == known_as);
    if !is_kept {
        world.attached.retain(|one| one.name != known_as);
        world.attached.push(Attached { name: known_as.clone(), list, attachment });
    }
    let Some(before) = before else { return check_standing(world, &known_as) };
    if world.subject().is_some() {
        return;
    }
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
    if world.must_pass_check(&one.list) {
        let runtime = world.runtime(&one.list);
        let before = world.state();
        runtime.check(&one.attachment).expect_success();
        let after = world.state();
        assert_same(&before, &after);
        world.last = Some(after);
    }
}

/// Takes a list as it is now in place of that of ADD.
fn relist(world: &mut World<'_>, name: &str, options: &[&str]) {
    for option in options {
        let list = option.strip_prefix("list=").unwrap_or_else(|| panic!("{option:?} is not list=NAME"));
        let list = world.list(list).clone();
        let one = world.attachment_mut(name);
        if list["args"].is_object() {
            one.attachment.args = args_of(&list);
        }
        one.list = list;
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
    if world.case().has_tool() && matches!(call, Call::Del) {
        result_cache::remove(&one.list, &one.attachment);
    }
    world.judge(&chain, must_fail);
}

/// `call web ADD -CNI_IFNAME CNI_ARGS=a=b stdin={`: calls the last plugin of the list alone, without a variable, with others, and with
/// another standard input. Before ADD, those before it in the list are called.
fn call_alone(world: &mut World<'_>, name: &str, verb: &str, changes: &[&str], must_fail: bool) {
    let verb = Verb::ALL.into_iter().find(|known| known.as_str() == verb);
    let verb = verb.unwrap_or_else(|| panic!("there is no such command: {}", Verb::ALL.map(Verb::as_str).join(", ")));
    let known = world.attached.iter().position(|one| one.name == name).filter(|_| verb != Verb::Add);
    let (mut attachment, list) = match known {
        Some(at) => (world.attached[at].attachment.clone(), world.attached[at].list.clone()),
        None => {
            let list = world.list(LIST).clone();
            (world.unattached(name, &list), list)
        }
    };
    let runtime = world.runtime(&list);
    let (last, earlier) = runtime.plugins().split_last().expect("a list has plugins");
    let kind = |plugin: &Value| plugin["type"].as_str().expect("a plugin has a type").to_owned();
    let mut previous = attachment.result.clone();
    for plugin in earlier.iter().filter(|_| verb == Verb::Add) {
        previous = Some(runtime.invocation(verb, &kind(plugin), &attachment, previous.as_ref()).run().result());
    }
    let mut call = match verb {
        Verb::Version => runtime
            .invocation(verb, &kind(last), &attachment, None)
            .config(&json!({"cniVersion": runtime.list()["cniVersion"]})),
        Verb::Add | Verb::Check | Verb::Del | Verb::Gc | Verb::Status => {
            runtime.invocation(verb, &kind(last), &attachment, previous.as_ref())
        }
    };
    for change in changes {
        call = match (change.strip_prefix('-'), change.split_once('=')) {
            (Some(variable), _) => call.without_env(variable),
            (None, Some(("stdin", text))) => call.stdin(text.as_bytes()),
            (None, Some((variable, text))) => call.env(variable, text),
            (None, None) => panic!("{change:?} is neither -VARIABLE nor VARIABLE=TEXT"),
        };
    }
    let outcome = call.run();
    world.said = Said {
        stdout: outcome.stdout().to_owned(),
        stderr: outcome.stderr().to_owned(),
        error: if must_fail { outcome.reported() } else { None },
    };
    assert!(outcome.succeeded() != must_fail, "it must {}: {outcome}", if must_fail { "fail" } else { "succeed" });
    if verb == Verb::Add && !must_fail {
        attachment.result = Some(outcome.result());
        world.attached.retain(|one| one.name != name);
        world.attached.push(Attached { name: name.to_owned(), list, attachment });
    }
}

/// ADD of so many containers at once, CHECK of each, and DEL of all at once: each has an address that no other has.
fn at_once(world: &mut World<'_>, count: &str) {
    let count: usize = count.parse().unwrap_or_else(|_| panic!("{count:?} is no number"));
    let list = world.list(LIST).clone();
    let mut all: Vec<Attachment> = (1..=count).map(|at| world.unattached(&format!("many{at}"), &list)).collect();
    let runtime = world.runtime(&list);
    let chains: Vec<Chain> = thread::scope(|scope| {
        let running: Vec<_> = all.iter_mut().map(|one| scope.spawn(|| runtime.add(one))).collect();
        running.into_iter().map(|call| call.join().expect("an ADD in its own thread")).collect()
    });
    for chain in &chains {
        chain.expect_success();
    }
    let address = |one: &Attachment| one.result.as_ref().expect("it was added")["ips"][0]["address"].to_string();
    let addresses: BTreeSet<String> = all.iter().map(address).collect();
    assert!(addresses.len() == count, "expected: {count} addresses\nfound:    {addresses:?}");
    for one in &all {
        runtime.check(one).expect_success();
    }
    let chains: Vec<Chain> = thread::scope(|scope| {
        let running: Vec<_> = all.iter().map(|one| scope.spawn(|| runtime.del(one))).collect();
        running.into_iter().map(|call| call.join().expect("a DEL in its own thread")).collect()
    });
    for chain in &chains {
        chain.expect_success();
    }
}

/// `alter web ips.0.address=10.1.0.9/24`: the runtime remembers something else of the result.
fn alter(world: &mut World<'_>, name: &str, change: &str) {
    let (path, text) = pair(change);
    let mut place = world.attachment_mut(name).attachment.result.as_mut().expect("the runtime has a result");
    for key in path.split('.') {
        place = match key.parse::<usize>() {
            Ok(at) => place.get_mut(at).unwrap_or_else(|| panic!("the result has no {path}")),
            Err(_) => &mut place[key],
        };
    }
    *place = value(text);
}

/// Removes what the plugin has made beside the result.
fn damage(world: &mut World<'_>, name: &str) {
    let damage =
        world.subject().and_then(|(subject, _)| subject.damage()).expect("the case is for plugins that say how");
    let end = format!("${name}.veth");
    let end = world.known().into_iter().find(|(known, _)| *known == end).map(|(_, text)| text).unwrap_or_default();
    let command = damage.command.replace("HOST_END", &end);
    let words = ["sh", "-ec", &command];
    match damage.side {
        CommandSide::Host => world.sandbox.host().must(&words),
        CommandSide::Container => world.container(name).must(&words),
    };
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

/// Changes the list, and returns the former one with the options of ADD among the changes.
pub fn edit<'e>(world: &mut World<'_>, edits: &[&'e str]) -> (Value, Vec<&'e str>) {
    let list = world.list(LIST).clone();
    let (options, changes): (Vec<&str>, Vec<&str>) =
        edits.iter().partition(|edit| ["args=", "ifname="].iter().any(|option| edit.starts_with(option)));
    changes.iter().for_each(|change| set(world, change));
    (list, options)
}

/// ADD with these changes of the list fails so, and changes nothing.
fn refuse(world: &mut World<'_>, edits: &[&str], code: &str, text: &str) {
    let (list, options) = edit(world, edits);
    let (mut attachment, edited) = wanted(world, "refused", &options);
    world.lists.insert(LIST.to_owned(), list);
    let before = world.state_before();
    let runtime = world.runtime(&edited);
    let chain = runtime.add(&mut attachment);
    world.judge(&chain, true);
    look::expect_error(&world.said, code, text);
    if chain.steps().len() > 1 {
        // Plugins before it have made something.
        runtime.del(&attachment).expect_success();
        world.standing.assert_unchanged_since(&before, world.sandbox);
    } else {
        let after = world.state();
        assert_same(&before, &after);
        world.last = Some(after);
    }
}

/// With these changes of the list, ADD of a new container gives it just this: `ips` or `routes` of the result, or what a command in it
/// prints, in one line.
fn gives(world: &mut World<'_>, edits: &[&str], what: &str, text: &str) {
    let before = world.state();
    let (list, mut options) = edit(world, edits);
    options.push("as=it");
    add(world, "it", &options, false);
    let result = &world.attachment("it").attachment.result;
    let of_result = |to: &str, by: &str| {
        let texts = |one: &Value| [to, by].map(|key| one[key].as_str().map(str::to_owned)).into_iter().flatten();
        let all = result.as_ref().and_then(|result| result[what].as_array()).into_iter().flatten();
        all.map(|one| texts(one).collect::<Vec<_>>().join(" via ")).collect::<Vec<_>>()
    };
    let found = match what {
        "ips" => of_result("address", "gateway"),
        "routes" => of_result("dst", "gw"),
        command => {
            let done = place(world, "it").exec(&["sh", "-ec", command]);
            done.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        }
    };
    assert!(found.join(", ") == text, "expected: {text}\nfound:    {}", found.join(", "));
    world.lists.insert(LIST.to_owned(), list);
    finish(world, "it");
    world.standing.assert_unchanged_since(&before, world.sandbox);
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
    look::expect_error(&world.said, "100", &known::expand(text, &names));
    assert_same(&before, &world.state());
    finish(world, "it");
}

/// Deletes an attachment, and ends its container.
pub fn finish(world: &mut World<'_>, name: &str) {
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

/// ADD with one value of a key, and DEL with another, leaves nothing, nor the other way round, unless ADD is possible but with the first.
fn changed(world: &mut World<'_>, key: &str, [one, other]: [&str; 2], options: &[&str]) {
    world.container("it");
    let (list, before) = (world.list(LIST).clone(), world.state());
    let ways = if options.contains(&"one-way") { 1 } else { 2 };
    for (at_add, at_del) in [(one, other), (other, one)].into_iter().take(ways) {
        set(world, &format!("{key}={at_add}"));
        let (mut attachment, added) = wanted(world, "it", &[]);
        let runtime = world.runtime(&added);
        world.standing.learn(world.sandbox, &runtime, &attachment);
        runtime.add(&mut attachment).expect_success();
        set(world, &format!("{key}={at_del}"));
        world.runtime(world.list(LIST)).del(&attachment).expect_success();
        world.standing.assert_unchanged_since(&before, world.sandbox);
        world.lists.insert(LIST.to_owned(), list.clone());
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
        "" => {
            let keys =
                place.as_object_mut().unwrap_or_else(|| panic!("{change}: there is no object that has {last:?}"));
            keys.remove(last);
        }
        text => place[last] = value(text),
    }
}

/// Ends the processes and the namespace of a container, and waits until the kernel has deleted the ends of its veths on the host.
pub fn end(world: &mut World<'_>, name: &str) {
    let known = world.known().into_iter().filter(|(key, _)| *key == format!("${name}.veth")).map(|(_, veth)| veth);
    let links = world.sandbox.sh("ip -o link show type veth");
    let leads_there =
        |line: &&str| line.split_whitespace().skip_while(|word| *word != "link-netns").nth(1) == Some(name);
    let name_of = |line: &str| line.split([' ', '@']).nth(1).map(str::to_owned);
    let veths: Vec<String> = known.chain(links.lines().filter(leads_there).filter_map(name_of)).collect();
    world.end_processes(name);
    let container = world.containers.get(name).unwrap_or_else(|| panic!("there is no container {name:?}"));
    // The script may have removed the name already.
    if is_mounted(container) {
        container.remove();
    }
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
        "args" => attachment.args.clear(),
        "all" => ["result", "ports", "netns"].iter().for_each(|part| forget(world, name, part)),
        other => panic!("{other:?} cannot be forgotten: result, ports, netns, args and all can"),
    }
}

pub fn place(world: &mut World<'_>, name: &str) -> Namespace {
    match name {
        "host" => world.sandbox.host().clone(),
        "outside" => (**world.outside.as_ref().expect("the outside is there")).clone(),
        name => (*world.container(name)).clone(),
    }
}

/// What the script does on the host stays; it is its own.
fn shell(world: &mut World<'_>, name: &str, command: &str, must_fail: bool) {
    let place = place(world, name);
    let before = (!world.is_asked).then(|| world.state_before());
    let done = place.exec(&["sh", "-ec", command]);
    world.last = before.map(|before| world.standing.rebase(world.sandbox, &before));
    let status = done.code.map_or_else(|| "by a signal".to_owned(), |code| format!("with status {code}"));
    let expected = if must_fail { "it must fail" } else { "it must succeed" };
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!((done.code == Some(0)) != must_fail, "{expected}, and ended {status}: {command}\n{said}");
    world.said = Said { stdout: done.stdout, stderr: done.stderr, error: None };
}

fn write(world: &mut World<'_>, path: &str, file: &str) {
    let text = world.case().file(file).unwrap_or_else(|| panic!("the case has no file {file:?}")).to_owned();
    let before = world.state_before();
    let folder = Path::new(path).parent().expect("a path has a folder");
    std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    std::fs::write(path, text).unwrap_or_else(|error| panic!("write {path}: {error}"));
    world.last = Some(world.standing.rebase(world.sandbox, &before));
}

/// A shell script that plays a plugin, beside those under test.
fn plugin(world: &mut World<'_>, name: &str, file: &str) {
    let text = world.case().file(file).unwrap_or_else(|| panic!("the case has no file {file:?}"));
    world.folder = Some(crate::stand_in::install(name, text));
}

/// A firewalld with a bus, which end with the case or before.
fn firewalld(world: &mut World<'_>, what: &str) {
    let before = world.state();
    let firewalld = world.firewalld.get_or_insert_with(|| FirewalldHost::beside_others(world.sandbox.host()));
    match what {
        "start" => firewalld.start(),
        "stop" => firewalld.stop_firewalld(),
        "reload" => firewalld.reload_firewalld(),
        "freeze" => firewalld.freeze_bus(true),
        "thaw" => firewalld.freeze_bus(false),
        other => panic!("firewalld knows start, stop, reload, freeze and thaw, not {other:?}"),
    }
    world.last = Some(world.standing.rebase(world.sandbox, &before));
}

/// A process of the container, which ends with the case or by `end`.
fn live(world: &mut World<'_>, name: &str) {
    let container = world.container(name);
    let process = container.run(|| Command::new("sleep").arg("1000").spawn().expect("start sleep"));
    world.processes.push((name.to_owned(), process));
}

/// `tool 3 list --json`: a verb of the administrator's tool, which ends with this status, or else with 0.
fn tool(world: &mut World<'_>, words: &[&str]) {
    let status: Option<i32> = words.first().and_then(|word| word.parse().ok());
    let words = if status.is_some() { &words[1..] } else { words };
    let call = Invocation::new(world.sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND").arguments(words);
    let done = call.run();
    assert!(done.code() == Some(status.unwrap_or(0)), "it must end with status {}: {done}", status.unwrap_or(0));
    world.said = Said { stdout: done.stdout().to_owned(), stderr: done.stderr().to_owned(), error: None };
}

/// Containers that came later do not count.
fn same(world: &World<'_>) {
    let kept = world.kept.as_ref().expect("`keep` comes before `same`");
    let place = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let places: BTreeSet<String> = kept.iter().map(|line| place(line)).collect();
    let now: Vec<String> = world.state().into_iter().filter(|line| places.contains(&place(line))).collect();
    assert_same(kept, &now);
}
