//! A worker: one choice after the other, each carried out on its own containers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::choices::{Change, Choice, Deed, Flush, Making, Random, Recycled};
use crate::guest::{Caller, Guest, Order};
use crate::leases;
use crate::networks::Network;
use crate::stage::Stage;

/// One of those who add and delete containers.
#[derive(Debug)]
pub struct Worker<'n> {
    number: u64,
    steps: u64,
    entered: u64,
    /// Its containers that live.
    pub guests: Vec<Guest<'n>>,
    /// Those that were deleted, and in which a process lives on.
    pub ghosts: Vec<Guest<'n>>,
}

impl<'n> Worker<'n> {
    pub const fn new(number: u64) -> Self {
        Self { number, steps: 0, entered: 0, guests: Vec::new(), ghosts: Vec::new() }
    }

    /// Works until the time is up. A harness that panics is a violation too, and ends the worker for this minute.
    pub fn run(&mut self, until: Instant, stage: &Stage<'n>) {
        while Instant::now() < until {
            let choice = Choice::draw(&mut Random::of(stage.seed, self.number, self.steps), self.guests.len());
            self.steps += 1;
            let done = catch_unwind(AssertUnwindSafe(|| self.act(choice, stage)));
            if let Err(cause) = done {
                let words = cause.downcast_ref::<String>().map_or("no words", String::as_str);
                stage.violation(&[], &format!("worker {}, step {}, {choice}: {words}", self.number, self.steps));
                return;
            }
        }
    }

    fn act(&mut self, choice: Choice, stage: &Stage<'n>) {
        match choice.deed {
            Deed::Make(making) => self.make(making, choice, stage),
            Deed::Change(change) => {
                let guest = self.guests.remove(choice.which % self.guests.len());
                let change = if guest.is_of_reference { for_reference(change) } else { change };
                let drawn = format!("worker {}, step {}: {choice}", self.number, self.steps);
                stage.note(format!("{drawn}: {change:?} of {}", guest.id));
                let kept = self.change(guest, change, choice, stage);
                self.guests.extend(kept);
            }
        }
    }

    /// Changes a container, and returns the one that is there then.
    fn change(&mut self, mut guest: Guest<'n>, change: Change, choice: Choice, stage: &Stage<'n>) -> Option<Guest<'n>> {
        match change {
            Change::Look => expect(guest.look(stage), &guest.id, "a look", stage),
            Change::LoseName => guest.lose_name(),
            Change::Rename => guest.rename(stage),
            Change::Flush(flush) => run_flush(flush, stage),
            Change::Resurrect => return self.resurrect(guest, stage),
            Change::Recycle(how) => return self.recycle(guest, how, stage),
            Change::Update => return self.update(guest, choice, stage),
            Change::Abandon => {
                guest.end(stage);
                return None;
            }
            Change::Delete => return self.delete(guest, choice, stage),
            Change::DeleteKilled => {
                guest.del_killed(choice.killed_after, stage);
                return self.delete(guest, choice, stage);
            }
        }
        Some(guest)
    }

    /// A new container, which may not come to be.
    fn make(&mut self, making: Making, choice: Choice, stage: &Stage<'n>) {
        let mut guest = self.enter(choice.network, stage);
        let drawn = format!("worker {}, step {}: {choice}", self.number, self.steps);
        stage.note(format!("{drawn}: {} of {}", guest.id, guest.network.name));
        if making != Making::Whole {
            guest.add_killed(choice.killed_after, stage);
        }
        match making {
            Making::Whole => {}
            // Without a lease and a file of the cache nothing tells the administrator of it.
            Making::KilledThenAbandon if guest.network.leases.is_some() => {
                let (id, network) = (guest.id.clone(), guest.network);
                guest.end(stage);
                return leases::age(network, |holder| holder == id);
            }
            Making::KilledThenAbandon | Making::KilledThenDelete | Making::KilledThenAdd => {
                expect(guest.del(Caller::Ours, stage), &guest.id, "DEL after an ADD that was killed", stage);
            }
        }
        if matches!(making, Making::KilledThenDelete | Making::KilledThenAbandon) {
            return guest.end(stage);
        }
        let by_reference = choice.by_reference && making == Making::Whole && stage.has_reference_for(guest.network);
        let caller = if by_reference { Caller::Reference } else { Caller::Ours };
        self.guests.extend(added(guest, caller, stage));
    }

    fn enter(&mut self, network: usize, stage: &Stage<'n>) -> Guest<'n> {
        self.enter_network(&stage.networks[network % stage.networks.len()], None, None, stage)
    }

    /// Makes a namespace with a process, at a place of its own or at that of another container.
    fn enter_network(
        &mut self,
        network: &'n Network,
        place: Option<&str>,
        port: Option<u16>,
        stage: &Stage<'n>,
    ) -> Guest<'n> {
        self.entered += 1;
        let (worker, number) = (self.number, self.entered);
        let id = format!("w{worker}-{number:05}");
        let own = u16::try_from(20_000 + worker * 1000 + number % 1000).expect("a port");
        let order = Order {
            place: place.unwrap_or(&id),
            network,
            args: network.args(worker, number),
            device: format!("h{worker}n{number}"),
            port: Some(port.unwrap_or(own)),
            id: id.clone(),
        };
        Guest::enter(order, stage)
    }

    /// DEL; a process that cannot be found by a name lives on.
    fn delete(&mut self, guest: Guest<'n>, choice: Choice, stage: &Stage<'n>) -> Option<Guest<'n>> {
        let is_plain = guest.has_name() && !guest.is_renamed && stage.has_reference_for(guest.network);
        let caller = if choice.by_reference && is_plain { Caller::Reference } else { Caller::Ours };
        expect(guest.del(caller, stage), &guest.id, "DEL", stage);
        if guest.has_name() {
            expect(has_lost_its_addresses(&guest, stage), &guest.id, "DEL", stage);
            guest.end(stage);
        } else {
            self.ghosts.push(guest);
        }
        None
    }

    /// As after a reboot, or with cnitool: the same container in a new namespace.
    fn resurrect(&mut self, guest: Guest<'n>, stage: &Stage<'n>) -> Option<Guest<'n>> {
        let (id, network, port, args) = (guest.id.clone(), guest.network, guest.port, guest.attachment.args.clone());
        guest.end(stage);
        let device = id.replace('w', "h").replace('-', "r");
        let order = Order { id: id.clone(), place: &id, network, args, device, port };
        added(Guest::enter(order, stage), Caller::Ours, stage)
    }

    /// The path that DEL comes with leads to a younger container.
    fn recycle(&mut self, mut guest: Guest<'n>, how: Recycled, stage: &Stage<'n>) -> Option<Guest<'n>> {
        let place = guest.place().filter(|_| !how.is_process);
        guest.lose_name();
        if !how.survives {
            guest.die(stage);
        }
        let heir = added(self.enter_network(guest.network, place.as_deref(), None, stage), Caller::Ours, stage);
        if let Some(heir) = &heir {
            guest.attachment.netns = if how.is_process { heir.process_path() } else { heir.attachment.netns.clone() };
        }
        expect(guest.del(Caller::Ours, stage), &guest.id, "DEL with the path of another container", stage);
        if let Some(heir) = &heir {
            let what = format!("after DEL of {} with its path", guest.id);
            expect(heir.look(stage), &heir.id, &what, stage);
        }
        if how.survives {
            self.ghosts.push(guest);
        } else {
            guest.end(stage);
        }
        heir
    }

    /// The new container comes before the DEL of the old, as in a rolling update on one host.
    fn update(&mut self, guest: Guest<'n>, choice: Choice, stage: &Stage<'n>) -> Option<Guest<'n>> {
        let next = self.enter_network(guest.network, None, guest.port, stage);
        let next = added(next, Caller::Ours, stage);
        self.delete(guest, choice, stage);
        next
    }
}

