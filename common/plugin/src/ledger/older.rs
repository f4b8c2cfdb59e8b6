//! What the release before wrote, in a directory for each kind of record and a file for each: it becomes parts of entries.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use cni_core::json::Json;
use cni_core::names::{Attachment, hash_hex};
use cni_model::record::{Part, PartKind, RecordedNamespace};
use serde::Deserialize;

use super::{
    ADDED, ADDRESS, CHAIN, DEVICE, Entry, MASQUERADE, PORT, REFUSAL, ROUTES, SOURCE_ROUTES, TUNING, names,
    parse_attachment,
};
use super::{of_container, of_container_in_network};

/// The directory with a record of each attachment.
pub const ATTACHMENTS: &str = "attachments";

/// All directories.
pub const KINDS: [&str; 10] =
    [ATTACHMENTS, "deleting", "refused", "masquerades", "tuning", "devices", "sbr", "routeoverride", "claims", "ports"];

/// Records by directory and file, each with the time since 1970 when it was written.
pub type OlderRecords = BTreeMap<(&'static str, String), (String, Duration)>;

/// A part of an entry.
struct TakenOver {
    at: Attachment,
    namespace: Option<String>,
    part: Part,
    text: String,
}

/// The entries that records become. Marks of DELs are left out: the DELs have ended.
pub fn take_over(records: &OlderRecords) -> BTreeMap<Attachment, Entry> {
    let of =
        |kind: &'static str| records.iter().filter(move |((of, _), _)| *of == kind).map(|((_, name), of)| (name, of));
    let mut found: Vec<TakenOver> =
        of(ATTACHMENTS).filter_map(|(_, (text, written))| attachment(text, *written)).collect();
    for (kind, part) in [
        ("refused", REFUSAL),
        ("tuning", TUNING),
        ("devices", DEVICE),
        ("sbr", SOURCE_ROUTES),
        ("routeoverride", ROUTES),
    ] {
        found.extend(of(kind).filter_map(|(_, (text, _))| json(part, text)));
    }
    found.extend(of("masquerades").filter_map(|(_, (text, _))| {
        let (at, text) = words(text)?;
        Some(TakenOver { at, namespace: None, part: MASQUERADE.part(), text })
    }));
    for (name, (text, _)) in of("claims") {
        if let (Ok(address), Some((owner, backends))) = (name.parse(), words(text)) {
            found.extend(claims(address, owner, backends, records));
        }
    }
    for (name, (text, _)) in of("ports") {
        match name.parse() {
            Ok(port) => found.extend(ports(port, text)),
            Err(_) if name.starts_with("chain-") => found.extend(text.lines().filter_map(chain)),
            Err(_) => {}
        }
    }
    let mut entries: BTreeMap<Attachment, Entry> = BTreeMap::new();
    for TakenOver { at, namespace, part, text } in found {
        let taken = Entry::changed(None, &at, namespace.as_deref(), &vec![(part, Some(text))]).0;
        let whole = match (entries.remove(&at), taken) {
            (Some(entry), Some(taken)) => Some(entry.with_other(taken)),
            (entry, taken) => entry.or(taken),
        };
        entries.extend(whole.map(|entry| (at, entry)));
    }
    entries
}

/// The attachment in the first words of a text, and the others.
fn words(text: &str) -> Option<(Attachment, String)> {
    let mut words = text.split(' ');
    Some((parse_attachment(&mut words)?, words.collect::<Vec<_>>().join(" ")))
}

#[derive(Deserialize)]
struct Names {
    network: String,
    container: String,
    ifname: String,
}

fn json(kind: PartKind, text: &str) -> Option<TakenOver> {
    let Names { network, container, ifname } = Json::parse(text.as_bytes()).and_then(|json| json.decode()).ok()?;
    let at = parse_attachment(&mut [network.as_str(), &container, &ifname].into_iter())?;
    let part = if kind == TUNING { of_container(kind, &at) } else { kind.part() };
    Some(TakenOver { at, namespace: None, part, text: text.lines().map(str::trim).collect() })
}

fn attachment(text: &str, written: Duration) -> Option<TakenOver> {
    let mut lines = text.lines();
    let (at, maker) = words(lines.next()?)?;
    let namespace = Some(RecordedNamespace::parse(lines.next()?)?.to_string());
    let link = lines.next().map(|link| format!(" {link}")).unwrap_or_default();
    Some(TakenOver { at, namespace, part: ADDED.part(), text: format!("{maker} {}{link}", written.as_nanos()) })
}

/// The owner of an address, and those that had it before and may live.
fn claims(address: IpAddr, owner: Attachment, backends: String, records: &OlderRecords) -> Vec<TakenOver> {
    let text = |prefix: &str, of: &str| {
        let record = records.get(&("claims", format!("{prefix}{}", &hash_hex(of)[..32])));
        record.map(|(text, _)| text.as_str()).unwrap_or_default()
    };
    let backends = if backends.is_empty() { "iptables".to_owned() } else { backends };
    let home = text("owner-", &names(&owner)).lines().find_map(|line| line.strip_prefix("netns "));
    let former = text("former-", &address.to_string()).lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        Some((parse_attachment(&mut words)?, Some(words.next()?)))
    });
    let claim = |(at, home): (Attachment, Option<&str>)| {
        let (namespace, text) = (home.map(str::to_owned), backends.clone());
        TakenOver { at, namespace, part: ADDRESS.about(address), text }
    };
    former.chain([(owner, home)]).map(claim).collect()
}

