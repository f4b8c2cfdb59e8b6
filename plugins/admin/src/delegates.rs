//! `flannel` makes nothing itself: it calls another plugin, by default `bridge`. What that one has made of an attachment is found
//! by its configuration, which flannel has kept.

use std::borrow::Cow;

use cni_core::error::Error;
use cni_flannel::{Flannel, delegate_of};
use cni_linux::host::LinuxHost;
use cni_plugin::run::Plugin as _;

use crate::cache::{Cached, PluginConfig};

/// The attachment, with the called plugin in place of `flannel` in its list, where that is known.
///
/// # Errors
/// When the configuration that flannel has kept cannot be read.
pub fn resolved(cached: &Cached) -> Result<Cow<'_, Cached>, Error> {
    if !cached.plugins.iter().any(delegates) {
        return Ok(Cow::Borrowed(cached));
    }
    let mut resolved = cached.clone();
    for config in resolved.plugins.iter_mut().filter(|config| delegates(config)) {
        if let Some(called) = called(cached, config)? {
            *config = called;
        }
    }
    Ok(Cow::Owned(resolved))
}

fn delegates(config: &PluginConfig) -> bool {
    cni_builtin::plugin(&config.kind).is_some_and(|plugin| plugin.kind() == Flannel.kind())
}

fn called(cached: &Cached, config: &PluginConfig) -> Result<Option<PluginConfig>, Error> {
    let request = cached.question(config, &Flannel)?;
    let composed = delegate_of(&request, &mut LinuxHost::new(&request))?;
    Ok(composed.map(|composed| config.delegate(&composed.text())).transpose()?)
}
