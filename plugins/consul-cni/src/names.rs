//! Looks up users and services in the host's files, which are read when the first name is looked up.

use std::path::Path;

use cni_core::error::Error;
use cni_netfilter::Proto;
use cni_plugin::host::Host;

const USERS: &str = "/etc/passwd";
const SERVICES: &str = "/etc/services";

/// The names that the host knows.
pub struct Names<'a> {
    host: &'a mut dyn Host,
    users: Option<String>,
    services: Option<String>,
}

impl<'a> Names<'a> {
    /// Looks names up on a host.
    pub fn new(host: &'a mut dyn Host) -> Self {
        Self { host, users: None, services: None }
    }

    /// The number of a user.
    pub fn user(&mut self, name: &str) -> Result<Option<u32>, Error> {
        Ok(text(&mut self.users, self.host, USERS)?.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(name);
            fields.nth(1).filter(|_| is_it)?.parse().ok()
        }))
    }

    /// The port of a service.
    pub fn service(&mut self, name: &str, proto: Proto) -> Result<Option<u16>, Error> {
        Ok(text(&mut self.services, self.host, SERVICES)?.lines().find_map(|line| port_of(line, name, proto)))
    }
}

fn text<'a>(read: &'a mut Option<String>, host: &mut dyn Host, path: &str) -> Result<&'a str, Error> {
    let text = match read.take() {
        Some(text) => text,
        None => host.files().administrators_file(Path::new(path))?.unwrap_or_default(),
    };
    Ok(read.insert(text))
}

/// `http 80/tcp www # a comment`
fn port_of(line: &str, name: &str, proto: Proto) -> Option<u16> {
    let line = line.split('#').next()?;
    let mut words = line.split_whitespace();
    let official = words.next()?;
    let (port, of) = words.next()?.split_once('/')?;
    let is_it = of == proto.as_str() && (official == name || words.any(|alias| alias == name));
    port.parse().ok().filter(|_| is_it)
}
