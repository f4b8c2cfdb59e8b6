//! sbr

use crate::suite::case::{Template, Topic};
use crate::suite::host::PrivateHost;
use crate::suite::judge::{CaseVerdict, require};

const fn case(topic: Topic, what: &'static str, says: &'static str, run: fn(&PrivateHost) -> CaseVerdict) -> Template {
    Template::new(topic, what, says, run).page(&["sbr"])
}

pub const CASES: &[Template] = &[
    case(Topic::Add, "rule", "packets from the interface's address take a table of their own", |host| {
        host.add()?;
        host.container_shows("ip rule show", "from 10.88.0.5 lookup 100")
    }),
    case(Topic::Add, "table", "the table has the default route of the interface", |host| {
        host.add()?;
        host.container_shows("ip route show table 100", "default via 10.88.0.1 dev eth0")
    }),
    case(Topic::Add, "main-table", "the main table keeps no default route by the interface", |host| {
        host.add()?;
        let shown = host.guest.container.sh("ip route show table main");
        require(!shown.contains("default"), "no default route in table main", shown)
    }),
    case(Topic::Del, "rule-gone", "DEL removes the rule", |host| {
        let result = host.add()?;
        host.del(&result)?;
        let shown = host.guest.container.sh("ip rule show");
        require(!shown.contains("10.88.0.5"), "no rule for 10.88.0.5", shown)
    }),
];
