//! A worker: it carries out one random step after another on its own containers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::container::{ContainerSpec, Implementation, SoakContainer};
use crate::context::Context;
use crate::leases;
use crate::networks::NetworkTemplate;
use crate::steps::{AddMode, ContainerAction, Flush, PathReuse, Random, WorkerAction, WorkerStep};

/// A thread that adds and deletes containers.
#[derive(Debug)]
pub struct Worker<'n> {
    number: u64,
    steps: u64,
    created: u64,
    /// Its living containers.
    pub containers: Vec<SoakContainer<'n>>,
    /// Deleted containers whose process still runs.
    pub deleted: Vec<SoakContainer<'n>>,
}

impl<'n> Worker<'n> {
    pub const fn new(number: u64) -> Self {
        Self { number, steps: 0, created: 0, containers: Vec::new(), deleted: Vec::new() }
    }

    /// Works until the time is up. A panic of the harness is a violation too, and stops the worker for this minute.
    pub fn run(&mut self, until: Instant, context: &Context<'n>) {
        while Instant::now() < until {
            let step = WorkerStep::draw(&mut Random::of(context.seed, self.number, self.steps), self.containers.len());
            self.steps += 1;
            let done = catch_unwind(AssertUnwindSafe(|| self.act(step, context)));
            if let Err(cause) = done {
                let words = cause.downcast_ref::<String>().map_or("no words", String::as_str);
                context.violation(&[], &format!("worker {}, step {}, {step}: {words}", self.number, self.steps));
                return;
            }
        }
    }

    fn act(&mut self, step: WorkerStep, context: &Context<'n>) {
        match step.action {
            WorkerAction::Add(mode) => self.make(mode, step, context),
            WorkerAction::Act(change) => {
                let container = self.containers.remove(step.which % self.containers.len());
                let change = if container.is_of_reference { allowed_for_reference(change) } else { change };
                let label = format!("worker {}, step {}: {step}", self.number, self.steps);
                context.note(format!("{label}: {change:?} of {}", container.id));
                let kept = self.change(container, change, step, context);
                self.containers.extend(kept);
            }
        }
    }

    /// Acts on a container, and returns the one that the worker has afterwards.
    fn change(
        &mut self,
        mut container: SoakContainer<'n>,
        change: ContainerAction,
        step: WorkerStep,
        context: &Context<'n>,
    ) -> Option<SoakContainer<'n>> {
        match change {
            ContainerAction::Verify => expect(container.verify(context), &container.id, "a look", context),
            ContainerAction::RemoveNetnsName => container.remove_netns_name(),
            ContainerAction::Rename => container.rename(context),
            ContainerAction::Flush(flush) => run_flush(flush, context),
            ContainerAction::AddAgain => return self.add_again(container, context),
            ContainerAction::ReusePath(how) => return self.reuse_path(container, how, context),
            ContainerAction::Replace => return self.replace(container, step, context),
            ContainerAction::EndWithoutDelete => {
                container.end(context);
                return None;
            }
            ContainerAction::Delete => return self.delete(container, step, context),
            ContainerAction::DeleteKilled => {
                container.del_killed(step.killed_after, context);
                // The reference's DEL may fail for ever on the half that is left.
                return self.delete(container, WorkerStep { by_reference: false, ..step }, context);
            }
        }
        Some(container)
    }

    /// Adds a new container, whose ADD may be killed.
    fn make(&mut self, mode: AddMode, step: WorkerStep, context: &Context<'n>) {
        let mut container = self.enter(step.network, context);
        let label = format!("worker {}, step {}: {step}", self.number, self.steps);
        context.note(format!("{label}: {} of {}", container.id, container.network.name));
        if mode != AddMode::Complete {
            container.add_killed(step.killed_after, context);
        }
        match mode {
            AddMode::Complete => {}
            // `gc` can find it only by its lease.
            AddMode::KilledWithoutDelete if container.network.leases.is_some() => {
                let (id, network) = (container.id.clone(), container.network);
                container.end(context);
                return leases::age(network, |holder| holder == id);
            }
            AddMode::KilledWithoutDelete | AddMode::KilledThenDelete | AddMode::KilledThenAdd => {
                expect(
                    container.del(Implementation::Ours, context),
                    &container.id,
                    "DEL after an ADD that was killed",
                    context,
                );
            }
        }
        if matches!(mode, AddMode::KilledThenDelete | AddMode::KilledWithoutDelete) {
            return container.end(context);
        }
        let by_reference =
            step.by_reference && mode == AddMode::Complete && context.has_reference_for(container.network);
        let implementation = if by_reference { Implementation::Reference } else { Implementation::Ours };
        self.containers.extend(added(container, implementation, context));
    }

    fn enter(&mut self, network: usize, context: &Context<'n>) -> SoakContainer<'n> {
        self.create_container(&context.networks[network % context.networks.len()], None, None, context)
    }

    /// Makes a container, with a new namespace name or that of another container.
    fn create_container(
        &mut self,
        network: &'n NetworkTemplate,
        netns_name: Option<&str>,
        port: Option<u16>,
        context: &Context<'n>,
    ) -> SoakContainer<'n> {
        self.created += 1;
        let (worker, number) = (self.number, self.created);
        let id = format!("w{worker}-{number:05}");
        let own = u16::try_from(20_000 + worker * 1000 + number % 1000).expect("a port");
        let spec = ContainerSpec {
            netns_name: netns_name.unwrap_or(&id),
            network,
            args: network.args(worker, number),
            device: format!("h{worker}n{number}"),
            port: Some(port.unwrap_or(own)),
            id: id.clone(),
        };
        SoakContainer::create(spec, context)
    }

    /// Calls DEL; the process of a container without a namespace name keeps running.
    fn delete(
        &mut self,
        container: SoakContainer<'n>,
        step: WorkerStep,
        context: &Context<'n>,
    ) -> Option<SoakContainer<'n>> {
        let is_plain = container.has_name() && !container.is_renamed && context.has_reference_for(container.network);
        let implementation =
            if step.by_reference && is_plain { Implementation::Reference } else { Implementation::Ours };
        expect(container.del(implementation, context), &container.id, "DEL", context);
        if container.has_name() {
            expect(verify_addresses_removed(&container, context), &container.id, "DEL", context);
            container.end(context);
        } else {
            self.deleted.push(container);
        }
        None
    }

    /// Adds the same container in a new namespace, as after a reboot or with cnitool.
    fn add_again(&mut self, container: SoakContainer<'n>, context: &Context<'n>) -> Option<SoakContainer<'n>> {
        let (id, network, port, args) =
            (container.id.clone(), container.network, container.port, container.attachment.args.clone());
        container.end(context);
        let device = id.replace('w', "h").replace('-', "r");
        let spec = ContainerSpec { id: id.clone(), netns_name: &id, network, args, device, port };
        added(SoakContainer::create(spec, context), Implementation::Ours, context)
    }

    /// Calls DEL with a path that leads to a newer container by now.
    fn reuse_path(
        &mut self,
        mut container: SoakContainer<'n>,
        how: PathReuse,
        context: &Context<'n>,
    ) -> Option<SoakContainer<'n>> {
        let netns_name = container.netns_name().filter(|_| !how.is_process);
        container.remove_netns_name();
        if !how.survives {
            container.end_process(context);
        }
        let successor = added(
            self.create_container(container.network, netns_name.as_deref(), None, context),
            Implementation::Ours,
            context,
        );
        if let Some(successor) = &successor {
            container.attachment.netns =
                if how.is_process { successor.process_path() } else { successor.attachment.netns.clone() };
        }
        expect(
            container.del(Implementation::Ours, context),
            &container.id,
            "DEL with the path of another container",
            context,
        );
        if let Some(successor) = &successor {
            let what = format!("after DEL of {} with its path", container.id);
            expect(successor.verify(context), &successor.id, &what, context);
        }
        if how.survives {
            self.deleted.push(container);
        } else {
            container.end(context);
        }
        successor
    }

    /// Adds the new container before DEL of the old one, as in a rolling update on one host.
    fn replace(
        &mut self,
        container: SoakContainer<'n>,
        step: WorkerStep,
        context: &Context<'n>,
    ) -> Option<SoakContainer<'n>> {
        let next = self.create_container(container.network, None, container.port, context);
        let next = added(next, Implementation::Ours, context);
        self.delete(container, step, context);
        next
    }
}

