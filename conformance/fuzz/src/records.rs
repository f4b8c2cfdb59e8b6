//! Records of plugins with any content: a configuration, `CNI_ARGS`, and what each record says.
//!
//! Besides the properties in `life`, which hold with any content: without the records, DEL succeeds.

use cni_core::json::Json;

use crate::host::FuzzHost;
use crate::input::Documents;
use crate::life::{FuzzContainer, host};
use crate::plugins::plugin_of;

pub fn run(input: &[u8]) -> Option<()> {
    let mut documents = Documents::new(input);
    let (config, args) = (documents.text().into_owned(), documents.text().into_owned());
    let plugin = plugin_of(&Json::parse(config.as_bytes()).ok()?)?;
    let is_firewalld_running = config.contains("firewalld");
    let life = FuzzContainer { plugin, config, args };
    let mut host = FuzzHost { is_firewalld_running, ..host(plugin) };
    life.add(&mut host)?.ok()?;
    for text in documents {
        host.record = Some(String::from_utf8_lossy(text).into_owned());
        life.look(&life.config, &mut host);
        life.del(&mut host);
        life.add(&mut host);
    }
    host.record = None;
    let reported = life.del(&mut host).map(|deleted| deleted.map_err(|error| error.in_full()));
    assert_eq!(reported, Some(Ok(())), "DEL");
    Some(())
}
