//! Kernels that have no tables for a flavour of iptables, where the real programs say so.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cni_conformance::cases::for_each;
use cni_conformance::{Guest, GuestScript, Sandbox, binaries};
use serde_json::{Value, json};

const PROGRAMS: [&str; 3] = ["/usr/sbin/xtables-legacy-multi", "/usr/sbin/xtables-nft-multi", "/usr/sbin/nft"];
const EXTENSIONS: &str = "/usr/lib/x86_64-linux-gnu/xtables";

const LINKS: &str = "bridge veth";

/// What the plugins need of nf_tables.
const NF_TABLES: &str = "nf_tables nft_chain_nat nft_ct nft_masq nft_nat nft_fib_inet nft_fib_ipv4 nft_fib_ipv6";

/// What rules need in the tables of iptables, of either flavour.
const MATCHES: &str =
    "nft_compat xt_addrtype xt_comment xt_conntrack xt_mark xt_multiport xt_nat xt_tcpudp xt_MASQUERADE";

/// The legacy tables of IPv4, and the part of those of IPv6 that does not need IPv6.
const V4_TABLES: &str = "ip6_tables iptable_filter iptable_nat";

/// Prints the words of the programs, and the outcome of each call that fails.
const PRELUDE: &str = r#"
export PATH=/bin:/usr/sbin CNI_PATH=/cni CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_NETNS=/run/netns/c1
mkdir -p /cni /sbin /etc /lib/modules /run/netns /sys /tmp /var/lib /var/run
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir -p /run/netns
ip link set lo up
ln -s /bin/busybox /sbin/modprobe
for name in bridge firewall portmap host-local cni-plugins; do ln "$PLUGINS/bridge" "/cni/$name"; done
flavour() {
    for name in iptables iptables-restore iptables-save ip6tables ip6tables-restore ip6tables-save; do
        ln -sf "xtables-$1-multi" "/usr/sbin/$name"
    done
}
words() {
    for program in iptables ip6tables; do
        $program -t nat -S OUTPUT
        printf '*nat\nCOMMIT\n' | $program-restore --noflush
    done
}
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

/// A kernel, and how containers fare on it: more words of its command line, its modules, the families of the network, the flavour at each ADD
/// and after it, and the verbs that fail; what the programs say (where they cannot load a module, the reason that they name is that of an earlier
/// call), what ADD makes where no back end is named, and what `doctor` says.
type Kernel = (&'static str, &'static [&'static str], usize, &'static [[&'static str; 2]], &'static [&'static str]);

const MASQUERADE: &str = "inet cni_plugins_masquerade";
const DNAT: &str = "chain CNI-HOSTPORT-DNAT";
const TABLELESS: &str = "the kernel has no tables for it";

const KERNELS: [(&[&str], Kernel); 4] = [
    (
        &["can't initialize iptables table", MASQUERADE, DNAT, TABLELESS],
        ("", &[LINKS, NF_TABLES, MATCHES], 2, &[["legacy", "nft"], ["nft", "legacy"], ["nft", "legacy"]], &[]),
    ),
    (
        &["Table does not exist", MASQUERADE, TABLELESS],
        ("", &[LINKS, NF_TABLES, "ip_tables ip6_tables"], 2, &[["legacy"; 2]; 2], &[]),
    ),
    (
        &["Address family not supported", "-N CNI-HOSTPORT-DNAT", DNAT],
        ("ipv6.disable=1", &[LINKS, NF_TABLES, V4_TABLES, MATCHES], 1, &[["legacy"; 2], ["nft"; 2]], &[]),
    ),
    (
        &["Failed to initialize nft: Protocol not supported", "iptables cannot be used"],
        ("", &[LINKS], 2, &[["nft"; 2]; 2], &["ADD", "CHECK", "STATUS"]),
    ),
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
fn call(verb: &str, plugins: &[Value]) -> String {
    let calls = plugins.iter().enumerate().map(|(number, plugin)| {
        let mut plugin = plugin.clone();
        if verb == "CHECK" || (verb == "ADD" && number > 0) {
            plugin["prevResult"] = json!("RESULT");
        }
        let input = plugin.to_string().replace("\"RESULT\"", "$(cat /tmp/result)");
        format!("run {verb} {} <<END\n{input}\nEND\n", plugin["type"].as_str().expect("a type"))
    });
    if verb == "DEL" { calls.rev().collect() } else { calls.collect() }
}

/// Lives of containers that end with DEL and with GC, which the oldest version does not have.
fn text(families: usize, lives: &[[&str; 2]]) -> String {
    let (version, ends) = if families == 2 { ("1.1.0", ["DEL", "GC"]) } else { ("0.3.1", ["DEL"; 2]) };
    let plugins = plugins(version, families);
    let call = |verb| call(verb, &plugins);
    let (add, checks) =
        (call("ADD"), if families == 2 { ["CHECK", "STATUS"].map(call).concat() } else { String::new() });
    let mut lines = format!("PLUGINS={}\n{PRELUDE}", binaries::under_test().display());
    for ([before, after], end) in lives.iter().zip(ends.iter().cycle()) {
        lines +=
            &format!("flavour {before}\nwords\nstart\n{add}nft list ruleset\niptables -t nat -S\nflavour {after}\n");
        lines += &format!("{checks}{}left\n", call(end));
    }
    lines + "/cni/cni-plugins doctor\n"
}

#[test]
fn a_container_lives_and_leaves_nothing_where_the_kernel_lacks_tables() {
    let extensions = fs::read_dir(EXTENSIONS).expect("the extensions of iptables").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = extensions.chain(PROGRAMS.map(PathBuf::from)).collect();
    files.push(binaries::under_test().join("bridge"));
    for_each(KERNELS.map(|kernel| (kernel.0[0], kernel)), |(shows, (words, modules, families, lives, fails))| {
        let (sandbox, modules) = (Sandbox::new(), modules.join(" "));
        let modules: Vec<&str> = modules.split(' ').collect();
        let script = GuestScript { words, modules: &modules, files: files.clone(), text: text(families, lives) };
        let said = Guest::run(sandbox.host(), &script);
        let failed = said.lines().filter_map(|line| line.strip_prefix("FAILED: ")?.split(' ').next());
        assert!(failed.collect::<BTreeSet<_>>().into_iter().eq(fails.iter().copied()), "{said}");
        assert!(shows.iter().all(|words| said.contains(words)), "{said}");
        assert_eq!(said.contains(TABLELESS), shows.contains(&TABLELESS), "{said}");
    });
}