/// The action in its place for a container that the reference's plugins added: they keep no record, so nothing shows who owns an
/// interface that has lost its namespace or name.
const fn allowed_for_reference(change: ContainerAction) -> ContainerAction {
    match change {
        ContainerAction::EndWithoutDelete | ContainerAction::AddAgain | ContainerAction::ReusePath(_) => {
            ContainerAction::Delete
        }
        ContainerAction::RemoveNetnsName | ContainerAction::Rename => ContainerAction::Verify,
        ContainerAction::Verify
        | ContainerAction::Delete
        | ContainerAction::DeleteKilled
        | ContainerAction::Replace
        | ContainerAction::Flush(_) => change,
    }
}

/// Calls ADD, and verifies the container; `None` if ADD fails.
fn added<'n>(
    mut container: SoakContainer<'n>,
    implementation: Implementation,
    context: &Context<'_>,
) -> Option<SoakContainer<'n>> {
    match container.add(implementation, context) {
        Ok(()) => {
            expect(container.verify(context), &container.id, "after ADD", context);
            Some(container)
        }
        Err(error) => {
            context
                .violation(&[&container.id], &format!("ADD of {}, {}: {error}", container.id, container.network.name));
            drop(container.del(Implementation::Ours, context));
            container.end(context);
            None
        }
    }
}

fn expect(done: Result<(), String>, id: &str, what: &str, context: &Context<'_>) {
    if let Err(error) = done {
        context.violation(&[id], &format!("{id}, {what}: {error}"));
    }
}

/// After DEL, no interface of the container has an address that others may get.
fn verify_addresses_removed(container: &SoakContainer<'_>, context: &Context<'_>) -> Result<(), String> {
    let kept = container.addresses(context);
    match container.given().into_iter().find(|address| kept.contains(address)) {
        Some(address) => Err(format!("{} has still {address}", container.id)),
        None => Ok(()),
    }
}

/// Flushes rules, and calls `repair`.
fn run_flush(flush: Flush, context: &Context<'_>) {
    let _alone = context.shared.rules.write().expect("no holder panics with it");
    let line = match flush {
        Flush::V4 => "iptables -w -t nat -F && iptables -w -F",
        Flush::V6 => "ip6tables -w -t nat -F && ip6tables -w -F && iptables -w -t nat -F",
        Flush::HostPorts => "iptables -w -t nat -F CNI-HOSTPORT-DNAT",
        Flush::Tables => "nft list tables | grep -v ' firewalld$' | sed 's/^/delete /' | nft -f -",
    };
    // A chain may be missing, or a table may be deleted at the same moment.
    drop(context.host.exec(&["sh", "-c", line]));
    let output = context.tool(&["repair"]);
    if output.code != Some(0) {
        context
            .violation(&[], &format!("repair after {flush:?}: {:?} {}{}", output.code, output.stdout, output.stderr));
    }
}
