//! A client and a server that is played, with a clock that is.

use super::*;
use proptest::prelude::*;

const MAC: Hardware = [2, 0, 0, 0, 0, 9];
const SERVER_MAC: Hardware = [2, 0, 0, 0, 0, 1];
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 5);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 6);

fn identity() -> Identity {
    let provided = vec![(code::HOST_NAME, b"web".to_vec())];
    Identity { mac: MAC, id: b"\0c1/n1/eth0".to_vec(), provided, requested: vec![3, 1], broadcast: false }
}

fn at(seconds: f64) -> Moment {
    Moment::at(Duration::from_secs_f64(seconds))
}

fn begun() -> (Client, Vec<Action>) {
    Client::begin(identity(), Limits::default(), 1, at(0.0))
}

fn sent(actions: &[Action]) -> &OutgoingPacket {
    match actions {
        [Action::Send(sending), ..] => sending,
        other => panic!("nothing is sent: {other:?}"),
    }
}

/// What a server says to a message.
fn answer(kind: MessageType, to: &OutgoingPacket, address: Ipv4Addr, seconds: u32) -> Incoming {
    let mut options = DhcpOptions::default();
    options.set(code::SERVER_IDENTIFIER, &SERVER.octets());
    options.set(code::SUBNET_MASK, &[255, 255, 255, 0]);
    options.set(code::LEASE_TIME, &seconds.to_be_bytes());
    Incoming { kind, xid: to.message.xid, address, mac: MAC, options }
}

/// A client with an offer that it has accepted, and what it asks then.
fn offered() -> (Client, OutgoingPacket) {
    let (mut client, actions) = begun();
    let offer = answer(MessageType::Offer, sent(&actions), ADDRESS, 20);
    let request = sent(&client.on_message(&offer, SERVER_MAC, at(0.0))).clone();
    (client, request)
}

/// A client whose lease is confirmed at the start with changes of the answer.
fn bound_with(seconds: u32, change: impl FnOnce(&mut DhcpOptions)) -> Client {
    let (mut client, request) = offered();
    let mut ack = answer(MessageType::Ack, &request, ADDRESS, seconds);
    change(&mut ack.options);
    assert_eq!(client.on_message(&ack, SERVER_MAC, at(0.0)), [Action::Leased]);
    client
}

/// A client with a lease of 20 seconds since the start.
fn bound() -> Client {
    bound_with(20, |_| {})
}

/// What a client asks at this time, or first after it.
fn asked_at(client: &mut Client, now: &mut Moment, when: Moment) -> OutgoingPacket {
    loop {
        let question = sent(&next(client, now)).clone();
        if *now >= when {
            return question;
        }
    }
}

/// Lets the time pass until the client does something.
fn next(client: &mut Client, now: &mut Moment) -> Vec<Action> {
    for _ in 0..100 {
        *now = client.due(*now).expect("something is to be done");
        let actions = client.on_time(*now);
        if !actions.is_empty() {
            return actions;
        }
    }
    panic!("the client wakes for nothing: {client:?}");
}

#[test]
fn an_address_is_looked_for_accepted_and_leased() {
    let (mut client, actions) = begun();
    let discover = sent(&actions).clone();
    assert_eq!((discover.message.kind, discover.source), (MessageType::Discover, Ipv4Addr::UNSPECIFIED));
    assert_eq!((discover.destination, discover.neighbour), (Ipv4Addr::BROADCAST, None));
    let options = &discover.message.options;
    assert_eq!(options.get(code::PARAMETER_REQUEST_LIST), Some(&[3, 1][..]));
    assert_eq!(options.get(code::CLIENT_IDENTIFIER), Some(&b"\0c1/n1/eth0"[..]));
    assert_eq!(options.get(code::HOST_NAME), Some(&b"web"[..]));
    assert_eq!(options.get(code::MAXIMUM_MESSAGE_SIZE), Some(&[5, 220][..]));
    let actions = client.on_message(&answer(MessageType::Offer, &discover, ADDRESS, 20), SERVER_MAC, at(0.1));
    let request = sent(&actions);
    assert_eq!((request.message.kind, request.message.own), (MessageType::Request, Ipv4Addr::UNSPECIFIED));
    assert_eq!(request.message.options.array(code::REQUESTED_ADDRESS), Some(ADDRESS.octets()));
    assert_eq!(request.message.options.array(code::SERVER_IDENTIFIER), Some(SERVER.octets()));
    let ack = answer(MessageType::Ack, request, ADDRESS, 20);
    assert_eq!(client.on_message(&ack, SERVER_MAC, at(0.2)), [Action::Leased]);
    let lease = client.lease().expect("a lease");
    assert_eq!((lease.grant.address, lease.since, lease.end()), (ADDRESS, at(0.2), Some(at(20.2))));
    assert!(!client.listens(at(0.2)));
}

