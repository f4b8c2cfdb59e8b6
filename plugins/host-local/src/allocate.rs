//! ADD: takes one address from each range set, all of them or none.
//!
//! A container that comes back in another network namespace gets the addresses of its leases. A lease that a crash or
//! a reboot has left is taken if nothing else is free. A list of what was done lets a failed ADD undo exactly that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure as _};
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::result::IpConfig;

use crate::presence::{CurrentNamespace, HolderLocation};
use crate::ranges::RangeSet;
use crate::store::{DirectoryScan, Lease, LeaseOrigin, LeaseUndo, Owner, Store, StoreError};

/// The work of one ADD on a store.
pub struct Allocation<'a, 'h> {
    store: &'a mut Store,
    presence: &'a mut CurrentNamespace<'h>,
    owner: Owner,
    home: LeaseOrigin,
    done: Vec<LeaseUndo>,
}

impl<'a, 'h> Allocation<'a, 'h> {
    /// Prepares to lease addresses to an attachment.
    pub fn new(store: &'a mut Store, presence: &'a mut CurrentNamespace<'h>, attachment: &Attachment) -> Self {
        let home = presence.home(store.machine());
        Self { store, presence, owner: Owner::of(attachment), home, done: Vec::new() }
    }

    /// Leases one address from each set. Requested addresses come first, and all of them must be used.
    ///
    /// # Errors
    /// If a range set has no address for the container, or one of the store. Then nothing new is leased. The code says whether the attachment
    /// has a lease that it may use.
    pub fn run(mut self, sets: &[RangeSet], requested: Vec<IpAddr>) -> Result<(Vec<IpConfig>, Vec<LeaseUndo>), Error> {
        match self.lease_all(sets, requested) {
            Ok(ips) => Ok((ips, self.done)),
            Err(error) => {
                let error = match self.store.undo(&self.done) {
                    Ok(()) => error,
                    Err(failed) => error.with_note(format!("and while undoing: {failed}: {}", failed.details())),
                };
                // Where it has a lease that it may use, the caller must not release that.
                let held = || Error::stated(Code::AddressHeld, error.to_string(), error.details());
                Err(if self.has_address() { held() } else { error })
            }
        }
    }

    /// Whether the attachment has a lease that it may use.
    fn has_address(&mut self) -> bool {
        let own = self.own_leases().unwrap_or_default();
        own.iter().any(|lease| {
            lease.owner.ifname.is_none()
                || self.presence.whereabouts(lease).map_or(true, |place| place != HolderLocation::Left)
        })
    }

    /// The leases of the attachment. One that names no interface may be any interface's.
    fn own_leases(&mut self) -> Result<Vec<Lease>, StoreError> {
        let mut own = self.store.leases_of(&self.owner.container)?;
        own.retain(|lease| lease.owner == self.owner || lease.owner.ifname.is_none());
        Ok(own)
    }

    fn lease_all(&mut self, sets: &[RangeSet], mut requested: Vec<IpAddr>) -> Result<Vec<IpConfig>, Error> {
        let mut ips = Vec::with_capacity(sets.len());
        for (number, set) in sets.iter().enumerate() {
            let wanted = requested.iter().position(|address| set.contains(*address));
            let address = match wanted.map(|place| requested.remove(place)) {
                Some(address) => self.lease_requested(number, set, address)?,
                None => self.lease_any(number, set)?,
            };
            ips.push(set.ip_config(address));
        }
        if requested.is_empty() {
            return Ok(ips);
        }
        let left = requested.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ");
        let details = "each range set gives one address, from its own ranges only";
        Err(fail!(AddressUnavailable, "failed to allocate all requested IPs: {left}", details: "{details}"))
    }

    fn lease_requested(&mut self, number: usize, set: &RangeSet, address: IpAddr) -> Result<IpAddr, Error> {
        if set.is_gateway(address) {
            return Err(refused(number, &format!("requested ip {address} is subnet's gateway"), ""));
        }
        let own = self.store.leases_of(&self.owner.container)?;
        if let Some(lease) = own.into_iter().find(|lease| lease.address == address && lease.owner == self.owner)
            && self.presence.whereabouts(&lease)? == HolderLocation::Left
        {
            return Ok(self.keep(lease)?);
        }
        match self.take(number, std::iter::once(address))? {
            LeaseAttempt::Leased(address) => Ok(address),
            LeaseAttempt::Taken(scan) => {
                let holder = scan.leases.into_iter().find(|lease| lease.address == address).map(|lease| lease.owner);
                let details = holder.map_or_else(String::new, |Owner { container, ifname }| {
                    format!("held by {container} {}", ifname.unwrap_or_default()).trim_end().to_owned()
                });
                let problem = format!("requested IP address {address} is not available in range set {set}");
                Err(refused(number, &problem, &details))
            }
        }
    }

