//! Input of dhcp and its daemon, after a line with its type: `message`, a server's message; `record`, a lease that an
//! earlier daemon has stored; `question`, a plugin's question.
//!
//! A grant is within its limits, and a client renews it in time; records and questions are read as they were written.

use std::time::Duration;

use cni_dhcp::client::{Client, Identity, Limits, Moment};
use cni_dhcp::grant::Grant;
use cni_dhcp::protocol::{self, DaemonQuestion, VERSION};
use cni_dhcp::record::LeaseRecord;
use cni_dhcp::wire::{Incoming, MessageType, to_client};

pub fn run(input: &[u8]) -> Option<()> {
    let at = input.iter().position(|byte| *byte == b'\n')?;
    let (kind, rest) = (input.get(..at)?, input.get(at + 1..)?);
    match kind {
        b"message" => message(rest),
        b"record" => record(rest),
        b"question" => question(rest),
        _ => None,
    }
}

fn message(bytes: &[u8]) -> Option<()> {
    assert!(to_client(bytes).is_none_or(|payload| payload.len() < bytes.len()));
    let message = Incoming::parse(bytes)?;
    let granted = Grant::of(&message).ok();
    if let Some(grant) = &granted {
        assert!(grant.prefix <= 32 && grant.routes.iter().all(|route| route.prefix <= 32), "{grant:?}");
        assert!(grant.renewal <= grant.rebinding, "{grant:?}");
        assert!(grant.seconds.is_none_or(|seconds| seconds > 0 && grant.rebinding <= seconds), "{grant:?}");
        let is_plain = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        assert!(grant.domain.iter().chain(&grant.search).all(is_plain), "{grant:?}");
    }
    lease(&message);
    granted.map(drop)
}

/// The client knows a message by its number and its MAC address, so these are made to fit.
fn lease(message: &Incoming) {
    let identity =
        Identity { mac: message.mac, id: vec![0, 1], provided: Vec::new(), requested: vec![3, 1], broadcast: false };
    let (mut client, actions) = Client::begin(identity, Limits::default(), 7, Moment::default());
    let mut xid = sent_xid(&actions);
    for kind in [MessageType::Offer, MessageType::Ack] {
        let fitting = Incoming { kind, xid: xid.unwrap_or(message.xid), ..message.clone() };
        let actions = client.on_message(&fitting, [9; 6], Moment::default());
        xid = sent_xid(&actions).or(xid);
    }
    let mut now = Moment::default();
    for _ in 0..200 {
        let Some(due) = client.due(now) else { break };
        assert!(due >= now, "the time goes on");
        now = if due == now { now + Duration::from_millis(1) } else { due };
        client.on_time(now);
        let end = client.lease().and_then(|lease| lease.end());
        assert!(end.is_none_or(|end| now <= end), "no lease outlives its end");
    }
}

fn sent_xid(actions: &[cni_dhcp::client::Action]) -> Option<u32> {
    actions.iter().find_map(|action| match action {
        cni_dhcp::client::Action::Send(sending) => Some(sending.message.xid),
        cni_dhcp::client::Action::Leased | cni_dhcp::client::Action::Failed(_) | cni_dhcp::client::Action::Lost(_) => {
            None
        }
    })
}

fn record(text: &[u8]) -> Option<()> {
    let record = LeaseRecord::parse(text).ok()?;
    assert_eq!(LeaseRecord::parse(record.text().as_bytes()).expect("a record"), record);
    let mut client = Client::resume(record.identity, Limits::default(), 7, record.lease);
    let mut now = Moment::default();
    for _ in 0..20 {
        let Some(due) = client.due(now) else { break };
        now = due + Duration::from_millis(1);
        client.on_time(now);
    }
    client.release();
    Some(())
}

fn question(text: &[u8]) -> Option<()> {
    let verb = protocol::question(text).ok()?;
    let written = protocol::text(&DaemonQuestion { protocol: VERSION, verb: verb.clone() });
    assert_eq!(protocol::question(written.as_bytes()), Ok(verb));
    Some(())
}
