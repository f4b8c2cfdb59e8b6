//! `CNI_ARGS`: the values stay the same when they are written again, in any order and with unknown pairs.

use cni_core::request::CniArgs;

use crate::input::Documents;

const OWN: [&str; 2] = ["CONSUL_IPTABLES_CONFIG", "NAME"];

pub fn run(input: &[u8]) -> Option<()> {
    let text = Documents::new(input).text();
    let args = CniArgs::parse(&text, &OWN).ok()?;
    assert_eq!(CniArgs::parse(&written(&args), &OWN).as_ref(), Ok(&args), "written again");
    let more = format!("IgnoreUnknown=1;Other=a=b;{}", written(&args));
    assert_eq!(CniArgs::parse(&more, &OWN).as_ref(), Ok(&args), "beside others");
    let CniArgs { ip, gateway, mac, .. } = CniArgs::parse(&format!("IgnoreUnknown=1;{text}"), &[]).unwrap_or_default();
    if !text.contains("IgnoreUnknown=") {
        assert_eq!((ip, gateway, mac), (args.ip, args.gateway, args.mac), "without keys of its own");
    }
    Some(())
}

/// The arguments, last pair first.
fn written(args: &CniArgs) -> String {
    let CniArgs { ip, gateway, mac, .. } = args;
    let common = [("MAC", mac.as_deref()), ("GATEWAY", gateway.as_deref()), ("IP", ip.as_deref())];
    let own = OWN.map(|key| (key, args.own(key)));
    let pairs = common.into_iter().chain(own).filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    pairs.chain(["IgnoreUnknown=true".to_owned()]).collect::<Vec<_>>().join(";")
}
