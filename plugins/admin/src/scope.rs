//! Which attachments a verb is about, and the caches in which it looks for them.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueHint};
use cni_core::names::Attachment;

/// Where to look.
#[derive(Args, Clone, Debug, Default)]
pub struct Scope {
    /// only attachments to this network
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, value_parser = NonEmptyStringValueParser::new())]
    pub network: Option<String>,
    /// the runtime's cache directory, which contains a folder "results"; default /var/lib/cni, and those of multus and in /var/lib/cni
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cache_dir: Option<PathBuf>,
}

impl Scope {
    /// Whether it covers an attachment.
    pub fn has(&self, at: &Attachment) -> bool {
        self.network.as_deref().is_none_or(|name| name == at.network.as_str())
    }

    /// A text whose commands name the cache as well, if it was named.
    pub fn advised(&self, text: &str) -> String {
        let Some(directory) = &self.cache_dir else { return text.to_owned() };
        let add = |text: String, verb: &str| text.replace(verb, &format!("{verb} --cache-dir {}", directory.display()));
        ["cni-plugins gc --remove", "cni-plugins repair"].into_iter().fold(text.to_owned(), add)
    }
}
