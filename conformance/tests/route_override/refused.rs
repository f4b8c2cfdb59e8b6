//! ADDs that cannot be carried out: one clear error, and no route is changed.

use cni_conformance::Verb::Add;
use cni_conformance::cases::for_each;
use serde_json::json;

use crate::route_override::setup::Routed;

#[test]
fn an_add_that_cannot_be_carried_out_changes_nothing() {
    let rows = [
        (json!({"prevResult": null}), "Required prevResult missing"),
        (json!({"addroutes": [{"dst": "10.9.0.0"}]}), "10.9.0.0"),
        (json!({"addroutes": [{"dst": "10.9.0.0/16", "priority": -1}]}), "priority -1 is out of range"),
        (json!({"addroutes": [{"dst": "10.96.0.1/12"}]}), "the destination has host bits; write 10.96.0.0/12"),
        // The kernel refuses the last one.
        (
            json!({"flushroutes": true, "addroutes": [{"dst": "10.9.0.0/16"}, {"dst": "10.8.0.0/16", "gw": "192.0.2.1"}]}),
            "192.0.2.1",
        ),
    ];
    for_each(rows.map(|row| (row.0.to_string(), row)), |(keys, words)| {
        let routed = Routed::new();
        let before = routed.state();
        let outcome = routed.call(Add, &keys).run();
        let error = outcome.error();
        assert!(error.msg.contains(words) || error.details.contains(words), "{words}: {outcome}");
        assert_eq!(routed.state(), before);
    });
}
