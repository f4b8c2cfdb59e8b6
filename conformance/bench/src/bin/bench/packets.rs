//! Measures the cost of an established packet: echo requests between the first or the last of many containers and a
//! machine outside.

use std::path::Path;
use std::thread;

use cni_conformance::{Nomad, Outside, Runtime, Sandbox};
use serde_json::Value;

use crate::chain::NeighbourContainers;
use crate::picture::{Line, Picture, Stroke};

/// How many echo requests are sent at once after one another.
const REQUESTS: &str = "5000";

/// A layout of the rules.
const LAYOUTS: [(&str, &str); 2] = [("iptables", "iptables"), ("nftables", "sets of nftables")];

/// Round trips of the first and of the last container.
struct RoundTrips {
    /// The mean, in microseconds.
    microseconds: f64,
    /// In one second.
    rate: f64,
}

/// Measures each layout with this number of containers and with a tenth of it.
pub fn measure(folder: &Path, containers: usize) -> Picture {
    println!("\n{:<20} {:>10} {:>9} {:>14} {:>14}", "echo requests", "containers", "which", "round trip", "a second");
    let mut lines = Vec::new();
    for (backend, name) in LAYOUTS {
        let mut points = [Vec::new(), Vec::new()];
        for containers in [containers / 10, containers] {
            let folder = folder.to_owned();
            let trips = thread::spawn(move || work(&folder, backend, containers)).join().expect("a side");
            for ((which, trips), points) in ["first", "last"].into_iter().zip(trips).zip(&mut points) {
                let RoundTrips { microseconds, rate } = trips;
                println!("{name:<20} {containers:>10} {which:>9} {microseconds:>11.1} µs {rate:>14.0}");
                points.push((containers as f64, microseconds));
            }
        }
        for (which, points) in ["first", "last"].into_iter().zip(points) {
            let stroke = if backend == "nftables" { Stroke::Thick } else { Stroke::Thin };
            lines.push(Line { name: format!("{name}, {which} container"), stroke, colour: lines.len(), points });
        }
    }
    Picture {
        title: "Round trip of an established packet (microseconds)".to_owned(),
        across: "containers on the host".to_owned(),
        logarithmic: false,
        lines,
    }
}

fn work(folder: &Path, backend: &str, containers: usize) -> [RoundTrips; 2] {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    let nomad = Nomad::default();
    let mut list = nomad.conflist();
    if backend == "iptables" {
        nomad.ensure_forwarding_rules(&sandbox);
    } else {
        choose_nftables(&mut list);
    }
    sandbox.set_sysctl("net/ipv4/ip_forward", "1");
    let runtime = Runtime::new(&sandbox, list).binaries(folder);
    let crowd = NeighbourContainers::new(&sandbox, &runtime, 0..containers);
    let standing = &crowd.standing;
    let [Some((first, _)), Some((last, _))] = [standing.first(), standing.last()] else { panic!("no containers") };
    drop(outside);
    [first, last].map(|container| {
        let target = Outside::V4.to_string();
        parse(&container.must(&["ping", "-n", "-q", "-f", "-c", REQUESTS, &target]))
    })
}

fn choose_nftables(list: &mut Value) {
    for plugin in list["plugins"].as_array_mut().expect("plugins") {
        match plugin["type"].as_str() {
            Some("bridge") => plugin["ipMasqBackend"] = "nftables".into(),
            Some("firewall" | "portmap") => plugin["backend"] = "nftables".into(),
            Some(_) | None => {}
        }
    }
}

/// What `ping` says at its end: `… received, 0% packet loss, time 81ms` and `rtt min/avg/max/mdev = 0.010/0.013/…`.
fn parse(text: &str) -> RoundTrips {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<f64>().ok());
    let time = number(text.split("time ").nth(1).and_then(|rest| rest.split("ms").next()));
    let mean = number(text.split("mdev = ").nth(1).and_then(|rest| rest.split('/').nth(1)));
    let (Some(time), Some(mean)) = (time, mean) else { panic!("ping says {text:?}") };
    let requests: f64 = REQUESTS.parse().expect("a number");
    RoundTrips { microseconds: mean * 1000.0, rate: requests / (time / 1000.0) }
}
