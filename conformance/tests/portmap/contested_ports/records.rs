//! What is written down of ports is no more than a note: without it there are mappings all the same.

use std::fs;

use crate::portmap::contested_ports::{Client, Engine, RECORDS};

fn files(client: &Client) -> Vec<String> {
    client.records().lines().map(str::to_owned).collect()
}

#[test]
fn torn_records_do_not_keep_anybody_from_the_port() {
    for engine in Engine::ALL {
        for garbage in [&b""[..], b"tcp", b"nonsense\n", &[0xff, 0xfe, b'\n'], b"tcp 0.0.0.0 n old eth0 x /run/netns/o"]
        {
            let client = Client::new(engine);
            let old = client.run("old");
            for file in files(&client) {
                fs::write(file, garbage).expect("tear a record");
            }
            let new = client.run("new");
            assert_eq!(client.traces("new").len(), 4, "{engine:?} {garbage:?}");
            client.leads_to(&old);
            client.del(&old);
            client.leads_to(&new);
            client.del(&new);
            assert_eq!(client.entries(), [""; 0], "{engine:?} {garbage:?}");
        }
    }
}

#[test]
fn lost_records_leave_the_order_of_the_reference() {
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let old = client.run("old");
        fs::remove_dir_all(RECORDS).expect("lose the records");
        let new = client.run("new");
        client.leads_to(&old);
        client.del(&old);
        client.leads_to(&new);
        client.del(&new);
        assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
    }
}

/// GC removes the record with the rules.
#[test]
fn gc_removes_the_record_of_the_port() {
    for engine in Engine::ALL {
        let client = Client::new(engine);
        let (_old, new) = (client.run("old"), client.run("new"));
        let mut newer = client.list.clone();
        newer["cniVersion"] = serde_json::json!("1.1.0");
        let runtime = cni_conformance::Runtime::new(&client.sandbox, newer);
        runtime.gc(&[&new.attachment]).expect_success();
        assert_eq!(client.traces("old"), [""; 0], "{engine:?}");
        client.leads_to(&new);
        runtime.gc(&[]).expect_success();
        assert_eq!((client.entries(), client.records().as_str()), (vec![], ""), "{engine:?}");
    }
}
