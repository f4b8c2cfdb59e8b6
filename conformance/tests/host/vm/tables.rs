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

/// A kernel, and how containers fare on it.
struct Kernel {
    words: &'static str,
    modules: &'static [&'static str],
    /// The families of the network.
    families: usize,
    /// What the programs say. Where they cannot load a module, the reason that they name is that of an earlier call.
    says: &'static str,
    /// What ADD makes where no back end is named.
    makes: &'static str,
}

const KERNELS: [(&str, Kernel); 3] = [
    (
        "no modules of iptables",
        Kernel {
            words: "",
            modules: &[],
            families: 2,
            says: "can't initialize iptables table",
            makes: "inet cni_plugins_masquerade",
        },
    ),
    (
        "no tables",
        Kernel {
            words: "",
            modules: &["ip_tables", "ip6_tables"],
            families: 2,
            says: "Table does not exist",
            makes: "inet cni_plugins_masquerade",
        },
    ),
    (
        "no IPv6",
        Kernel {
            words: "ipv6.disable=1",
            modules: &V4_TABLES,
            families: 1,
            says: "Address family not supported",
            makes: "CNI-HOSTPORT-DNAT",
        },
    ),
];

/// The plugins of a network, in the order of ADD.
fn plugins(version: &str, backend: Option<&str>, families: usize) -> [Value; 3] {
    let ranges = [json!([{"subnet": "10.88.0.0/24"}]), json!([{"subnet": "fd00:88::/64"}])];
    let ipam = json!({"type": "host-local", "ranges": ranges[..families]});
    let mut plugins = [
        json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": ipam}),
        json!({"type": "firewall"}),
        json!({"type": "portmap", "runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}}),
    ];
    for (plugin, key) in plugins.iter_mut().zip(["ipMasqBackend", "backend", "backend"]) {
        plugin["cniVersion"] = json!(version);
        plugin["name"] = json!("n1");
        plugin["cni.dev/valid-attachments"] = json!([]);
        backend.iter().for_each(|backend| plugin[key] = json!(backend));
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

/// A container's life without a back end, and with one that is named.
fn text(kernel: &Kernel) -> String {
    let version = if kernel.families == 2 { "1.1.0" } else { "0.3.1" };
    let mut own = plugins(version, None, kernel.families).to_vec();
    own.retain(|plugin| version != "0.3.1" || plugin["type"] != "firewall");
    let mut lines = format!("PLUGINS={}\n{PRELUDE}", binaries::under_test().display());
    lines += &format!("start\n{}", call("ADD", &own, true));
    lines += "nft list ruleset\niptables -t nat -S\n";
    if kernel.families == 2 {
        lines += &call("CHECK", &own, true);
    }
    lines += &format!("{}left\n", call("DEL", &own, false));
    let named = plugins("1.1.0", Some("nftables"), kernel.families);
    for end in ["DEL", "GC"] {
        lines += &format!("start\n{}{}left\n", call("ADD", &named, true), call(end, &named, false));
    }
    lines + "/cni/cni-plugins doctor\n"
}

#[test]
fn a_container_lives_and_leaves_nothing_where_the_kernel_lacks_tables() {
    let extensions = fs::read_dir(EXTENSIONS).expect("the extensions of iptables").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = extensions.collect();
    files.extend([LEGACY.into(), NFT.into(), binaries::under_test().join("bridge")]);
    for_each(KERNELS, |kernel| {
        let sandbox = Sandbox::new();
        let modules = [&NF_TABLES, kernel.modules].concat();
        let script = GuestScript { words: kernel.words, modules: &modules, files: files.clone(), text: text(&kernel) };
        let said = Guest::run(sandbox.host(), &script);
        assert!(said.contains(kernel.says) && said.contains(kernel.makes) && !said.contains("FAILED"), "{said}");
        assert_eq!(said.contains("the kernel has no tables for it"), kernel.families == 2, "{said}");
    });
}
