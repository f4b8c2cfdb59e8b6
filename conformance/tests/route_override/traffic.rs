//! Packets take the routes that were added, and not those that were removed.

use cni_conformance::Verb::{Add, Del};
use serde_json::json;

use crate::route_override::setup::Routed;

#[test]
fn packets_take_the_routes_that_were_added() {
    let routed = Routed::new();
    let reaches = || routed.container.exec(&["ping", "-q", "-c", "1", "-W", "2", "10.94.0.1"]).code == Some(0);
    assert!(reaches(), "by the default route");
    routed.succeeds(&[Add], &json!({"flushroutes": true}));
    assert!(!reaches(), "there is no route");
    routed.succeeds(&[Del], &json!({}));
    assert!(reaches(), "by the default route again");
    routed.succeeds(&[Add], &json!({"flushroutes": true, "addroutes": [{"dst": "10.94.0.0/16"}]}));
    assert!(reaches(), "by the route of the configuration");
}
