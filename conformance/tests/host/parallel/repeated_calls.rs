//! Who works on the host while containers come and go: an administrator's repairs, and the runtime's GC.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cni_conformance::keys::with;
use cni_conformance::{Invocation, Outcome, Verb};
use serde_json::{Value, json};

use crate::parallel::calls::{DEADLINE, KnownContainer, Registry};
use crate::parallel::host::ParallelHost;
use crate::parallel::tally::Tally;

/// The calls that are repeated.
pub struct RepeatedCalls {
    repair: Invocation,
    collect: Vec<(Invocation, Value)>,
}

/// Says that the work is done, also when it panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl RepeatedCalls {
    pub fn new(host: &ParallelHost) -> Self {
        let list = host.list();
        let plugins = list["plugins"].as_array().expect("plugins");
        let call =
            |name: &str, verb| host.machine().with_bus(Invocation::new(host.sandbox(), name, verb)).deadline(DEADLINE);
        let collect = plugins.iter().map(|plugin| {
            let name = plugin["type"].as_str().expect("a type");
            let none = call(name, Verb::Gc).container_id("").netns("").ifname("").args("");
            (none, with(plugin, &json!({"cniVersion": "1.1.0", "name": list["name"]})))
        });
        Self { collect: collect.collect(), repair: call("cni-plugins", Verb::Add).arguments(&["repair"]) }
    }

    /// Repairs and collects, one after the other, until `work` is done.
    pub fn during<T>(
        &self,
        all_attached: &[KnownContainer],
        registry: &Registry,
        tally: &Tally,
        work: impl FnOnce() -> T,
    ) -> T {
        let ended = AtomicBool::new(false);
        let until_the_end = |meddle: &dyn Fn()| {
            while !ended.load(Ordering::SeqCst) {
                meddle();
            }
        };
        thread::scope(|scope| {
            let end = StopOnDrop(&ended);
            scope.spawn(|| until_the_end(&|| tally.repaired(&self.repair.run())));
            scope.spawn(|| until_the_end(&|| self.collect(all_attached, registry, tally)));
            let done = work();
            drop(end);
            done
        })
    }

    /// Nothing is valid.
    ///
    /// # Panics
    /// When a plugin fails.
    pub fn collect_all(&self) {
        for outcome in self.collect_but(&json!([])) {
            outcome.expect_success();
        }
    }

    /// What the runtime knows at this moment is valid; as SPEC wants it, no new container is added before GC ends. As
    /// libcni does it, all plugins get the same list.
    fn collect(&self, all_attached: &[KnownContainer], registry: &Registry, tally: &Tally) {
        let _nobody_comes = registry.write().expect("nobody panics with the registry");
        let known = all_attached.iter().filter(|attached| attached.is_known());
        let valid: Value = known.map(|attached| json!({"containerID": attached.id, "ifname": "eth0"})).collect();
        tally.collected(&self.collect_but(&valid));
    }

    fn collect_but(&self, valid: &Value) -> Vec<Outcome> {
        let keys = json!({"cni.dev/valid-attachments": valid, "cni.dev/attachments": valid});
        let call = |(call, config): &(Invocation, Value)| call.clone().config(&with(config, &keys)).run();
        self.collect.iter().map(call).collect()
    }
}
