//! The reference runs one command of iptables after the other; ours writes what comes of it. Here the commands are run,
//! for any argument.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
struct Argument {
    dns_address: Option<[u8; 4]>,
    dns_port: u16,
    proxy: u16,
    inbound: u16,
    outbound: u16,
    inbound_ports: Vec<u16>,
    outbound_ports: Vec<u16>,
    networks: Vec<([u8; 4], u8)>,
    users: Vec<u16>,
}

fn argument() -> impl Strategy<Value = Argument> {
    let few = |one| proptest::collection::vec(one, 0..4);
    let networks = proptest::collection::vec((any::<[u8; 4]>(), 1..=32_u8), 0..4);
    let dns = (proptest::option::of(any::<[u8; 4]>()), prop_oneof![Just(0), any::<u16>()]);
    let lists = (few(any::<u16>()), few(any::<u16>()), networks, few(any::<u16>()));
    (dns, any::<u16>(), 1..=u16::MAX, any::<u16>(), lists).prop_map(|(dns, proxy, inbound, outbound, lists)| Argument {
        dns_address: dns.0,
        dns_port: dns.1,
        proxy,
        inbound,
        outbound,
        inbound_ports: lists.0,
        outbound_ports: lists.1,
        networks: lists.2,
        users: lists.3,
    })
}

fn dotted(octets: [u8; 4]) -> String {
    octets.map(|octet| octet.to_string()).join(".")
}

fn list(entries: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", entries.into_iter().map(|entry| format!("\"{entry}\"")).collect::<Vec<_>>().join(","))
}

impl Argument {
    fn json(&self) -> String {
        let numbers = |numbers: &[u16]| list(numbers.iter().map(u16::to_string));
        format!(
            r#"{{"ConsulDNSIP":"{}","ConsulDNSPort":{},"ProxyUserID":"{}","ProxyInboundPort":{},"ProxyOutboundPort":{},
            "ExcludeInboundPorts":{},"ExcludeOutboundPorts":{},"ExcludeOutboundCIDRs":{},"ExcludeUIDs":{}}}"#,
            self.dns_address.map(dotted).unwrap_or_default(),
            self.dns_port,
            self.proxy,
            self.inbound,
            self.outbound,
            numbers(&self.inbound_ports),
            numbers(&self.outbound_ports),
            list(self.networks.iter().map(|(address, prefix)| format!("{}/{prefix}", dotted(*address)))),
            numbers(&self.users),
        )
    }

    /// The arguments of each command behind `-t nat`, as the reference's description lists them.
    fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> =
            ["INBOUND", "IN_REDIRECT", "OUTPUT", "REDIRECT"].map(|name| format!("-N CONSUL_PROXY_{name}")).to_vec();
        commands.push("-N CONSUL_DNS_REDIRECT".to_owned());
        let mut run = |command: String| commands.push(command);
        let outbound = if self.outbound == 0 { 15001 } else { self.outbound };
        run(format!("-A CONSUL_PROXY_REDIRECT -p tcp -j REDIRECT --to-ports {outbound}"));
        let address = self.dns_address.map(dotted);
        let (only, to) = match (address, self.dns_port) {
            (None, 0) => (None, None),
            (Some(address), 0) => (Some(String::new()), Some(address)),
            (address, port) => {
                let address = address.unwrap_or_else(|| "127.0.0.1".to_owned());
                (Some(format!("-d {address}/32 ")), Some(format!("{address}:{port}")))
            }
        };
        for (chain, target) in [
            ("CONSUL_DNS_REDIRECT", to.map(|to| format!("DNAT --to-destination {to}"))),
            ("OUTPUT", Some("CONSUL_DNS_REDIRECT".to_owned())),
        ] {
            for proto in ["udp", "tcp"] {
                if let (Some(only), Some(target)) = (&only, &target) {
                    run(format!("-A {chain} {only}-p {proto} -m {proto} --dport 53 -j {target}"));
                }
            }
        }
        run("-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT".to_owned());
        run(format!("-A CONSUL_PROXY_OUTPUT -m owner --uid-owner {} -j RETURN", self.proxy));
        run("-A CONSUL_PROXY_OUTPUT -d 127.0.0.1/32 -j RETURN".to_owned());
        run("-A CONSUL_PROXY_OUTPUT -j CONSUL_PROXY_REDIRECT".to_owned());
        for port in &self.outbound_ports {
            run(format!("-I CONSUL_PROXY_OUTPUT -p tcp -m tcp --dport {port} -j RETURN"));
        }
        for (address, prefix) in &self.networks {
            let bits = u32::from_be_bytes(*address) & u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or_default();
            run(format!("-I CONSUL_PROXY_OUTPUT -d {}/{prefix} -j RETURN", dotted(bits.to_be_bytes())));
        }
        for user in &self.users {
            run(format!("-I CONSUL_PROXY_OUTPUT -m owner --uid-owner {user} -j RETURN"));
        }
        run(format!("-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports {}", self.inbound));
        run("-A PREROUTING -p tcp -j CONSUL_PROXY_INBOUND".to_owned());
        run("-A CONSUL_PROXY_INBOUND -p tcp -j CONSUL_PROXY_IN_REDIRECT".to_owned());
        for port in &self.inbound_ports {
            run(format!("-I CONSUL_PROXY_INBOUND -p tcp -m tcp --dport {port} -j RETURN"));
        }
        commands
    }
}

