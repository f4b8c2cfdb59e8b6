//! What a plugin wants done, as data: steps in order, each with the ownership of its object.
//!
//! Plans are made without touching anything and read like the commands of an administrator. The effect layer carries
//! out a [`Step`]; the journal of `cni-plugin` undoes owned steps.

mod display;
pub(crate) mod kind;
mod link;
mod route;
mod rules;
mod step;
mod terms;

pub use kind::{ChildKind, IpvlanMode, MacvlanMode, MasterLink, TapHeaders, TapOptions, TapQueues, temporary_name};
pub use link::{BridgePort, LinkKind, LinkMove, LinkSetting, NewLink, VethPeer};
pub use route::{NewGateway, NewRoute, OtherAddress};
pub use step::{Step, Until};
pub use terms::{Dad, IfPresent, Ns, Sharing, Sysctl, SysctlNeed};

/// Steps in order.
///
/// ```
/// use cni_core::names::IfName;
/// use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step};
///
/// let (ns, name) = (Ns::Container, IfName::parse("eth0")?);
/// let link = NewLink { name: name.clone(), mac: None, mtu: Some(1400), if_present: IfPresent::Refuse, kind: LinkKind::Dummy };
/// let mut plan = Plan::default();
/// plan.owned(Step::CreateLink { ns, link });
/// plan.within(Step::SetLink { ns, name, setting: LinkSetting::Up });
/// assert_eq!(plan.to_string(), "\
/// owned  container: link add eth0 type dummy mtu 1400
/// within container: link set eth0 up
/// ");
/// # Ok::<(), cni_core::error::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    steps: Vec<(Sharing, Step)>,
}

impl Plan {
    /// A plan of steps whose objects belong to the attachment alone.
    pub fn of_owned(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().map(|step| (Sharing::Owned, step)).collect() }
    }

    /// Appends a step whose object belongs to the attachment alone.
    pub fn owned(&mut self, step: Step) {
        self.steps.push((Sharing::Owned, step));
    }

    /// Appends a step inside an owned object.
    pub fn within(&mut self, step: Step) {
        self.steps.push((Sharing::Within, step));
    }

    /// Appends a step on something that others use as well.
    pub fn shared(&mut self, step: Step) {
        self.steps.push((Sharing::Shared, step));
    }

    /// The steps in order.
    pub fn steps(&self) -> &[(Sharing, Step)] {
        &self.steps
    }
}
