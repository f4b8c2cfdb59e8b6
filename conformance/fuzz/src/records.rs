//! Records of plugins with any content: a configuration, `CNI_ARGS`, and one document for each record of ADD, which
//! replaces its content.
//!
//! With any content of the records, no error is the plugin's own fault. Without the records, DEL leaves what was there
//! before.

use cni_core::json::Json;
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::records::Records;
use cni_testkit::FakeHost;

use crate::input::Documents;
use crate::life::{FuzzContainer, TwoContainers, assert_same, is_chained, known, machine};
use crate::plugins::plugin_of;

const KINDS: [RecordKind; 5] = [
    RecordKind::new("claims"),
    RecordKind::new("deleting"),
    RecordKind::new("ports"),
    RecordKind::new("sbr"),
    RecordKind::new("tuning"),
];

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (config, args) = (documents.text(), documents.text());
    let texts: Vec<_> = documents.map(String::from_utf8_lossy).collect();
    let json = Json::parse(config.as_bytes()).ok()?;
    let plugin = plugin_of(&json)?;
    let life = TwoContainers { plugin, config: config.into_owned(), args: args.into_owned(), answer: String::new() };
    let mut host = machine(is_chained(plugin));
    host.firewalld.running = life.config.contains("firewalld");
    life.attach(FuzzContainer::Own, &mut host);
    life.add(FuzzContainer::Own, &mut host);
    life.del(FuzzContainer::Own, &mut host);
    let before = without_records(&host);
    life.add(FuzzContainer::Own, &mut host)?.ok()?;
    forge(&mut host, &texts);
    for command in ["CHECK", "ADD", "STATUS"] {
        let Some(request) = life.request(FuzzContainer::Own, command, &life.config) else { continue };
        match command {
            "CHECK" => drop(known(plugin.check(&request, &mut host))),
            "STATUS" => drop(known(plugin.status(&request, &mut host))),
            _ => drop(known(plugin.find_missing(&request, &mut host))),
        }
    }
    life.del(FuzzContainer::Own, &mut host);
    life.add(FuzzContainer::Own, &mut host);
    forge(&mut host, &texts);
    life.del(FuzzContainer::Own, &mut host);
    host.records.clear();
    let reported = life.del(FuzzContainer::Own, &mut host).map(|deleted| deleted.map_err(|error| error.in_full()));
    assert_eq!(reported, Some(Ok(())), "DEL");
    // Of kernel parameters and of moved routes nothing but the record tells what they were.
    if !["sbr", "tuning"].contains(&plugin.kind()) {
        assert_same(&before, &without_records(&host), "DEL without records");
    }
    Some(())
}

/// Replaces what the records say, in their order, and adds one of each kind.
fn forge(host: &mut FakeHost, texts: &[std::borrow::Cow<'_, str>]) {
    let mut keys = Vec::new();
    for kind in KINDS {
        let names = host.records.names(kind).expect("they are in memory");
        keys.extend(names.iter().map(|name| RecordKey::new(kind, name).expect("a name")));
    }
    for (key, text) in keys.iter().zip(texts) {
        host.records.write(key, text);
    }
}

fn without_records(host: &FakeHost) -> Vec<String> {
    host.state().into_iter().filter(|line| !line.starts_with("record ")).collect()
}
