//! Traffic control: the queueing discipline of a link, and filters on the packets that it receives.
//!
//! Each request names the link. The messages are built from the types of `netlink-packet-route`, except for the
//! options of `tbf`, which that crate does not have.

use cni_model::traffic::{RootQdisc, Shaper};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionMirror, TcActionMirrorOption, TcActionOption, TcActionType, TcAttribute,
    TcFilterU32, TcFilterU32Option, TcHandle, TcMessage, TcMirror, TcMirrorActionType, TcOption, TcU32Key,
    TcU32Selector, TcU32SelectorFlags,
};

use super::attribute::{Attribute, field, find};
use super::error::{Cause, NetlinkError, accept, during};
use super::socket::Socket;

/// Length of `struct tcmsg` of `linux/rtnetlink.h`.
const HEADER_LENGTH: usize = 20;
/// `TCA_KIND` and `TCA_OPTIONS` of `linux/rtnetlink.h`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `TCA_TBF_PARMS` and `TCA_TBF_RATE64` of `linux/pkt_sched.h`, and the length of `struct tc_tbf_qopt`.
const TBF_PARMS: u16 = 1;
const TBF_RATE64: u16 = 4;
const TBF_PARMS_LENGTH: usize = 36;
/// The offsets of rate, limit and buffer in `struct tc_tbf_qopt`.
const RATE: usize = 8;
const LIMIT: usize = 24;
const BUFFER: usize = 28;
/// `TCA_U32_SEL` and `TCA_U32_ACT` of `linux/pkt_cls.h`, and the lengths of `struct tc_u32_sel` and `struct tc_u32_key`.
const U32_SELECTOR: u16 = 5;
const U32_ACTIONS: u16 = 7;
const SELECTOR_LENGTH: usize = 16;
const KEY_LENGTH: usize = 16;
/// `TCA_MIRRED_PARMS` and `TCA_EGRESS_REDIR` of `linux/tc_act/tc_mirred.h`.
const MIRRED_PARMS: u16 = 2;
const EGRESS_REDIRECT: i32 = 1;
/// The priority that the kernel gives to the first filter without one: `tcf_auto_prio` of `net/sched/cls_api.c`.
const KERNEL_PRIORITY: u32 = 0xc000;
/// The priorities of filters in a discipline that existed before.
const FOREIGN_PLACE: std::ops::Range<u32> = 0x8000..KERNEL_PRIORITY;

/// The handle of the queueing disciplines that plugins make, `1:`.
const OWN: TcHandle = TcHandle { major: 1, minor: 0 };
/// The class of packets that the filter matches, `1:1`. It has no effect.
const CLASS: TcHandle = TcHandle { major: 1, minor: 1 };
/// The handle of the discipline `ingress`, `ffff:`.
const INGRESS: TcHandle = TcHandle { major: u16::MAX, minor: 0 };
/// The place for filters on what is received, `ffff:fff2`, in either discipline.
const RECEIVED: TcHandle = TcHandle { major: u16::MAX, minor: TcHandle::MIN_INGRESS };

/// The discipline that has the filters on what a link receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPlace {
    /// `ingress`
    Ingress,
    /// `clsact`, which programs with filters of eBPF use.
    Clsact,
}

/// The place of a new filter among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterSlot {
    /// The first that is free, with a class, as the reference's bandwidth plugin makes it.
    First,
    /// The one that the kernel chooses for the first filter without a number, or the next before it that is free.
    Last,
    /// The next free priority before that; it marks that the discipline existed before the filter.
    LastInForeignPlace,
}

impl FilterSlot {
    /// The first of these priorities that no filter has. The filters of a priority are of one kind.
    fn priority(self, others: &[ReceiveFilter]) -> u32 {
        let is_free = |priority: &u32| others.iter().all(|other| other.priority() != *priority);
        match self {
            Self::First => (1..).find(is_free).unwrap_or(1),
            Self::Last => (1..=KERNEL_PRIORITY).rev().find(is_free).unwrap_or(KERNEL_PRIORITY),
            Self::LastInForeignPlace => FOREIGN_PLACE.rev().find(is_free).unwrap_or(FOREIGN_PLACE.start),
        }
    }
}

/// A filter on what a link receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveFilter {
    /// Which of its priority.
    handle: u32,
    /// The place among all filters, and the protocol.
    info: u32,
    /// The link to which the filter redirects every packet, 0 for one that no longer exists; `None` for other filters.
    pub redirect: Option<u32>,
}