    fn lease_any(&mut self, number: usize, set: &RangeSet) -> Result<IpAddr, Error> {
        if let Some(lease) = self.find_own(number, set)? {
            return Ok(self.keep(lease)?);
        }
        let last = self.store.last_reserved(number);
        match self.take(number, set.candidates(last))? {
            LeaseAttempt::Leased(address) => Ok(address),
            LeaseAttempt::Taken(scan) => Err(self.exhausted(number, set, &scan)),
        }
    }

    /// A lease in the set that the attachment still has from an earlier namespace; of several the first.
    ///
    /// # Errors
    /// For one that is in use. A lease that names no interface may be in use by any.
    fn find_own(&mut self, number: usize, set: &RangeSet) -> Result<Option<Lease>, Error> {
        let mut own = self.own_leases()?;
        own.retain(|lease| set.contains(lease.address));
        for lease in &own {
            let known = lease.owner.ifname.is_some() && !set.is_gateway(lease.address);
            let details = match if known { self.presence.whereabouts(lease)? } else { HolderLocation::Here } {
                HolderLocation::Left => continue,
                HolderLocation::Here => "its container still runs, or its namespace cannot be read".to_owned(),
                HolderLocation::Elsewhere(place) => {
                    format!(
                        "another namespace still uses it, {place}; end the processes there, or delete the container"
                    )
                }
            };
            let has = format!("{} has been allocated to {}", lease.address, self.owner.container);
            return Err(refused(number, &format!("{has}, duplicate allocation is not allowed"), &details));
        }
        Ok(own.into_iter().next())
    }

    fn keep(&mut self, lease: Lease) -> Result<IpAddr, StoreError> {
        let address = lease.address;
        self.done.push(LeaseUndo::Kept(lease.clone()));
        self.store.keep(&lease, &self.home)?;
        Ok(address)
    }

    /// Leases the first candidate that is free. If none is, one that a crash or a reboot has left behind.
    fn take(&mut self, number: usize, candidates: impl Iterator<Item = IpAddr> + Clone) -> Result<LeaseAttempt, Error> {
        for address in candidates.clone() {
            if self.lease(number, address)? {
                return Ok(LeaseAttempt::Leased(address));
            }
        }
        let scan = self.store.scan()?;
        match self.reclaim(&scan, candidates)? {
            Some(address) if self.lease(number, address)? => Ok(LeaseAttempt::Leased(address)),
            Some(_) | None => Ok(LeaseAttempt::Taken(scan)),
        }
    }

    fn lease(&mut self, number: usize, address: IpAddr) -> Result<bool, Error> {
        let Some(lease) = self.store.lease(address, &self.owner, &self.home)? else { return Ok(false) };
        self.done.push(LeaseUndo::Made(lease));
        self.store.set_last_reserved(number, address)?;
        Ok(true)
    }

    /// Frees the first candidate whose file names no owner, or else one leased before the machine was restarted: no
    /// container survives that.
    fn reclaim(
        &mut self,
        scan: &DirectoryScan,
        mut candidates: impl Iterator<Item = IpAddr> + Clone,
    ) -> Result<Option<IpAddr>, Error> {
        if let Some((address, name)) = candidates.clone().find_map(|address| scan.unowned.get_key_value(&address)) {
            log::info!("the lease {name} names no container; the address is free again");
            self.store.remove_unowned(name)?;
            return Ok(Some(*address));
        }
        let dead: BTreeMap<IpAddr, &Lease> =
            self.store.dead(scan).into_iter().map(|lease| (lease.address, lease)).collect();
        let Some(lease) = candidates.find_map(|address| dead.get(&address)) else { return Ok(None) };
        log::info!(
            "{} was leased to {} before the machine was restarted; the address is free again",
            lease.address,
            lease.owner.container
        );
        self.store.release(lease)?;
        Ok(Some(lease.address))
    }

    fn exhausted(&self, number: usize, set: &RangeSet, scan: &DirectoryScan) -> Error {
        let held: Vec<&Lease> = scan.leases.iter().filter(|lease| set.contains(lease.address)).collect();
        let containers: BTreeSet<&str> = held.iter().map(|lease| lease.owner.container.as_str()).collect();
        let (leases, containers, capacity) = (held.len(), containers.len(), set.capacity());
        let held = format!("{leases} of {capacity} addresses are held by {containers} containers");
        let details = format!("{held}; see {}", self.store.path().display());
        refused(number, &format!("no IP addresses available in range set: {set}"), &details)
    }
}

fn refused(number: usize, problem: &str, details: &str) -> Error {
    fail!(AddressUnavailable, "failed to allocate for range {number}: {problem}", details: "{details}")
}

enum LeaseAttempt {
    Leased(IpAddr),
    Taken(DirectoryScan),
}