#[test]
fn messages_for_others_and_of_other_questions_change_nothing() {
    let (mut client, actions) = begun();
    let offer = answer(MessageType::Offer, sent(&actions), ADDRESS, 20);
    let before = client.clone();
    let strange = [
        Incoming { mac: [7; 6], ..offer.clone() },
        Incoming { xid: offer.xid ^ 1, ..offer.clone() },
        Incoming { kind: MessageType::Ack, ..offer.clone() },
        Incoming { kind: MessageType::Nak, ..offer.clone() },
        Incoming { address: Ipv4Addr::UNSPECIFIED, ..offer.clone() },
        Incoming { options: DhcpOptions::default(), ..offer.clone() },
    ];
    for message in strange {
        assert_eq!(client.on_message(&message, SERVER_MAC, at(0.1)), [], "{message:?}");
        assert_eq!(client, before);
    }
    let actions = client.on_message(&offer, SERVER_MAC, at(0.1));
    let mut of_another = answer(MessageType::Ack, sent(&actions), ADDRESS, 20);
    of_another.options.set(code::SERVER_IDENTIFIER, &[10, 1, 2, 77]);
    assert_eq!(client.on_message(&of_another, SERVER_MAC, at(0.2)), []);
}

#[test]
fn nobody_is_asked_for_longer_than_the_limit() {
    let (mut client, _) = begun();
    let (mut now, mut messages) = (at(0.0), 1);
    let end = loop {
        match next(&mut client, &mut now).pop().expect("an action") {
            Action::Send(sending) => {
                messages += 1;
                assert_eq!(sending.message.kind, MessageType::Discover);
            }
            end @ (Action::Leased | Action::Failed(_) | Action::Lost(_)) => break end,
        }
    };
    assert_eq!((end, now), (Action::Failed("no more tries".to_owned()), at(208.0)));
    assert!((9..14).contains(&messages), "{messages} messages");
    assert_eq!(client.due(now), None);
}

#[test]
fn an_offer_that_is_not_confirmed_or_refused_is_given_up_for_others() {
    let (mut client, _) = offered();
    let (mut now, mut kinds) = (at(0.0), Vec::new());
    while kinds.last() != Some(&MessageType::Discover) {
        kinds.push(sent(&next(&mut client, &mut now)).message.kind);
    }
    assert_eq!(kinds, [MessageType::Request, MessageType::Request, MessageType::Request, MessageType::Discover]);

    let (mut client, request) = offered();
    assert_eq!(client.on_message(&answer(MessageType::Nak, &request, ADDRESS, 20), SERVER_MAC, at(0.0)), []);
    let mut now = at(0.0);
    assert_eq!(sent(&next(&mut client, &mut now)).message.kind, MessageType::Discover);
    assert!(now > at(0.1), "not at once: {now:?}");
}

#[test]
fn an_answer_that_cannot_be_used_is_released() {
    let (mut client, request) = offered();
    let mut ack = answer(MessageType::Ack, &request, ADDRESS, 20);
    ack.options.set(code::SUBNET_MASK, &[]);
    let actions = client.on_message(&ack, SERVER_MAC, at(0.0));
    assert_eq!((sent(&actions).message.kind, sent(&actions).source), (MessageType::Release, ADDRESS));
    assert_eq!(actions.last(), Some(&Action::Failed("DHCP option Subnet Mask not found in DHCPACK".to_owned())));
}

/// Anybody on the network can send one.
#[test]
fn an_answer_to_a_renewal_that_cannot_be_used_is_ignored() {
    let (mut client, mut now) = (bound(), at(0.0));
    let asked = next(&mut client, &mut now);
    let mut ack = answer(MessageType::Ack, sent(&asked), ADDRESS, 20);
    ack.options.set(code::SUBNET_MASK, &[]);
    assert_eq!(client.on_message(&ack, SERVER_MAC, now), []);
    let of_another = answer(MessageType::Ack, sent(&asked), OTHER, 20);
    assert_eq!(client.on_message(&of_another, SERVER_MAC, now), []);
    let usable = answer(MessageType::Ack, sent(&asked), ADDRESS, 20);
    assert_eq!(client.on_message(&usable, SERVER_MAC, now), [Action::Leased]);
}

