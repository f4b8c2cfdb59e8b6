//! ADD: limits what the container receives, then what it sends. If the runtime decides about limits, most containers
//! have none; then ADD only looks for the ifb of an earlier ADD, by its names.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::{Attachment, IfName};
use cni_core::request::Request;
use cni_core::result::{CniResult, Interface};
use cni_interface::{alias, naming, verify};
use cni_model::link::Link;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step};
use cni_model::traffic::{FilterRank, Shaper};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;

use crate::config::{Config, ShapedDirection};
use crate::del::{del, removal_of};
use crate::ifb::{self, ChosenIfb};
use crate::limit::{RateLimit, frame};
use crate::port::{self, Port};

pub fn add(request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let config = Config::load(request)?;
    let mut result = port::prev_result(request)?;
    let at = request.attachment()?;
    if config.is_empty() {
        if !ifb::noted(&at, journal.host())?.is_empty() {
            del(request, journal.host())?;
        }
        return Ok(result);
    }
    journal.host().enter(request.netns().unwrap_or_default())?;
    let port = port::require(&at.ifname, &result, journal.host())?;
    let mut plan = Plan::default();
    if let Some(limit) = config.ingress {
        plan.owned(set_shaper(&port.name, checked(ShapedDirection::Ingress, limit, port.link.mtu)?));
    }
    let ifb = match config.egress {
        Some(limit) => {
            let shaper = checked(ShapedDirection::Egress, limit, port.link.mtu)?;
            Some(plan_egress(&mut plan, &at, &port, shaper, journal.host())?)
        }
        None => None,
    };
    journal.apply(&plan)?;
    end_unwanted(&config, &at, &port, journal.host())?;
    if let Some(name) = ifb {
        result.interfaces.push(reported(&name, journal.host())?);
    }
    Ok(result)
}

/// Ends what an earlier ADD of the attachment has limited and this one does not. Nothing takes that back, so it comes last.
fn end_unwanted(config: &Config, at: &Attachment, port: &Port, host: &mut dyn Host) -> Result<(), Error> {
    if config.egress.is_none() {
        for ifb in ifb::noted(at, host)? {
            let plan = removal_of(&ifb, Some(port), host)?;
            host.carry_out(&plan)?;
        }
    }
    if config.ingress.is_none() && port.is_of(at) {
        host.apply(&Step::RemoveShaper { ns: Ns::Host, name: port.name.clone() })?;
    }
    Ok(())
}

/// A bucket that a frame fits into: another one would let no large packet pass, and small ones as if all were well.
fn checked(direction: ShapedDirection, limit: RateLimit, mtu: u32) -> Result<Shaper, Error> {
    let (shaper, frame) = (limit.shaper(mtu), frame(mtu));
    let RateLimit { rate, burst } = limit;
    match shaper.bucket() >= frame {
        true => Ok(shaper),
        false if u64::from(burst) < frame => {
            let (burst, least) = (u64::from(burst) * 8, frame * 8);
            let text = format!("{burst} bits cannot pass a frame of {frame} bytes");
            Err(fail!(InvalidConfig, "{direction}Burst of {text}: {least} bits are needed"))
        }
        false => {
            let rate = u128::from(rate) * 8;
            let text = format!("{rate} bits per second is too low for a frame of {frame} bytes");
            Err(fail!(InvalidConfig, "{direction}Rate of {text}"))
        }
    }
}

/// Plans the limit of sending. The ifb is complete before the first packet is redirected to it.
fn plan_egress(
    plan: &mut Plan,
    at: &Attachment,
    port: &Port,
    shaper: Shaper,
    host: &mut dyn Host,
) -> Result<IfName, Error> {
    let ChosenIfb { name, found } = ifb::choose(at, port, host)?;
    let mtu = port.link.mtu;
    let alias = alias::of(at);
    if found.is_none() {
        let (mac, kind) = (Some(naming::random_mac(host)), LinkKind::Ifb);
        let link = NewLink { name: name.clone(), mac, mtu: Some(mtu), if_present: IfPresent::Refuse, kind };
        plan.owned(Step::CreateLink { ns: Ns::Host, link });
    }
    let settings = [LinkSetting::Alias(alias), LinkSetting::TxQueueLength(0), LinkSetting::Mtu(mtu), LinkSetting::Up];
    let before = found.unwrap_or_else(|| Link { mtu, tx_queue_length: 1, ..Link::default() });
    for setting in settings.into_iter().filter(|setting| setting.undo(&before, None).is_some()) {
        plan.owned(Step::set_link(Ns::Host, &name, setting));
    }
    plan.owned(set_shaper(&name, shaper));
    plan.owned(Step::AddRedirect { ns: Ns::Host, name: port.name.clone(), to: name.clone(), rank: FilterRank::First });
    Ok(name)
}

fn set_shaper(name: &IfName, shaper: Shaper) -> Step {
    Step::SetShaper { ns: Ns::Host, name: name.clone(), shaper }
}

/// The ifb as the reference lists it in the result.
fn reported(name: &IfName, host: &mut dyn Host) -> Result<Interface, Error> {
    let link = verify::present(Ns::Host, name, host)?;
    let mac = link.mac.map(|mac| mac.to_string()).unwrap_or_default();
    Ok(Interface { name: link.name, mac, ..Interface::default() })
}
