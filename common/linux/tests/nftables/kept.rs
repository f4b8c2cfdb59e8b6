//! Kept tables: they tell what exists, until something changes.

use std::ffi::OsString;

use cni_linux::iptables::AutoIptables;
use cni_linux::nftables::KeptTables;
use cni_netfilter::Netfilter as _;
use cni_netfilter::nftables::{ensure, missing, remove};

use super::host::{alone, nftables};
use super::wanted::{masquerade, remove_masquerade, spoof};

#[test]
fn what_others_change_is_noticed_before_the_next_decision() {
    alone(|| {
        for who in [1, 2] {
            ensure(&mut nftables(), &masquerade(who)).expect("made");
            ensure(&mut nftables(), &spoof(who)).expect("made");
        }
        let kept = KeptTables::default();
        let hosts = [(); 2].map(|()| {
            let mut host = AutoIptables::new().with_path(OsString::from("/nonexistent"));
            host.keep_tables(kept.clone());
            host
        });
        let mut hosts = hosts.into_iter();
        let (mut one, mut other) = (hosts.next().expect("two"), hosts.next().expect("two"));
        let mut are_missing = || {
            [&mut one, &mut other].map(|host| {
                host.expire();
                [1, 2, 3].map(|who| {
                    [masquerade(who), spoof(who)].map(|want| missing(host.nftables(), &want).expect("looked").is_some())
                })
            })
        };
        assert_eq!(are_missing(), [[[false; 2], [false; 2], [true; 2]]; 2]);
        remove(&mut nftables(), &remove_masquerade(2)).expect("removed");
        assert_eq!(are_missing(), [[[false; 2], [true, false], [true; 2]]; 2]);
        ensure(&mut nftables(), &masquerade(2)).expect("made");
        assert_eq!(are_missing(), [[[false; 2], [false; 2], [true; 2]]; 2]);
    });
}
