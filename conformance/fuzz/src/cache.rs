//! A file of libcni's cache, as `cni-plugins` reads it, and the network configuration in it, which libcni encodes in
//! base64.
//!
//! No error is the tool's own fault; an incomplete file is refused; looking for missing rules changes nothing; the
//! IPAM plugin can be left out, whatever the case of its key.

use std::ffi::OsStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cni_core::error::Code;
use cni_core::names::{Attachment, IfName};
use serde_json::Value;

use crate::input::Documents;
use crate::life::{host, known};
use crate::plugins::every;
use cni_admin::cache::Cached;
use cni_admin::cache::reader::CacheReader;

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (file, config) = (documents.next().unwrap_or_default(), documents.next());
    let file = config.and_then(|config| filled(file, config)).unwrap_or_else(|| file.to_vec());
    let mut reader = CacheReader::default();
    let read = reader.parse(&file).inspect_err(|error| assert_ne!(error.code(), Code::Internal, "{error}"));
    let cached = read.ok()?;
    let text = file.trim_ascii_end();
    assert!(reader.parse(&text[..text.len() - 1]).is_err(), "half a file");
    let other = cached.of_another(Attachment { ifname: IfName::lo(), ..cached.at.clone() });
    assert_eq!((other.plugins.len(), &other.netns), (cached.plugins.len(), &None));
    assert!(cached.plugins.iter().all(|config| cached.has_plugin(&config.kind)));
    let recorded = Cached::of_record(cached.at.clone(), [serde_json::json!({"type": "portmap"})]);
    assert_eq!((&recorded.at, recorded.has_plugin("portmap")), (&cached.at, true));
    for config in &other.plugins {
        let (environment, input) = other.deletion(config, OsStr::new("/"));
        assert!(environment.contains(&("CNI_IFNAME", "lo".into())), "{environment:?}");
        let input: Value = serde_json::from_slice(&input).expect("JSON");
        assert_eq!(
            (input.get("prevResult"), input.pointer("/ipam/type").and_then(Value::as_str)),
            (None, config.ipam())
        );
    }
    for config in &cached.plugins {
        let Some(plugin) = every().find(|plugin| plugin.kind() == config.kind) else { continue };
        let Ok(request) = known(cached.request(config, plugin)) else { continue };
        assert_eq!(request.attachment().as_ref().ok(), Some(&cached.at));
        let question = known(cached.question(config, plugin)).expect("as good as the request");
        assert_eq!(question.network, cached.at.network);
        let without = known(cached.request_without_ipam(config, plugin)).expect("as good as with it");
        assert!(!without.config().has_key("ipam"), "{config:?}");
        let mut host = host(plugin);
        drop(known(plugin.find_missing(&request, &mut host)));
        assert_eq!(host.applied, [""; 0], "looking changes nothing");
    }
    Some(())
}

/// The file with a configuration.
fn filled(file: &[u8], config: &[u8]) -> Option<Vec<u8>> {
    let mut file: Value = serde_json::from_slice(file).ok()?;
    file.as_object_mut()?.insert("config".to_owned(), STANDARD.encode(config).into());
    Some(file.to_string().into_bytes())
}