/// As of a server that is silent: 10 s renewal, 17 s rebinding, 20 s the end.
#[test]
fn a_lease_is_prolonged_by_its_server_then_by_any_and_then_it_ends() {
    let (mut client, mut now) = (bound(), at(0.0));
    let first = sent(&next(&mut client, &mut now)).clone();
    assert_eq!((now, first.source, first.destination), (at(10.0), ADDRESS, SERVER));
    assert_eq!((first.neighbour, first.message.own), (Some(SERVER_MAC), ADDRESS));
    assert!(first.message.options.get(code::SERVER_IDENTIFIER).is_none());
    assert!(first.message.options.get(code::REQUESTED_ADDRESS).is_none());
    assert!(client.listens(now));
    let mut later = Vec::new();
    let end = loop {
        match next(&mut client, &mut now).pop().expect("an action") {
            Action::Send(sending) => later.push((now, sending.destination, sending.neighbour)),
            end @ (Action::Leased | Action::Failed(_) | Action::Lost(_)) => break end,
        }
    };
    let ended = "the lease of 10.1.2.5 has ended, and no DHCP server has prolonged it";
    assert_eq!((end, now), (Action::Lost(ended.to_owned()), at(20.0)));
    for (when, destination, neighbour) in later {
        let any = (Ipv4Addr::BROADCAST, None);
        let want = if when < at(17.0) { (SERVER, Some(SERVER_MAC)) } else { any };
        assert_eq!((destination, neighbour), want, "{when:?}");
    }
    assert_eq!((client.lease(), client.due(now)), (None, None));
}

#[test]
fn a_longer_lease_begins_with_its_answer() {
    for when in [10.0, 17.5] {
        let (mut client, mut now) = (bound(), at(0.0));
        let question = asked_at(&mut client, &mut now, at(when));
        let ack = answer(MessageType::Ack, &question, ADDRESS, 100);
        assert_eq!(client.on_message(&ack, [7; 6], now), [Action::Leased]);
        let lease = client.lease().expect("a lease");
        assert_eq!((lease.end(), lease.neighbour), (Some(now + Duration::from_secs(100)), [7; 6]));
        assert_eq!(client.due(now), Some(now + Duration::from_secs(50)));
    }
}

#[test]
fn no_socket_is_held_between_two_questions_of_a_long_lease() {
    let (mut client, mut now) = (bound_with(86400, |_| {}), at(0.0));
    next(&mut client, &mut now);
    assert_eq!((now, client.listens(now)), (at(43200.0), true));
    now = client.due(now).expect("due");
    assert_eq!((client.on_time(now), now, client.listens(now)), (Vec::new(), at(43205.0), false));
    let mut questions = 1;
    while now < at(86400.0) {
        questions += next(&mut client, &mut now).len();
    }
    assert!(questions < 40, "{questions}");
}

/// The reference takes a refusal for silence.
#[test]
fn who_is_refused_asks_for_the_same_address_at_once() {
    let (mut client, mut now) = (bound(), at(0.0));
    let question = sent(&next(&mut client, &mut now)).clone();
    let actions = client.on_message(&answer(MessageType::Nak, &question, ADDRESS, 0), SERVER_MAC, now);
    let discover = sent(&actions).clone();
    assert_eq!(discover.message.kind, MessageType::Discover);
    assert_eq!(discover.message.options.array(code::REQUESTED_ADDRESS), Some(ADDRESS.octets()));

    let mut regaining = client.clone();
    let actions = regaining.on_message(&answer(MessageType::Offer, &discover, ADDRESS, 20), SERVER_MAC, now);
    let ack = answer(MessageType::Ack, sent(&actions), ADDRESS, 20);
    assert_eq!(regaining.on_message(&ack, SERVER_MAC, now), [Action::Leased]);

    let actions = client.on_message(&answer(MessageType::Offer, &discover, OTHER, 20), SERVER_MAC, now);
    let ack = answer(MessageType::Ack, sent(&actions), OTHER, 20);
    let actions = client.on_message(&ack, SERVER_MAC, now);
    assert_eq!((sent(&actions).message.kind, sent(&actions).source), (MessageType::Release, OTHER));
    assert_eq!(actions[1], Action::Lost(moved(ADDRESS, OTHER)));
}

/// The reference goes on for as long as the lease had lasted.
#[test]
fn a_client_that_is_refused_and_gets_no_answer_loses_the_address_before_its_end() {
    for (refused, lost) in [(10.0, 20.0), (17.0, 20.0)] {
        let (mut client, mut now) = (bound(), at(0.0));
        let question = asked_at(&mut client, &mut now, at(refused));
        client.on_message(&answer(MessageType::Nak, &question, ADDRESS, 0), SERVER_MAC, now);
        let last = loop {
            match next(&mut client, &mut now).as_slice() {
                [Action::Send(_)] => {}
                other => break other.to_vec(),
            }
        };
        assert_eq!(last, [Action::Lost(refusal(ADDRESS))]);
        assert!(now <= at(lost), "{now:?}");
    }
}

#[test]
fn a_server_that_wants_to_be_asked_at_once_is_asked_once_a_second() {
    for (seconds, pause) in [(20, 1.0), (2, 1.0), (1, 0.5), (0, 0.5)] {
        let client = bound_with(seconds, |options| options.set(code::RENEWAL_TIME, &0_u32.to_be_bytes()));
        assert_eq!(client.due(at(0.0)), Some(at(pause)), "{seconds}");
    }
}

