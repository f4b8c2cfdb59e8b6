//! What is written down of ports is no more than a note: without it there are mappings all the same.

use std::fs;

use crate::portmap::contested_ports::{ContestedHost, Engine, RECORDS};

fn files(machine: &ContestedHost) -> Vec<String> {
    machine.records().lines().map(str::to_owned).collect()
}

#[test]
fn torn_records_do_not_keep_anybody_from_the_port() {
    for engine in Engine::ALL {
        for garbage in [&b""[..], b"tcp", b"nonsense\n", &[0xff, 0xfe, b'\n'], b"tcp 0.0.0.0 n old eth0 x /run/netns/o"]
        {
            let machine = ContestedHost::new(engine);
            let old = machine.run("old");
            for file in files(&machine) {
                fs::write(file, garbage).expect("tear a record");
            }
            let new = machine.run("new");
            assert_eq!(machine.traces("new").len(), 4, "{engine:?} {garbage:?}");
            machine.leads_to(&old);
            machine.del(&old);
            machine.leads_to(&new);
            machine.del(&new);
            assert_eq!(machine.entries(), [""; 0], "{engine:?} {garbage:?}");
        }
    }
}

#[test]
fn lost_records_leave_the_order_of_the_reference() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let old = machine.run("old");
        fs::remove_dir_all(RECORDS).expect("lose the records");
        let new = machine.run("new");
        machine.leads_to(&old);
        machine.del(&old);
        machine.leads_to(&new);
        machine.del(&new);
        assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
    }
}

/// GC removes the record with the rules.
#[test]
fn gc_removes_the_record_of_the_port() {
    for engine in Engine::ALL {
        let machine = ContestedHost::new(engine);
        let (_old, new) = (machine.run("old"), machine.run("new"));
        let mut newer = machine.list.clone();
        newer["cniVersion"] = serde_json::json!("1.1.0");
        let runtime = cni_conformance::Runtime::new(&machine.sandbox, newer);
        runtime.gc(&[&new.attachment]).expect_success();
        assert_eq!(machine.traces("old"), [""; 0], "{engine:?}");
        machine.leads_to(&new);
        runtime.gc(&[]).expect_success();
        assert_eq!((machine.entries(), machine.records().as_str()), (vec![], ""), "{engine:?}");
    }
}
