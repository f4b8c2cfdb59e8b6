//! Links that the configuration names by their devices.

use super::*;

/// A machine whose `/sys` knows the link as a device in this directory.
fn with_device(directory: &str) -> FakeHost {
    let mut host = machine();
    host.devices.add_directory(&format!("{directory}/net/ens1"));
    host
}

#[test]
fn a_link_is_found_by_its_device() {
    for (directory, keys) in [
        ("/sys/devices/pci0/0000:05:00.0", r#""kernelpath":"/sys/devices/pci0/0000:05:00.0""#),
        ("/sys/bus/pci/devices/0000:05:00.0", r#""pciBusID":"0000:05:00.0""#),
        ("/sys/bus/pci/devices/0000:05:00.0/virtio3", r#""pciBusID":"0000:05:00.0""#),
        ("/sys/bus/pci/devices/0000:05:00.0", r#""runtimeConfig":{"deviceID":"0000:05:00.0"}"#),
        ("/sys/bus/pci/devices/0000:05:00.0", r#""pciBusID":"other","runtimeConfig":{"deviceID":"0000:05:00.0"}"#),
        ("/sys/bus/auxiliary/devices/mlx5_core.sf.4", r#""runtimeConfig":{"deviceID":"mlx5_core.sf.4"}"#),
    ] {
        let mut host = with_device(directory);
        caller(keys).add(&HostDevice, &mut host).unwrap_or_else(|error| panic!("{keys}: {}", error.in_full()));
        assert!(on_host(&mut host, "ens1").is_none(), "{keys}");
        caller(keys).del(&HostDevice, &mut host).expect("DEL");
        assert!(on_host(&mut host, "ens1").is_some(), "{keys}");
    }
}

#[test]
fn a_named_link_goes_before_a_device() {
    let mut host = machine();
    host.devices.add_directory("/sys/bus/pci/devices/0000:05:00.0/net/ens9");
    caller(r#""device":"ens1","runtimeConfig":{"deviceID":"0000:05:00.0"}"#).add(&HostDevice, &mut host).expect("ADD");
    assert!(on_host(&mut host, "ens1").is_none());
}

#[test]
fn a_device_without_a_link_is_reported() {
    let mut host = machine();
    host.devices.add_directory("/sys/bus/pci/devices/0000:05:00.0/net");
    let text =
        "failed to find host device: failed to find network device in path /sys/bus/pci/devices/0000:05:00.0/net";
    assert_eq!(refused(r#""pciBusID":"0000:05:00.0""#, &mut host).1, text);
}

/// There is no interface: what is in the container is another plugin's, and the IPAM plugin is asked all the same.
#[test]
fn a_device_that_a_program_drives_is_not_moved() {
    for driver in ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_vfio_pci"] {
        let mut host = machine();
        host.devices.add_directory("/sys/bus/pci/devices/0000:05:00.0");
        host.devices.add_link("/sys/bus/pci/devices/0000:05:00.0/driver", driver);
        let caller = caller(r#""pciBusID":"0000:05:00.0","device":"ens1","ipam":{"type":"host-local"}"#);
        let result = caller.add(&HostDevice, &mut host).expect("ADD");
        assert_eq!(host.applied(), ["delegate ADD to host-local"], "{driver}");
        assert_eq!((result.interfaces[0].name.as_str(), result.interfaces[0].mac.as_str()), ("eth0", ""));
        assert_eq!(result.ips.len(), 2);
        let text = result.render(Version::LATEST).expect("text");
        let checked =
            caller.with_config(&caller.config.replace(r#""ipam""#, &format!(r#""prevResult":{text},"ipam""#)));
        checked.check(&HostDevice, &mut host).expect("CHECK");
        host.add_link(
            Ns::Container,
            Link { name: "eth0".to_owned(), alias: Some("ens7".to_owned()), ..Link::default() },
        );
        caller.del(&HostDevice, &mut host).expect("DEL");
        assert_eq!(names(&mut host, Ns::Container), ["lo", "eth0"]);
        assert!(!host.state().iter().any(|line| line.starts_with("lease")));
    }
    let mut host = machine();
    host.devices.add_directory("/sys/bus/pci/devices/0000:05:00.0/net/ens1");
    host.devices.add_link("/sys/bus/pci/devices/0000:05:00.0/driver", "ixgbe");
    caller(r#""pciBusID":"0000:05:00.0","DPDKMode":true"#).add(&HostDevice, &mut host).expect("the driver decides");
    assert!(on_host(&mut host, "ens1").is_none());
    caller(r#""device":"ens9","DPDKMode":true"#).add(&HostDevice, &mut machine()).expect("nothing is looked for");
}