impl ReceiveFilter {
    const fn priority(self) -> u32 {
        self.info >> 16
    }

    /// Whether its priority marks that the discipline existed before it.
    pub const fn is_in_foreign_place(self) -> bool {
        FOREIGN_PLACE.start <= self.priority() && self.priority() < FOREIGN_PLACE.end
    }

    /// Whether it is a filter that packets pass, and not the table that contains such filters (`TC_U32_NODE` of
    /// `linux/pkt_cls.h`).
    const fn is_node(self) -> bool {
        self.handle & 0xfff != 0
    }

    /// Whether it is the table that contains a filter.
    pub const fn is_table_of(self, filter: Self) -> bool {
        !self.is_node() && self.info == filter.info
    }
}

impl Socket {
    /// Looks up the queueing discipline of a link; `None` for the kernel's default, and for a missing link.
    pub fn root_qdisc(&mut self, link: u32) -> Result<Option<RootQdisc>, NetlinkError> {
        self.qdisc(message(link, TcHandle::ROOT, TcHandle::UNSPEC), read_root)
            .map_err(during(|| format!("look up the root qdisc of {}", self.label(link))))
    }

    /// Looks up the discipline that holds the filters on what a link receives; `None` for a missing link.
    pub fn filter_place(&mut self, link: u32) -> Result<Option<FilterPlace>, NetlinkError> {
        self.qdisc(message(link, TcHandle::INGRESS, TcHandle::UNSPEC), read_place)
            .map_err(during(|| format!("look up the ingress qdisc of {}", self.label(link))))
    }

