use super::*;
use netlink_packet_core::Emitable;
use proptest::prelude::*;

fn bytes(message: &TcMessage) -> Vec<u8> {
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    bytes
}

fn qdisc(kind: &str, handle: TcHandle, shaper: &Shaper) -> Vec<u8> {
    let mut message = message(7, TcHandle::ROOT, handle);
    message.attributes = vec![TcAttribute::Kind(kind.to_owned()), TcAttribute::Options(options(shaper))];
    bytes(&message)
}

fn filter(options: Vec<TcOption>) -> Vec<u8> {
    let mut message = message(7, INGRESS, 0x8000_0800.into());
    message.header.info = info(3);
    message.attributes = vec![TcAttribute::Kind("u32".to_owned()), TcAttribute::Options(options)];
    bytes(&message)
}

const SHAPER: Shaper = Shaper { rate: 1_000_000, limit: 35_000, buffer: 156_250 };

#[test]
fn only_a_token_bucket_of_the_plugins_is_a_shaper() {
    assert_eq!(read_root(&qdisc("tbf", OWN, &SHAPER)), Some(RootQdisc::Shaper(SHAPER)));
    let other = |kind: &str| Some(RootQdisc::Other { kind: kind.to_owned() });
    assert_eq!(read_root(&qdisc("tbf", CLASS, &SHAPER)), other("tbf"));
    assert_eq!(read_root(&qdisc("htb", OWN, &SHAPER)), other("htb"));
    assert_eq!(read_root(&qdisc("noqueue", TcHandle::UNSPEC, &SHAPER)), None);
}

#[test]
fn a_filter_for_some_packets_is_no_redirect() {
    let mut options = redirect_options(9, FilterSlot::First);
    if let TcOption::U32(TcFilterU32Option::Selector(selector)) = &mut options[0] {
        selector.keys[0].mask = 1;
    }
    let read = read_filter(&filter(options)).expect("a filter");
    assert_eq!(read.redirect, None);
    let others = |priorities: [u32; 2]| priorities.map(|priority| ReceiveFilter { info: info(priority), ..read });
    assert_eq!(FilterSlot::First.priority(&[read]), 1);
    assert_eq!(FilterSlot::First.priority(&others([1, 2])), 3);
    assert_eq!(FilterSlot::Last.priority(&[read]), 49152);
    assert_eq!(FilterSlot::Last.priority(&others([49152, 49151])), 49150);
    assert_eq!(FilterSlot::LastInForeignPlace.priority(&others([1, 49151])), 49150);
    let [own, foreign] = others([49152, 49151]);
    assert!(!own.is_in_foreign_place() && foreign.is_in_foreign_place() && !read.is_in_foreign_place());
}

proptest! {
    #[test]
    fn a_limit_is_read_as_it_was_written(rate in any::<u64>(), limit in any::<u32>(), buffer in any::<u32>()) {
        let shaper = Shaper { rate, limit, buffer };
        prop_assert_eq!(read_root(&qdisc("tbf", OWN, &shaper)), Some(RootQdisc::Shaper(shaper)));
    }

    #[test]
    fn torn_messages_are_not_misread(length in 0..200_usize) {
        for whole in [qdisc("tbf", OWN, &SHAPER), filter(redirect_options(9, FilterSlot::First))] {
            let torn = &whole[..length.min(whole.len())];
            let _ = (read_root(torn), read_filter(torn), read_place(torn));
        }
    }
}