/// How far the places of two attachments at a port are from each other: a repair puts some between.
const PLACES: usize = 1024;

/// The mappings of a port, the oldest first.
fn ports(port: u16, text: &str) -> Vec<TakenOver> {
    let mut found: Vec<TakenOver> = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let mut words = line.splitn(6, ' ');
        let (Some(proto), Some(address)) = (words.next(), words.next()) else { continue };
        let (Some(at), namespace) = (parse_attachment(&mut words), words.next().map(str::to_owned)) else { continue };
        match found.iter_mut().find(|one| one.at == at) {
            Some(known) => known.text.push_str(&format!(" {proto} {address}")),
            None => {
                let text = format!("{} {proto} {address}", (place + 1) * PLACES);
                found.push(TakenOver { at, namespace, part: PORT.about(port), text });
            }
        }
    }
    for one in &mut found {
        one.text.extend(one.namespace.iter().map(|home| format!(" in {home}")));
    }
    found
}

fn chain(line: &str) -> Option<TakenOver> {
    let (kind, of) = line.split_once(' ')?;
    let (at, _) = words(of)?;
    let part = of_container_in_network(CHAIN, &at);
    Some(TakenOver { at, namespace: None, part, text: kind.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_record_becomes_a_part_of_its_attachment() {
        let at = parse_attachment(&mut "net web eth0".split(' ')).expect("an attachment");
        let digest = |text: &str| hash_hex(text)[..32].to_owned();
        let json = "{\n    \"network\": \"net\",\n    \"container\": \"web\",\n    \"ifname\": \"eth0\",\n    \"rules\": []\n}";
        let ports = "tcp :: other db eth0 boot:2@8 /run/db\ntcp 0.0.0.0 net web eth0\nudp :: net web eth0\n";
        let records: OlderRecords = [
            ("attachments", "x".to_owned(), "net web eth0 bridge\nboot:1@7 /run/netns/web\n2 veth 0a:58:0a:01:02:03\n"),
            ("masquerades", "x".to_owned(), "net web eth0 10.1.2.3"),
            ("sbr", "x".to_owned(), json),
            ("claims", "10.1.2.3".to_owned(), "net web eth0"),
            ("claims", format!("owner-{}", digest("net web eth0")), "10.1.2.3\nnetns boot:1@7 /run/netns/web\n"),
            ("claims", format!("former-{}", digest("10.1.2.3")), "other db eth0 boot:2@8 /run/db\n"),
            ("ports", "8080".to_owned(), ports),
            ("ports", format!("chain-{}", digest("net web")), "reference net web eth0\n"),
        ]
        .map(|(kind, name, text)| ((kind, name), (text.to_owned(), Duration::from_nanos(7))))
        .into();
        let mut entries = take_over(&records);
        let lines = [
            "net web eth0".to_owned(),
            "boot:1@7 /run/netns/web".to_owned(),
            "added bridge 7 2 veth 0a:58:0a:01:02:03".to_owned(),
            "address-10.1.2.3 iptables".to_owned(),
            format!("chain-{} reference", digest("net web")),
            "masquerade 10.1.2.3".to_owned(),
            "port-8080 2048 tcp 0.0.0.0 udp ::".to_owned(),
            "sbr {\"network\": \"net\",\"container\": \"web\",\"ifname\": \"eth0\",\"rules\": []}".to_owned(),
        ];
        assert_eq!(entries.remove(&at).expect("an entry").to_string(), lines.map(|line| line + "\n").concat());
        let text =
            "other db eth0\nboot:2@8 /run/db\naddress-10.1.2.3 iptables\nport-8080 1024 tcp :: in boot:2@8 /run/db\n";
        assert_eq!(entries.into_values().map(|entry| entry.to_string()).collect::<Vec<_>>(), [text]);
    }
}
