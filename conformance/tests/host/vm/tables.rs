//! Kernels that have no tables for the legacy flavour of iptables, where the real programs say so.

use std::fs;
use std::path::PathBuf;

use cni_conformance::cases::for_each;
use cni_conformance::{Guest, GuestScript, Sandbox, binaries};
use serde_json::{Value, json};

const LEGACY: &str = "/usr/sbin/xtables-legacy-multi";
const NFT: &str = "/usr/sbin/nft";
const EXTENSIONS: &str = "/usr/lib/x86_64-linux-gnu/xtables";

/// What the plugins need of nf_tables.
const NF_TABLES: [&str; 11] = [
    "bridge",
    "veth",
    "nf_tables",
    "nft_chain_nat",
    "nft_ct",
    "nft_masq",
    "nft_nat",
    "nft_fib_inet",
    "nft_fib_ipv4",
    "nft_fib_ipv6",
    "nft_compat",
];

/// What they need of legacy iptables for IPv4, and the part of that for IPv6 that does not need IPv6.
const V4_TABLES: [&str; 11] = [
    "ip6_tables",
    "iptable_filter",
    "iptable_nat",
    "xt_addrtype",
    "xt_comment",
    "xt_conntrack",
    "xt_mark",
    "xt_multiport",
    "xt_nat",
    "xt_tcpudp",
    "xt_MASQUERADE",
];

/// Prints the words of the programs, and the outcome of each call that fails.
const PRELUDE: &str = r#"
export PATH=/bin:/usr/sbin CNI_PATH=/cni CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_NETNS=/run/netns/c1
mkdir -p /cni /sbin /etc /lib/modules /run/netns /sys /tmp /var/lib /var/run
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir -p /run/netns
ip link set lo up
ln -s /bin/busybox /sbin/modprobe
for name in iptables iptables-restore iptables-save ip6tables ip6tables-restore ip6tables-save; do
    ln -s xtables-legacy-multi "/usr/sbin/$name"
done
for name in bridge firewall portmap host-local cni-plugins; do ln "$PLUGINS/bridge" "/cni/$name"; done
for program in iptables ip6tables; do
    for table in filter nat; do
        $program -t $table -S OUTPUT
        echo "words: $program: $table: $?"
    done
    printf '*nat\nCOMMIT\n' | $program-restore --noflush
    echo "words: $program-restore: $?"
done
start() {
    umount /run/netns/c1 2>/dev/null
    : >/run/netns/c1
    unshare --net=/run/netns/c1 true
}
run() {
    if CNI_COMMAND=$1 "/cni/$2" >/tmp/out 2>/tmp/err; then
        [ "$1" != ADD ] || cp /tmp/out /tmp/result
    else
        echo "FAILED: $1 $2: $(cat /tmp/out /tmp/err)"
    fi
}
left() {
    nft list ruleset | grep -e '10[.]88[.]0' -e fd00:88 -e 8080 && echo "FAILED: rules are left"
    iptables -t nat -S | grep -e '10[.]88[.]0' -e 8080 && echo "FAILED: rules of iptables are left"
    find /var/lib/cni/networks/n1 -name '*.*.*.*' -o -name '*:*' | grep . && echo "FAILED: leases are left"
}
"#;

/// A kernel, and how containers fare on it: more words of its command line, its modules, the families of the network, what the programs say (where
/// they cannot load a module, the reason that they name is that of an earlier call), and what ADD makes where no back end is named.
type Kernel = (&'static str, &'static [&'static str], usize, &'static str, &'static str);

const MASQUERADE: &str = "inet cni_plugins_masquerade";

const KERNELS: [(&str, Kernel); 3] = [
    ("no modules of iptables", ("", &[], 2, "can't initialize iptables table", MASQUERADE)),
    ("no tables", ("", &["ip_tables", "ip6_tables"], 2, "Table does not exist", MASQUERADE)),
    ("no IPv6", ("ipv6.disable=1", &V4_TABLES, 1, "Address family not supported", "CNI-HOSTPORT-DNAT")),
];

/// The plugins of a network, in the order of ADD.
fn plugins(version: &str, families: usize) -> Vec<Value> {
    let ranges = [json!([{"subnet": "10.88.0.0/24"}]), json!([{"subnet": "fd00:88::/64"}])];
    let ipam = json!({"type": "host-local", "ranges": ranges[..families]});
    let mut plugins = vec![
        json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": ipam}),
        json!({"type": "firewall"}),
        json!({"type": "portmap", "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}),
    ];
    plugins.retain(|plugin| version != "0.3.1" || plugin["type"] != "firewall");
    for plugin in &mut plugins {
        plugin["cniVersion"] = json!(version);
        plugin["name"] = json!("n1");
        plugin["cni.dev/valid-attachments"] = json!([]);
    }
    plugins
}

/// The lines of a script that run a verb of every plugin.
fn call(verb: &str, plugins: &[Value], has_result: bool) -> String {
    let mut calls: Vec<String> = Vec::new();
    for (number, plugin) in plugins.iter().enumerate() {
        let mut plugin = plugin.clone();
        if has_result && (number > 0 || verb != "ADD") {
            plugin["prevResult"] = json!("RESULT");
        }
        let name = plugin["type"].as_str().expect("a type").to_owned();
        let input = plugin.to_string().replace("\"RESULT\"", "$(cat /tmp/result)");
        calls.push(format!("run {verb} {name} <<END\n{input}\nEND\n"));
    }
    if verb == "DEL" {
        calls.reverse();
    }
    calls.concat()
}

/// Lives of containers that end with DEL and with GC, which the oldest version does not have.
fn text(families: usize) -> String {
    let plugins = plugins(if families == 2 { "1.1.0" } else { "0.3.1" }, families);
    let mut lines = format!("PLUGINS={}\n{PRELUDE}", binaries::under_test().display());
    for end in ["DEL", "GC"].iter().take(families) {
        lines += &format!("start\n{}nft list ruleset\niptables -t nat -S\n", call("ADD", &plugins, true));
        let check = if families == 2 { call("CHECK", &plugins, true) } else { String::new() };
        lines += &format!("{check}{}left\n", call(end, &plugins, false));
    }
    lines + "/cni/cni-plugins doctor\n"
}

#[test]
fn a_container_lives_and_leaves_nothing_where_the_kernel_lacks_tables() {
    let extensions = fs::read_dir(EXTENSIONS).expect("the extensions of iptables").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = extensions.collect();
    files.extend([LEGACY.into(), NFT.into(), binaries::under_test().join("bridge")]);
    for_each(KERNELS, |(words, modules, families, says, makes)| {
        let sandbox = Sandbox::new();
        let modules = [&NF_TABLES, modules].concat();
        let script = GuestScript { words, modules: &modules, files: files.clone(), text: text(families) };
        let said = Guest::run(sandbox.host(), &script);
        assert!(said.contains(says) && said.contains(makes) && !said.contains("FAILED"), "{said}");
        assert_eq!(said.contains("the kernel has no tables for it"), families == 2, "{said}");
    });
}
