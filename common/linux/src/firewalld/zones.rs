//! The parts of the interface `org.fedoraproject.FirewallD1.zone` (firewalld.dbus(5)) that are used.

use zbus::proxy;

/// The name that firewalld has on the bus.
pub(super) const NAME: &str = "org.fedoraproject.FirewallD1";

/// Calls to firewalld's zones. Only adding a source may start firewalld.
#[proxy(
    interface = "org.fedoraproject.FirewallD1.zone",
    default_service = "org.fedoraproject.FirewallD1",
    default_path = "/org/fedoraproject/FirewallD1"
)]
pub(super) trait Zones {
    #[zbus(name = "addSource")]
    async fn add_source(&self, zone: &str, source: &str) -> zbus::Result<String>;

    #[zbus(name = "removeSource", no_autostart)]
    async fn remove_source(&self, zone: &str, source: &str) -> zbus::Result<String>;

    /// A call without answer. The bus carries out the calls of a connection in order.
    #[zbus(name = "removeSource", no_autostart, no_reply)]
    async fn remove_source_later(&self, zone: &str, source: &str) -> zbus::Result<()>;

    #[zbus(name = "querySource", no_autostart)]
    async fn query_source(&self, zone: &str, source: &str) -> zbus::Result<bool>;
}
