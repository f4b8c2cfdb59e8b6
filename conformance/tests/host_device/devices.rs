//! Interfaces by their devices, with a `/sys` of the test's own.

use std::fs;
use std::os::unix::fs::symlink;

use cni_conformance::cases::for_each;
use cni_conformance::{Network, script};
use serde_json::{Value, json};

use crate::host_device::setup::{has, host, list};

/// Makes the plugin see a `/sys` with a device at each address: `05` has `ens1`, `06` has it behind virtio, `07` is driven by a
/// program, `08` has no driver.
fn sys() -> String {
    let top = "/run/conformance/sys";
    for directory in [
        "bus/pci/devices/0000:05:00.0/net/ens1",
        "bus/pci/devices/0000:06:00.0/virtio3/net/ens1",
        "bus/pci/devices/0000:07:00.0",
        "bus/pci/devices/0000:08:00.0",
        "bus/auxiliary/devices/mlx5_core.sf.4/net/ens1",
        "devices/virtual/x/net/ens1",
        "drivers/vfio-pci",
        "drivers/ixgbe",
    ] {
        fs::create_dir_all(format!("{top}/{directory}")).expect("a directory");
    }
    for (device, driver) in [("05", "ixgbe"), ("06", "virtio-pci"), ("07", "vfio-pci")] {
        let link = format!("{top}/bus/pci/devices/0000:{device}:00.0/driver");
        symlink(format!("../../../../drivers/{driver}"), link).expect("a link");
    }
    // The program `mount` would make it.
    fs::create_dir_all("/run/mount").expect("a directory");
    let launcher = std::path::Path::new("/run/conformance/with-sys");
    let lines = format!("exec unshare --mount sh -c 'mount --bind {top} /sys && exec \"$@\"' sh \"$@\"\n");
    script::install(launcher, &lines);
    launcher.to_str().expect("text").to_owned()
}

#[test]
fn an_interface_is_found_by_its_device() {
    let cases: [(&str, Value); 5] = [
        ("PCI", json!({"pciBusID": "0000:05:00.0"})),
        ("virtio", json!({"pciBusID": "0000:06:00.0"})),
        ("of the runtime", json!({"pciBusID": "0000:09:00.0", "runtimeConfig": {"deviceID": "0000:05:00.0"}})),
        ("auxiliary", json!({"runtimeConfig": {"deviceID": "mlx5_core.sf.4"}})),
        ("path", json!({"kernelpath": "/sys/devices/virtual/x"})),
    ];
    for_each(cases, |keys| {
        let host = host(list(&keys));
        let launcher = sys();
        let before = host.state();
        let container = host.sandbox.container("id1");
        let attachment = cni_conformance::Attachment::new("id1", &container);
        let call = |verb| host.runtime().invocation(verb, "host-device", &attachment, None).launched_by(&[&launcher]);
        let result = call(cni_conformance::Verb::Add).run().result();
        assert!(has(&container, "eth0") && !has(host.sandbox.host(), "ens1"), "{result}");
        // The device is gone from `/sys` by now.
        host.del(&attachment);
        host.is_as_before(&before, &[]);
    });
}

#[test]
fn a_device_that_a_program_drives_has_no_interface_to_move() {
    let host = host(list(&json!({
        "device": "ens1", "pciBusID": "0000:07:00.0",
        "ipam": {"type": "static", "addresses": [{"address": "10.1.2.5/24"}]},
    })));
    let launcher = sys();
    let before = host.state();
    let container = host.sandbox.container("id1");
    let attachment = cni_conformance::Attachment::new("id1", &container);
    for (verb, previous) in [(cni_conformance::Verb::Add, false), (cni_conformance::Verb::Del, true)] {
        let call = host.runtime().invocation(verb, "host-device", &attachment, None).launched_by(&[&launcher]);
        let outcome = call.run();
        outcome.expect_success();
        if !previous {
            let want = json!([{"name": "eth0", "sandbox": container.path()}]);
            assert_eq!(outcome.result()["interfaces"], want);
            assert_eq!(outcome.result()["ips"][0]["address"], json!("10.1.2.5/24"));
        }
        assert_eq!(Network::observe(&container).links.len(), 1, "lo alone");
    }
    host.is_as_before(&before, &[]);
}

#[test]
fn a_device_without_an_interface_is_reported() {
    let cases = [
        ("no driver", (json!({"pciBusID": "0000:08:00.0"}), "no net directory under pci device 0000:08:00.0")),
        ("no device", (json!({"pciBusID": "0000:99:00.0"}), "no net directory under pci device 0000:99:00.0")),
        (
            "of the runtime",
            (json!({"runtimeConfig": {"deviceID": "x"}}), "runtime config DeviceID x not found or unsupported"),
        ),
        (
            "path",
            (json!({"kernelpath": "/sys/devices/virtual/y"}), "failed to read directory /sys/devices/virtual/y/net"),
        ),
    ];
    for_each(cases, |(keys, says)| {
        let host = host(list(&keys));
        let launcher = sys();
        let container = host.sandbox.container("id1");
        let attachment = cni_conformance::Attachment::new("id1", &container);
        let call = host.runtime().invocation(cni_conformance::Verb::Add, "host-device", &attachment, None);
        call.launched_by(&[&launcher]).run().expect_error(7, says);
    });
}
