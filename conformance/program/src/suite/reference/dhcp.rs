//! dhcp, with its daemon and a server.

use serde_json::json;

use crate::suite::case::{Needs, PluginSelection, Template, Topic};
use crate::suite::dhcp_lan::{self, FIRST};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, JudgeOutcome, require};
use cni_conformance::Verb;

const fn served(
    topic: Topic,
    what: &'static str,
    says: &'static str,
    run: fn(&PrivateHost) -> CaseVerdict,
) -> Template {
    Template::new(topic, what, says, run).page(&["dhcp"]).needs(Needs::DhcpServer)
}

pub const CASES: &[Template] = &[
    served(Topic::Add, "dhcp-lease", "ADD answers with the address and the router of the server", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        let ip = &result["ips"][0];
        require(ip["address"] == FIRST && ip["gateway"] == "10.1.2.1", format!("{FIRST} by 10.1.2.1"), &result)
    }),
    served(Topic::Add, "dhcp-route", "ADD answers with a default route by the server's router", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        let route = &result["routes"][0];
        require(route["dst"] == "0.0.0.0/0" && route["gw"] == "10.1.2.1", "0.0.0.0/0 by 10.1.2.1", &result)
    }),
    Template::new(Topic::Add, "dhcp-without-daemon", "ADD without the daemon fails", |host| {
        host.call(Verb::Add).run().must_print_error().map(drop)
    })
    .page(&["dhcp"])
    .needs(Needs::Version),
    served(Topic::Check, "dhcp-lease", "CHECK passes for a lease that the daemon keeps", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        host.check(&result)
    }),
    served(Topic::Del, "dhcp-release", "DEL gives the address back to the server", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        host.del(&result)?;
        require(dhcp_lan::has_logged("DHCPRELEASE"), "DHCPRELEASE in the server's log", dhcp_lan::log())
    }),
    served(Topic::Del, "dhcp-again", "DEL succeeds three times in a row", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        (0..3).try_for_each(|_| host.del(&result))
    }),
    served(Topic::Del, "dhcp-netns-gone", "DEL succeeds when the namespace is gone", |host| {
        let _running = (dhcp_lan::serve(host), dhcp_lan::daemon());
        let result = host.add()?;
        host.guest.container.remove();
        host.del(&result)
    }),
    Template::new(Topic::Status, "ready-with-daemon", "STATUS succeeds when the daemon is there", |host| {
        let _running = dhcp_lan::daemon();
        host.call_network(Verb::Status, &json!({})).run().must_succeed().map(drop)
    })
    .spec(&["status-ready"])
    .of(PluginSelection::Only(&["dhcp"]))
    .needs(Needs::Version),
];