    /// Looks up a discipline. The kernel answers with the notification that it sends about changes; it sends none about
    /// its default discipline.
    fn qdisc<T>(&mut self, question: TcMessage, read: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Cause> {
        let found = self.ask_with_echo(RouteNetlinkMessage::GetQueueDiscipline(question), read);
        accept(found, &[libc::ENOENT, libc::EINVAL, libc::ENODEV], None)
    }

    /// Limits how fast a link sends.
    ///
    /// # Errors
    /// When the kernel refuses: `EINVAL` for values that it cannot work with, or when the link has another discipline.
    pub fn set_shaper(&mut self, link: u32, shaper: &Shaper) -> Result<(), NetlinkError> {
        let mut change = message(link, TcHandle::ROOT, OWN);
        change.attributes = vec![TcAttribute::Kind("tbf".to_owned()), TcAttribute::Options(options(shaper))];
        self.change(RouteNetlinkMessage::NewQueueDiscipline(change), NLM_F_CREATE | NLM_F_REPLACE)
            .map_err(during(|| format!("limit what {} sends to {} bytes per second", self.label(link), shaper.rate)))
    }

    /// Gives a link the kernel's own choice of a discipline back.
    ///
    /// # Errors
    /// When the kernel refuses: `ENOENT` when it has that already.
    pub fn remove_root_qdisc(&mut self, link: u32) -> Result<(), NetlinkError> {
        let change = message(link, TcHandle::ROOT, TcHandle::UNSPEC);
        self.change(RouteNetlinkMessage::DelQueueDiscipline(change), 0)
            .map_err(during(|| format!("remove the root qdisc of link {link}")))
    }

    /// Adds the discipline for filters on what a link receives.
    ///
    /// # Errors
    /// If the kernel refuses: `EEXIST` if there is one.
    pub fn add_filter_place(&mut self, link: u32) -> Result<(), NetlinkError> {
        let mut change = message(link, TcHandle::INGRESS, INGRESS);
        change.attributes = vec![TcAttribute::Kind("ingress".to_owned()), TcAttribute::Options(Vec::new())];
        self.change(RouteNetlinkMessage::NewQueueDiscipline(change), NLM_F_CREATE | NLM_F_EXCL)
            .map_err(during(|| format!("create the ingress qdisc of {}", self.label(link))))
    }

    /// Removes the discipline for filters on what a link receives, with all filters.
    ///
    /// # Errors
    /// If the kernel refuses: `ENOENT` or `EINVAL` if the link has no such discipline.
    pub fn remove_filter_place(&mut self, link: u32) -> Result<(), NetlinkError> {
        let change = message(link, TcHandle::INGRESS, INGRESS);
        self.change(RouteNetlinkMessage::DelQueueDiscipline(change), 0)
            .map_err(during(|| format!("remove the ingress qdisc of link {link}")))
    }

    /// Lists the filters on what a link receives.
    pub fn receive_filters(&mut self, link: u32) -> Result<Vec<ReceiveFilter>, NetlinkError> {
        let question = message(link, RECEIVED, TcHandle::UNSPEC);
        let listed = self.dump(&RouteNetlinkMessage::GetTrafficFilter(question), read_filter);
        listed.map_err(during(|| format!("list the ingress filters of {}", self.label(link))))
    }

    /// Leads everything that a link receives to another one.
    pub fn add_redirect(
        &mut self,
        link: u32,
        (place, slot): (FilterPlace, FilterSlot),
        others: &[ReceiveFilter],
        to: u32,
    ) -> Result<(), NetlinkError> {
        // The kernel tells all filters under the place that was named last.
        let place = if place == FilterPlace::Ingress && others.is_empty() { INGRESS } else { RECEIVED };
        self.add_filter(link, place, slot.priority(others), redirect_options(to, slot))
            .map_err(during(|| format!("redirect what {} receives to {}", self.label(link), self.label(to))))
    }

    /// Adds a filter that matches everything and does nothing.
    ///
    /// # Errors
    /// When the kernel refuses: `ENOENT` when it has no such filters.
    pub fn add_plain_filter(&mut self, link: u32) -> Result<(), NetlinkError> {
        let options = [TcFilterU32Option::Selector(everything()), TcFilterU32Option::ClassId(CLASS)];
        self.add_filter(link, INGRESS, 1, options.map(TcOption::U32).into())
            .map_err(during(|| format!("filter what {} receives", self.label(link))))
    }

    fn add_filter(&mut self, link: u32, place: TcHandle, priority: u32, options: Vec<TcOption>) -> Result<(), Cause> {
        let mut change = message(link, place, TcHandle::UNSPEC);
        change.header.info = info(priority);
        change.attributes = vec![TcAttribute::Kind(TcFilterU32::KIND.to_owned()), TcAttribute::Options(options)];
        self.change(RouteNetlinkMessage::NewTrafficFilter(change), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes a filter on what a link receives, and the table that contains only this filter. `all` are all filters of
    /// the link.
    ///
    /// # Errors
    /// If the kernel refuses: `ENOENT` if it does not exist.
    pub fn remove_receive_filter(
        &mut self,
        link: u32,
        filter: ReceiveFilter,
        all: &[ReceiveFilter],
    ) -> Result<(), NetlinkError> {
        let is_alone = all.iter().filter(|other| other.info == filter.info && other.is_node()).count() == 1;
        let handle = if is_alone { 0 } else { filter.handle };
        let mut change = message(link, RECEIVED, handle.into());
        change.header.info = filter.info;
        change.attributes = vec![TcAttribute::Kind(TcFilterU32::KIND.to_owned())];
        self.change(RouteNetlinkMessage::DelTrafficFilter(change), 0)
            .map_err(during(|| format!("remove an ingress filter of link {link}")))
    }
}

fn message(link: u32, parent: TcHandle, handle: TcHandle) -> TcMessage {
    let mut message = TcMessage::with_index(link.cast_signed());
    (message.header.parent, message.header.handle) = (parent, handle);
    message
}

/// `struct tc_tbf_qopt`: the rate, a peak rate of none, the limit, the buffer, and no MTU for the peak rate.
fn options(shaper: &Shaper) -> Vec<TcOption> {
    let Shaper { rate, limit, buffer } = *shaper;
    let mut parms = [0; TBF_PARMS_LENGTH];
    let small = u32::try_from(rate).unwrap_or(u32::MAX);
    for (at, value) in [(RATE, small), (LIMIT, limit), (BUFFER, buffer)] {
        parms[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let mut options = vec![TcOption::Other(DefaultNla::new(TBF_PARMS, parms.to_vec()))];
    if u64::from(small) < rate {
        options.push(TcOption::Other(DefaultNla::new(TBF_RATE64, rate.to_ne_bytes().to_vec())));
    }
    options
}

/// A selector that matches every packet.
fn everything() -> TcU32Selector {
    let mut selector = TcU32Selector::default();
    selector.flags = TcU32SelectorFlags::Terminal;
    selector.nkeys = 1;
    selector.keys = vec![TcU32Key::default()];
    selector
}

/// A selector that matches every packet, and the action that leads it elsewhere. The plugin that comes last has no class.
fn redirect_options(to: u32, slot: FilterSlot) -> Vec<TcOption> {
    let mut mirror = TcMirror::default();
    mirror.generic.action = TcActionType::Stolen;
    mirror.eaction = TcMirrorActionType::EgressRedir;
    mirror.ifindex = to;
    let mut action = TcAction::default();
    let parms = TcActionOption::Mirror(TcActionMirrorOption::Parms(mirror));
    action.attributes =
        vec![TcActionAttribute::Kind(TcActionMirror::KIND.to_owned()), TcActionAttribute::Options(vec![parms])];
    let class = (slot == FilterSlot::First).then_some(TcFilterU32Option::ClassId(CLASS));
    let options =
        [Some(TcFilterU32Option::Selector(everything())), class, Some(TcFilterU32Option::Action(vec![action]))];
    options.into_iter().flatten().map(TcOption::U32).collect()
}

/// The place of a filter among all, for every protocol.
fn info(priority: u32) -> u32 {
    let every_protocol = u16::try_from(libc::ETH_P_ALL).unwrap_or_default();
    priority << 16 | u32::from(every_protocol.to_be())
}

fn read_root(payload: &[u8]) -> Option<RootQdisc> {
    let handle = field(payload, 8).map(u32::from_ne_bytes)?;
    let kind = part(payload, KIND)?.text();
    match part(payload, OPTIONS) {
        _ if handle == 0 => None,
        Some(options) if kind == "tbf" && handle == u32::from(OWN) => read_shaper(options).map(RootQdisc::Shaper),
        Some(_) | None => Some(RootQdisc::Other { kind }),
    }
}

fn read_shaper(options: Attribute<'_>) -> Option<Shaper> {
    let parms = options.part(TBF_PARMS)?.value;
    let number = |at| field(parms, at).map(u32::from_ne_bytes);
    let large = options.part(TBF_RATE64).and_then(|rate| field(rate.value, 0)).map(u64::from_ne_bytes);
    Some(Shaper { rate: large.unwrap_or(number(RATE)?.into()), limit: number(LIMIT)?, buffer: number(BUFFER)? })
}

fn read_place(payload: &[u8]) -> Option<FilterPlace> {
    match part(payload, KIND)?.text().as_str() {
        "ingress" => Some(FilterPlace::Ingress),
        "clsact" => Some(FilterPlace::Clsact),
        _ => None,
    }
}

fn read_filter(payload: &[u8]) -> Option<ReceiveFilter> {
    let handle = field(payload, 8).map(u32::from_ne_bytes)?;
    let info = field(payload, 16).map(u32::from_ne_bytes)?;
    let is_u32 = part(payload, KIND)?.text() == TcFilterU32::KIND;
    let redirect = part(payload, OPTIONS).filter(|_| is_u32).and_then(read_redirect);
    Some(ReceiveFilter { handle, info, redirect })
}

/// The link to which a filter redirects every packet.
fn read_redirect(options: Attribute<'_>) -> Option<u32> {
    let matches_all = options.part(U32_SELECTOR).is_some_and(matches_all);
    let first = options.part(U32_ACTIONS).filter(|_| matches_all)?.nested().next()?;
    let is_mirror = first.part(KIND).is_some_and(|kind| kind.text() == TcActionMirror::KIND);
    let parms = first.part(OPTIONS).filter(|_| is_mirror)?.part(MIRRED_PARMS)?.value;
    let is_redirect = field(parms, 20).map(i32::from_ne_bytes) == Some(EGRESS_REDIRECT);
    field(parms, 24).map(u32::from_ne_bytes).filter(|_| is_redirect)
}

/// Whether a selector matches every packet.
fn matches_all(selector: Attribute<'_>) -> bool {
    let keys = selector.value.get(SELECTOR_LENGTH..).unwrap_or_default();
    keys.chunks_exact(KEY_LENGTH).all(|key| field::<4>(key, 0) == Some([0; 4]))
}

fn part(payload: &[u8], kind: u16) -> Option<Attribute<'_>> {
    find(payload.get(HEADER_LENGTH..)?, kind)
}

#[cfg(test)]
mod tests;
