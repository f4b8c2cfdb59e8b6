//! tuning

use serde_json::{Value, json};

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, equal};
use cni_conformance::Verb;
use cni_conformance::keys::with;

const fn add(what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(Topic::Add, what, says, run).page(&["tuning"])
}

pub const CASES: &[Template] = &[
    add("tuning-mtu", "mtu is that of the interface", |host| {
        host.add()?;
        host.container_shows("ip link show eth0", "mtu 1400")
    }),
    add("tuning-mac", "mac is that of the interface and of the result", |host| {
        let result = host.add_with(&json!({"mac": "02:00:00:00:0a:0b"}))?;
        host.container_shows("ip link show eth0", "02:00:00:00:0a:0b")?;
        equal("mac of eth0", json!("02:00:00:00:0a:0b"), result["interfaces"][2]["mac"].clone())
    }),
    add("tuning-mac-of-runtime", "the hardware address in runtimeConfig overrides that of the configuration", |host| {
        host.add_with(&json!({"mac": "02:00:00:00:0a:0b", "runtimeConfig": {"mac": "02:00:00:00:0a:0c"}}))?;
        host.container_shows("ip link show eth0", "02:00:00:00:0a:0c")
    }),
    add("tuning-promiscuous", "with promisc the interface is promiscuous", |host| {
        host.add_with(&json!({"promisc": true}))?;
        host.container_shows("ip link show eth0", "PROMISC")
    }),
    add("tuning-all-multicast", "with allmulti the interface receives all multicast", |host| {
        host.add_with(&json!({"allmulti": true}))?;
        host.container_shows("ip link show eth0", "ALLMULTI")
    }),
    add("tuning-queue", "txQLen is the length of the interface's queue", |host| {
        host.add_with(&json!({"txQLen": 777}))?;
        host.container_shows("ip link show eth0", "qlen 777")
    }),
    add("tuning-sysctl", "sysctl sets parameters of the container's network", |host| {
        host.add_with(&json!({"sysctl": {"net.core.somaxconn": "500"}}))?;
        host.container_shows("cat /proc/sys/net/core/somaxconn", "500")
    }),
    add("tuning-sysctl-of-host", "the host's parameter of that name stays as it is", |host| {
        let before = host.sandbox.sysctl("net/core/somaxconn");
        host.add_with(&json!({"sysctl": {"net.core.somaxconn": "500"}}))?;
        equal("net/core/somaxconn of the host", before, host.sandbox.sysctl("net/core/somaxconn"))
    }),
    add("tuning-sysctl-elsewhere", "a parameter outside of `net` is refused", |host| {
        host.try_to_add_with(&json!({"sysctl": {"kernel.hostname": "x"}})).must_print_error().map(drop)
    }),
    Template::new(Topic::Del, "tuning-back", "DEL restores interface and hardware address", |host| {
        let keys = json!({"mac": "02:00:00:00:0a:0b", "promisc": true});
        let result = host.add_with(&keys)?;
        host.del_with(&result, &keys)?;
        host.container_shows("ip link show eth0", &host.guest.mac())?;
        host.container_shows("ip link show eth0", "mtu 1500")
    })
    .page(&["tuning"]),
    Template::new(
        Topic::Check,
        "tuning-changed",
        "CHECK fails when a value differs from the one that ADD has set",
        changed,
    )
    .page(&["tuning"]),
];

fn changed(host: &PrivateHost) -> CaseVerdict {
    let keys = json!({"sysctl": {"net.core.somaxconn": "500"}});
    let result: Value = host.add_with(&keys)?;
    let call = host.call_with(Verb::Check, &host.guest, &result, &with(&keys, &json!({})));
    call.run().must_succeed()?;
    host.guest.container.run(|| {
        std::fs::write("/proc/sys/net/core/somaxconn", "600").unwrap_or_else(|error| panic!("set somaxconn: {error}"));
    });
    call.run().must_print_error().map(drop)
}