#[test]
fn an_address_of_before_is_asked_for_by_name() {
    let begin = || Client::reboot(identity(), Limits::default(), 1, at(0.0), ADDRESS);
    let (mut client, actions) = begin();
    let request = sent(&actions);
    assert_eq!((request.message.kind, request.message.own), (MessageType::Request, Ipv4Addr::UNSPECIFIED));
    assert_eq!(request.message.options.array(code::REQUESTED_ADDRESS), Some(ADDRESS.octets()));
    assert!(request.message.options.get(code::SERVER_IDENTIFIER).is_none());
    let ack = answer(MessageType::Ack, request, ADDRESS, 20);
    assert_eq!(client.on_message(&ack, SERVER_MAC, at(0.1)), [Action::Leased]);

    let (mut client, actions) = begin();
    let refused = answer(MessageType::Nak, sent(&actions), ADDRESS, 20);
    let why = refusal(ADDRESS);
    assert_eq!(client.on_message(&refused, SERVER_MAC, at(0.1)), [Action::Failed(why)]);

    let (mut client, actions) = begin();
    let of_another = answer(MessageType::Ack, sent(&actions), OTHER, 20);
    let actions = client.on_message(&of_another, SERVER_MAC, at(0.1));
    assert_eq!((sent(&actions).message.kind, sent(&actions).source), (MessageType::Release, OTHER));
    assert_eq!(actions[1], Action::Failed(moved(ADDRESS, OTHER)));

    let (mut client, _) = begin();
    let mut now = at(0.0);
    while let [Action::Send(_)] = next(&mut client, &mut now)[..] {}
    assert_eq!(now, at(10.0), "no longer than an answer may take");
}

#[test]
fn an_address_is_released_by_itself_to_its_server() {
    let mut client = bound();
    let release = client.release().expect("a message");
    assert_eq!((release.source, release.destination, release.neighbour), (ADDRESS, SERVER, Some(SERVER_MAC)));
    assert_eq!((release.message.kind, release.message.own), (MessageType::Release, ADDRESS));
    let mut want = DhcpOptions::default();
    want.set(code::SERVER_IDENTIFIER, &SERVER.octets());
    want.set(code::CLIENT_IDENTIFIER, b"\0c1/n1/eth0");
    assert_eq!(release.message.options, want);
    assert_eq!((client.release(), client.due(at(0.0))), (None, None));
}

#[test]
fn the_configured_name_is_used_for_the_release() {
    let identity = Identity { provided: vec![(code::CLIENT_IDENTIFIER, b"own".to_vec())], ..identity() };
    let lease = bound().lease().expect("a lease").clone();
    let mut client = Client::resume(identity, Limits::default(), 1, lease);
    let release = client.release().expect("a message");
    assert_eq!(release.message.options.get(code::CLIENT_IDENTIFIER), Some(&b"own"[..]));
}

#[test]
fn a_lease_without_end_is_unchanged() {
    let client = bound_with(u32::MAX, |_| {});
    assert_eq!((client.due(at(1.0)), client.lease().expect("a lease").end()), (None, None));
}

proptest! {
    /// Whatever a server says and whenever: the time goes on, the address never changes, and no lease outlives its end.
    #[test]
    fn a_client_never_hangs_and_never_changes_its_address(
        deeds in prop::collection::vec((0..6_u8, 1..40_u32, any::<bool>()), 1..80), seed: u64,
    ) {
        let (mut client, actions) = Client::begin(identity(), Limits::default(), seed, at(0.0));
        let mut last = sent(&actions).clone();
        let (mut now, mut own) = (at(0.0), None);
        for (deed, seconds, other) in deeds {
            let address = if other { OTHER } else { ADDRESS };
            let kinds = [MessageType::Offer, MessageType::Ack, MessageType::Nak, MessageType::Offer, MessageType::Ack];
            let actions = match kinds.get(usize::from(deed)) {
                Some(kind) => client.on_message(&answer(*kind, &last, address, seconds), SERVER_MAC, now),
                None => {
                    let Some(due) = client.due(now) else { break };
                    prop_assert!(due >= now);
                    now = due;
                    client.on_time(now)
                }
            };
            for action in &actions {
                if let Action::Send(sending) = action {
                    last = sending.clone();
                }
            }
            if let Some(lease) = client.lease() {
                own = own.or(Some(lease.grant.address));
                prop_assert_eq!(own, Some(lease.grant.address));
                if client.due(now).is_some_and(|due| due <= now) {
                    let woken = client.on_time(now);
                    prop_assert!(!woken.is_empty() || client.due(now).is_none_or(|due| due > now));
                }
            }
        }
    }
}
