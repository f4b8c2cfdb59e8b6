//! Lists with one mistake each, and the finding that names it.

/// A broken list.
pub struct Broken {
    /// The list, or its `plugins` alone.
    pub list: &'static str,
    /// The finding as it is printed, without the file.
    pub finding: &'static str,
    /// Whether a schema can see it: it cannot compare addresses or guess names.
    pub in_schema: bool,
}

/// The text of a whole list.
pub fn whole(list: &str) -> String {
    if list.starts_with('[') {
        format!(r#"{{"cniVersion": "1.0.0", "name": "n1", "plugins": {list}}}"#)
    } else {
        list.to_owned()
    }
}

const fn broken(list: &'static str, finding: &'static str) -> Broken {
    Broken { list, finding, in_schema: true }
}

/// A mistake that no schema can see.
const fn unseen(list: &'static str, finding: &'static str) -> Broken {
    Broken { list, finding, in_schema: false }
}

/// All of them.
pub const BROKEN: &[Broken] = &[
    broken(
        r#"[{"type": "bridge", "ipMask": true}]"#,
        r#"plugins[0] bridge, ipMask: the key `ipMask` is unknown, and is ignored; write `ipMasq`"#,
    ),
    broken(
        r#"[{"type": "bridge", "isgateway": true}]"#,
        r#"plugins[0] bridge, isgateway: the key is written `isgateway`; plugins accept it, other programs may not; write `isGateway`"#,
    ),
    broken(
        r#"[{"type": "bridge", "gateway": "10.1.2.1"}]"#,
        r#"plugins[0] bridge, gateway: the key `gateway` is unknown, and is ignored; write `isGateway`"#,
    ),
    broken(
        r#"[{"type": "bridge", "ports": [80]}]"#,
        r#"plugins[0] bridge, ports: the key `ports` is unknown, and is ignored; remove it, or look up the key on the plugin's page"#,
    ),
    broken(
        r#"[{"type": "bridge", "mtu": "1400"}]"#,
        r#"plugins[0] bridge, mtu: "1400" is a string, not an integer; write 1400 without quotes"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipMasq": "true"}]"#,
        r#"plugins[0] bridge, ipMasq: "true" is a string, not a boolean; write true without quotes"#,
    ),
    broken(
        r#"[{"type": "bridge", "bridge": 5}]"#,
        r#"plugins[0] bridge, bridge: 5 is an integer, not a string; write "5""#,
    ),
    broken(
        r#"[{"type": "bridge", "mtu": 1400.5}]"#,
        r#"plugins[0] bridge, mtu: 1400.5 is a fraction, not an integer; write an integer"#,
    ),
    broken(
        r#"[{"type": "bridge", "vlan": 4095}]"#,
        r#"plugins[0] bridge, vlan: 4095 is out of range; write a number from 0 to 4094"#,
    ),
    broken(
        r#"[{"type": "bridge", "mtu": 70000}]"#,
        r#"plugins[0] bridge, mtu: 70000 is out of range; write 65535 or less"#,
    ),
    broken(
        r#"[{"type": "bridge", "bridge": "bridge-with-16-b"}]"#,
        r#"plugins[0] bridge, bridge: "bridge-with-16-b" is not the name of an interface; write at most 15 characters without blank, slash or colon"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipMasqBackend": "nftable"}]"#,
        r#"plugins[0] bridge, ipMasqBackend: "nftable" is not an accepted value; write "nftables""#,
    ),
    broken(
        r#"[{"type": "bridge", "hairpinMode": true, "promiscMode": true}]"#,
        r#"plugins[0] bridge, hairpinMode: `hairpinMode` and `promiscMode` exclude each other; remove `hairpinMode` or `promiscMode`"#,
    ),
    broken(
        r#"[{"type": "bridge", "vlanTrunk": [{"minId": 5}]}]"#,
        r#"plugins[0] bridge, vlanTrunk[0].minId: the key is written `minId`; plugins accept it, other programs may not; write `minID`"#,
    ),
    broken(
        r#"[{"type": "bridge", "vlanTrunk": {"id": 5}}]"#,
        r#"plugins[0] bridge, vlanTrunk: {"id":5} is an object, not a list; write [{"id":5}]"#,
    ),
    broken(
        r#"[{"type": "bridge", "runtimeConfig": {"mac": "01:00:5e:00:00:01"}}]"#,
        r#"plugins[0] bridge, runtimeConfig.mac: "01:00:5e:00:00:01" is not the MAC address of one interface; write six bytes such as "02:00:00:00:00:0a""#,
    ),
    broken(
        r#"[{"type": "bridge", "dns": {"nameserver": ["10.0.0.1"]}}]"#,
        r#"plugins[0] bridge, dns.nameserver: the key `nameserver` is unknown, and is ignored; write `nameservers`"#,
    ),
    broken(
        r#"[{"type": "bridge", "dns": {"search": "example.org"}}]"#,
        r#"plugins[0] bridge, dns.search: "example.org" is a string, not a list; write ["example.org"]"#,
    ),
    broken(
        r#"[{"type": "bridge", "capabilities": {"ips": "true"}}]"#,
        r#"plugins[0] bridge, capabilities.ips: "true" is a string, not a boolean; write true without quotes"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].subnet: "10.1.2.0" is not a network; add the prefix length, such as "10.1.2.0/24""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.7/24"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].subnet: "10.1.2.7/24" has host bits; write "10.1.2.0/24""#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/31"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].subnet: "10.1.2.0/31" has no room for containers; write a prefix length of at most 30"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [{"subnet": "10.1.2.0/24"}]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0]: {"subnet":"10.1.2.0/24"} is an object, not a list; write [{"subnet":"10.1.2.0/24"}]"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24", "rangestart": "10.1.2.5"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].rangestart: the key is written `rangestart`; plugins accept it, other programs may not; write `rangeStart`"#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.3.5"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].rangeStart: 10.1.3.5 is not in the subnet 10.1.2.0/24; write an address of 10.1.2.0/24"#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.9", "rangeEnd": "10.1.2.5"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0]: the range begins with 10.1.2.9 and ends with 10.1.2.5; exchange `rangeStart` and `rangeEnd`"#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "10.1.0.0/16"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[1][0]: the range overlaps with ipam.ranges[0][0]; give each address to one range"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"gateway": "10.1.2.1"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].subnet: `subnet` is missing; the plugin cannot work without it"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24", "routes": [{"dest": "0.0.0.0/0", "dst": "0.0.0.0/0"}]}}]"#,
        r#"plugins[0] bridge, ipam.routes[0].dest: the key `dest` is unknown, and is ignored; write `dst`"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "10.9.0.0"}]}}]"#,
        r#"plugins[0] bridge, ipam.routes[0].dst: "10.9.0.0" is not a network; add the prefix length, such as "10.9.0.0/24""#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24", "datadir": "/run/x"}}]"#,
        r#"plugins[0] bridge, ipam.datadir: the key is written `datadir`; plugins accept it, other programs may not; write `dataDir`"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"subnet": "10.1.2.0/24"}}]"#,
        r#"plugins[0] bridge, ipam.type: `ipam` has no `type`, so no addresses are assigned; write the name of an IPAM plugin: "type": "host-local""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-locl", "subnet": "10.1.2.0/24"}}]"#,
        r#"plugins[0] bridge, ipam.type: there is no plugin "host-locl" here, and the name is nearly "host-local"; write "host-local", unless it is a plugin of another project"#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "firewall"}}]"#,
        r#"plugins[0] bridge, ipam.type: "firewall" is not an IPAM plugin; write "host-local", "dhcp" or "static""#,
    ),
    broken(
        r#"[{"type": "bridge", "ipam": {"type": "static", "addresses": [{"address": "10.1.2.5"}]}}]"#,
        r#"plugins[0] bridge, ipam.addresses[0].address: "10.1.2.5" is not an address with a prefix length; add the prefix length, such as "10.1.2.5/24""#,
    ),
    unseen(
        r#"[{"type": "brigde"}]"#,
        r#"plugins[0] brigde, type: there is no plugin "brigde" here, and the name is nearly "bridge"; write "bridge", unless it is a plugin of another project"#,
    ),
    broken(
        r#"[{"bridge": "cni0"}]"#,
        r#"plugins[0], type: the plugin has no `type`; write the name of a plugin, in quotes"#,
    ),
    broken(
        r#"[{"type": "vlan", "vlanId": 5, "ipam": {"type": "dhcp"}}]"#,
        r#"plugins[0] vlan, master: `master` is missing; the plugin cannot work without it"#,
    ),
    broken(r#"[{"type": "ptp"}]"#, r#"plugins[0] ptp, ipam: `ipam` is missing; the plugin cannot work without it"#),
    broken(
        r#"[{"type": "macvlan", "mode": "brigde"}]"#,
        r#"plugins[0] macvlan, mode: "brigde" is not an accepted value; write "bridge""#,
    ),
    broken(
        r#"[{"type": "host-local", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24"}}]"#,
        r#"plugins[0] host-local: host-local assigns addresses for other plugins, and makes no interface; put it into `ipam` of the plugin that makes the interface: "ipam": {"type": "host-local"}"#,
    ),
    broken(
        r#"[{"type": "tuning", "mtu": 1400}]"#,
        r#"plugins[0] tuning: tuning needs the result of a plugin before it, and is the first; put the plugin that makes the interface before it"#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "portmap"}]"#,
        r#"plugins[1] portmap, capabilities: the runtime gives portmap nothing, since the capability `portMappings` is not declared; add "capabilities": {"portMappings": true}"#,
    ),
    unseen(
        r#"[{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMapings": true, "portMappings": true}}]"#,
        r#"plugins[1] portmap, capabilities.portMapings: the key `portMapings` is unknown, and is ignored; write `portMappings`"#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": true}, "markMasqBit": 32}]"#,
        r#"plugins[1] portmap, markMasqBit: 32 is out of range; write a number from 0 to 31"#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "firewall", "ingressPolicy": "isolate"}]"#,
        r#"plugins[1] firewall, ingressPolicy: "isolate" is not an accepted value; write "isolated""#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "firewall", "iptablesAdminChainName": "HAS BLANK"}]"#,
        r#"plugins[1] firewall, iptablesAdminChainName: "HAS BLANK" is not the name of a chain; write at most 28 printable characters without blank or quote"#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "tuning", "sysctl": {"net.core.somaxconn": 500}}]"#,
        r#"plugins[1] tuning, sysctl.net.core.somaxconn: 500 is an integer, not a string; write "500""#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "tuning", "dataDir": "run/x"}]"#,
        r#"plugins[1] tuning, dataDir: "run/x" is not an absolute path; write a path that begins with a slash, such as "/run/x""#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "route-override", "addroute": [{"dst": "10.9.0.0/16"}]}]"#,
        r#"plugins[1] route-override, addroute: the key `addroute` is unknown, and is ignored; write `addroutes`"#,
    ),
    broken(
        r#"{"name": "n", "cniVersion": "1.0", "plugins": [{"type": "bridge"}]}"#,
        r#"list, cniVersion: "1.0" is not a version of the CNI specification; write a string such as "1.0.0", at most "1.1.0""#,
    ),
    broken(
        r#"{"cniVersion": "1.0.0", "plugins": [{"type": "bridge"}]}"#,
        r#"list, name: the network has no `name`; add "name": "…""#,
    ),
    broken(
        r#"{"cniVersion": "1.0.0", "name": "my net", "plugins": [{"type": "bridge"}]}"#,
        r#"list, name: "my net" is not the name of a network; write letters and digits, and behind the first also `_`, `.` and `-`"#,
    ),
    broken(
        r#"{"cniVersion": "1.0.0", "name": "n", "plugin": [{"type": "bridge"}]}"#,
        r#"list, plugins: there is no `plugins`, but a key `plugin`; write `plugins`, a list of plugins"#,
    ),
    broken(
        r#"{"cniVersion": "1.0.0", "name": "n", "plugins": []}"#,
        r#"list, plugins: the list has no plugin; write at least one {"type": …}"#,
    ),
    unseen(
        r#"{"cniVersion": "0.3.1", "name": "n", "plugins": [{"type": "bridge"}, {"type": "firewall"}]}"#,
        r#"plugins[1] firewall: firewall does not take version 0.3.1; write "cniVersion": "1.0.0", or at least "0.4.0""#,
    ),
    unseen(
        r#"{"cniVersion": "1.0.0", "name": "n", "disablecheck": true, "plugins": [{"type": "bridge"}]}"#,
        r#"list, disablecheck: the key `disablecheck` is unknown, and is ignored; write `disableCheck`"#,
    ),
    broken(
        r#"[{"type": "bridge"}, {"type": "firewall", "backend": "ip6tables"}]"#,
        r#"plugins[1] firewall, backend: "ip6tables" is not an accepted value; write "iptables""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.2.0/24", "routes": [{"dst": "10.96.0.1/12"}]}}]"#,
        r#"plugins[0] bridge, ipam.routes[0].dst: "10.96.0.1/12" has host bits, which no route of the kernel has; write "10.96.0.0/12""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "1100:200::/24", "routes": [{"dst": "1100:200::1/24"}]}}]"#,
        r#"plugins[0] bridge, ipam.routes[0].dst: "1100:200::1/24" has host bits, which no route of the kernel has; write "1100:200::/24""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "static", "addresses": [{"address": "10.1.2.5/24"}], "routes": [{"dst": "10.9.0.1/16"}]}}]"#,
        r#"plugins[0] bridge, ipam.routes[0].dst: "10.9.0.1/16" has host bits, which no route of the kernel has; write "10.9.0.0/16""#,
    ),
    unseen(
        r#"[{"type": "bridge"}, {"type": "route-override", "delroutes": [{"dst": "10.9.0.1/16"}]}]"#,
        r#"plugins[1] route-override, delroutes[0].dst: "10.9.0.1/16" has host bits, which no route of the kernel has; write "10.9.0.0/16""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24", "rangeStart": "10.1.2.0"}]]}}]"#,
        r#"plugins[0] bridge, ipam.ranges[0][0].rangeStart: 10.1.2.0 is the network address of 10.1.2.0/24, and no container can use it; write "10.1.2.1""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.1.2.64/26", "rangeStart": "10.1.2.70", "rangeEnd": "10.1.2.127"}}]"#,
        r#"plugins[0] bridge, ipam.rangeEnd: 10.1.2.127 is the broadcast address of 10.1.2.64/26, and no container can use it; write "10.1.2.126""#,
    ),
    unseen(
        r#"[{"type": "bridge", "ipam": {"type": "host-local", "subnet": "fd00::/64", "rangeStart": "fd00::"}}]"#,
        r#"plugins[0] bridge, ipam.rangeStart: fd00:: is the network address of fd00::/64, and no container can use it; write "fd00::1""#,
    ),
    unseen(
        r#"[{"type": "loopback"}, {"type": "bridge"}, {"type": "macvlan", "master": "eth0"}]"#,
        r#"plugins[2] macvlan: bridge and macvlan both make the interface of the container, and ADD fails; remove one of them, or put it into a list of its own"#,
    ),
    unseen(
        "{\"name\": \"n\",",
        "line 1, column 13: this is not JSON: EOF while parsing a value at line 1 column 13; correct the syntax; no runtime can read the file",
    ),
];