/// The table after all commands, as `iptables -S` prints it.
fn after(commands: &[String]) -> String {
    let mut chains: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for command in commands {
        let mut words = command.splitn(3, ' ');
        let (what, chain, rule) = (words.next(), words.next().expect("a chain"), words.next());
        let rules = chains.entry(chain).or_default();
        let rule = rule.map(|rule| format!("-A {chain} {rule}"));
        if what == Some("-I") { rules.insert(0, rule.expect("a rule")) } else { rules.extend(rule) }
    }
    let own = chains.keys().filter(|chain| chain.starts_with("CONSUL")).map(|chain| format!("-N {chain}"));
    own.chain(chains.values().flatten().cloned()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_commands_are_those_of_the_reference() {
    let nomad = Argument {
        dns_address: Some([192, 168, 1, 117]),
        dns_port: 8600,
        proxy: 101,
        inbound: 25018,
        outbound: 15001,
        inbound_ports: vec![9002],
        outbound_ports: Vec::new(),
        networks: Vec::new(),
        users: Vec::new(),
    };
    assert_eq!(nomad.commands().len(), 18);
    assert_eq!(after(&nomad.commands()), NOMADS_RULES);
}

proptest! {
    #[test]
    fn every_argument_makes_what_the_commands_of_the_reference_make(argument in argument()) {
        let text = made(&argument.json()).map_err(|error| error.in_full());
        prop_assert_eq!(text, Ok(after(&argument.commands())));
    }

    #[test]
    fn no_argument_panics_and_what_is_refused_changes_nothing(text in "\\PC{0,80}", key in 0..9_usize, value in "(\\[?\"[0-9a-z:./,-]{0,20}\"\\]?|-?[0-9]{0,6}|null|\\{\\}|[\\[\\]])") {
        let keys = ["ConsulDNSIP", "ConsulDNSPort", "ProxyUserID", "ProxyInboundPort", "ProxyOutboundPort",
            "ExcludeInboundPorts", "ExcludeOutboundPorts", "ExcludeOutboundCIDRs", "ExcludeUIDs"];
        let one = format!(r#"{{"ProxyUserID":"1","ProxyInboundPort":5,"{}":{value}}}"#, keys[key]);
        for argument in [text.replace([';', '='], ""), one] {
            let mut host = machine();
            let before = host.state();
            let caller = caller(&argument);
            match caller.add(&ConsulCni, &mut host) {
                Ok(_) => {
                    caller.check(&ConsulCni, &mut host).map_err(|error| TestCaseError::fail(error.in_full()))?;
                    caller.del(&ConsulCni, &mut host).map_err(|error| TestCaseError::fail(error.in_full()))?;
                }
                Err(error) => prop_assert!([4, 6].contains(&error.code().number()), "{}", error.in_full()),
            }
            prop_assert_eq!(host.state(), before);
        }
    }
}