/// What is done in its place to a container that the reference's plugins have added: they keep no record, so nobody can tell
/// whose an interface is that lost its place or its name.
const fn for_reference(change: Change) -> Change {
    match change {
        Change::Abandon | Change::Resurrect | Change::Recycle(_) => Change::Delete,
        Change::LoseName | Change::Rename => Change::Look,
        Change::Look | Change::Delete | Change::DeleteKilled | Change::Update | Change::Flush(_) => change,
    }
}

/// ADD, and a look at what it has made; none if it failed.
fn added<'n>(mut guest: Guest<'n>, caller: Caller, stage: &Stage<'_>) -> Option<Guest<'n>> {
    match guest.add(caller, stage) {
        Ok(()) => {
            expect(guest.look(stage), &guest.id, "after ADD", stage);
            Some(guest)
        }
        Err(said) => {
            stage.violation(&[&guest.id], &format!("ADD of {}, {}: {said}", guest.id, guest.network.name));
            drop(guest.del(Caller::Ours, stage));
            guest.end(stage);
            None
        }
    }
}

fn expect(done: Result<(), String>, id: &str, what: &str, stage: &Stage<'_>) {
    if let Err(said) = done {
        stage.violation(&[id], &format!("{id}, {what}: {said}"));
    }
}

/// After DEL no interface of the container has an address that may be given to others.
fn has_lost_its_addresses(guest: &Guest<'_>, stage: &Stage<'_>) -> Result<(), String> {
    let kept = guest.addresses(stage);
    match guest.given().into_iter().find(|address| kept.contains(address)) {
        Some(address) => Err(format!("{} has still {address}", guest.id)),
        None => Ok(()),
    }
}

/// Flushes rules, and repairs what is missing.
fn run_flush(flush: Flush, stage: &Stage<'_>) {
    let _alone = stage.rules.write().expect("nobody panics with it");
    let line = match flush {
        Flush::V4 => "iptables -w -t nat -F && iptables -w -F",
        Flush::V6 => "ip6tables -w -t nat -F && ip6tables -w -F && iptables -w -t nat -F",
        Flush::HostPorts => "iptables -w -t nat -F CNI-HOSTPORT-DNAT",
        Flush::Tables => "nft list tables | grep -v ' firewalld$' | sed 's/^/delete /' | nft -f -",
    };
    // A chain may be missing, or a table be deleted at the same moment.
    drop(stage.host.exec(&["sh", "-c", line]));
    let said = stage.tool(&["repair"]);
    if said.code != Some(0) {
        stage.violation(&[], &format!("repair after {flush:?}: {:?} {}{}", said.code, said.stdout, said.stderr));
    }
}
