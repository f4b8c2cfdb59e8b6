//! The command line of the administrator's tool, as types. clap reads it, and makes help, completion and manual pages from it.

use clap::{Command, CommandFactory, Parser, Subcommand, ValueEnum};
use cni_builtin::PLUGINS;

use crate::{check, doctor, gc, install, list, metrics, repair, trace};

/// The exit statuses of a verb: what success means, and 3 where the verb has it.
macro_rules! statuses {
    ($success:literal) => {
        concat!(
            "Exit status:\n  0  ",
            $success,
            "\n  1  something failed; standard error says what\n  2  wrong command line"
        )
    };
    ($success:literal, $found:literal) => {
        concat!(statuses!($success), "\n  3  ", $found)
    };
}

/// The words of the command line.
#[derive(Debug, Parser)]
#[command(name = "cni-plugins", version, about = "CNI plugins in one program, and the tool of their administrator")]
pub struct CommandLine {
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the tool can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the containers, their addresses and ports, and what is missing or left over
    ///
    /// Shows every attachment in the result caches: that in /var/lib/cni, those in folders of it, such as that of multus, and
    /// those that configurations of multus name; or the one that --cache-dir names. It shows network, container, interface, addresses, published ports,
    /// plugins, age, and whether it is whole. Then it shows what is left of containers that the cache does not have:
    /// addresses that are leased to them, and records of what the plugins have made. It changes nothing.
    ///
    /// The state is one of: whole; missing, with the first thing that is missing in each plugin's share (repair restores
    /// it); gone, when the container's namespace has ended (gc removes what is left); unknown, when nothing is missing but a
    /// plugin of the list is not one of these; unclear, with the reason.
    ///
    /// Examples:
    ///   cni-plugins list
    ///   cni-plugins list --wide --network nomad
    ///   cni-plugins list --json
    #[command(
        verbatim_doc_comment,
        after_help = statuses!("nothing is known to be missing or left over", "something is missing, left over or unclear")
    )]
    List(list::ListOptions),

    /// Show what belongs to no living namespace; --remove removes it
    ///
    /// Finds attachments whose namespace has ended: those in libcni's result cache, and those that have left
    /// addresses or records. What cannot be judged is kept, and shown as unclear, with the reason: containers that other
    /// plugins have made can be judged only where all processes of the machine are seen. Without --remove it says what
    /// it has found. With --remove it does what the runtime should have done: it calls DEL of each plugin of the list,
    /// also of plugins that are not among these, and removes the entry of the cache. If the configuration of a network is in no
    /// cache and no file, it keeps the record of the attachment, and says what may stay.
    ///
    /// It leaves alone addresses that were leased within the last minute, and whatever a plugin works on at this moment.
    /// It refuses to work in another network namespace than that of the containers' records.
    ///
    /// Examples:
    ///   cni-plugins gc                                   # shows what is left over
    ///   cni-plugins gc --remove
    ///   cni-plugins gc --remove --plugin-dir /usr/lib/cni  # plugins of others are there
    #[command(
        verbatim_doc_comment,
        after_help = statuses!("nothing is left over, or all of it has been removed", "something is left over, in use or unclear")
    )]
    Gc(gc::GcOptions),

    /// Restore rules of running containers that somebody has flushed
    ///
    /// Restores what somebody has flushed of running containers: packet filter rules of bridge, ptp, firewall, portmap and
    /// consul-cni, also where flannel has called them, and redirects of tc-redirect-tap; for every attachment in libcni's
    /// result cache. It touches no link, address or lease, and changes nothing where nothing is missing.
    ///
    /// It prints a line for each attachment, and fails when one of them could not be repaired.
    ///
    /// Examples:
    ///   cni-plugins repair --dry-run    # shows what is missing
    ///   cni-plugins repair
    #[command(verbatim_doc_comment, after_help = statuses!("every attachment has its rules"))]
    Repair(repair::RepairOptions),

    /// Look for what keeps plugins from working on this host, and say what helps
    ///
    /// Looks at the kernel, the packet filter, kernel parameters, permissions, the folders in which runtimes look for
    /// plugins, and the network configurations. Each finding is a line: what is wrong, and what helps. It changes nothing.
    ///
    /// A problem keeps containers from their network; a note is worth knowing.
    ///
    /// With CONTAINER it shows one container instead: namespace, interfaces, addresses, host ports, chains and rules of
    /// the packet filter, and the files that the runtime and the plugins keep of it. Then it says what is wrong with it,
    /// also by CHECK of each plugin, and which command helps.
    ///
    /// Examples:
    ///   cni-plugins doctor
    ///   cni-plugins doctor --json >report.json    # for a bug report
    ///   cni-plugins doctor a1b2c3           the beginning of a container's ID
    ///   cni-plugins doctor /run/netns/web   the container in this namespace
    #[command(verbatim_doc_comment, after_help = statuses!("no problem was found", "a problem was found"))]
    Doctor(doctor::DoctorOptions),

    /// Print metrics of networks and containers for Prometheus
    ///
    /// Prints OpenMetrics text: addresses used, free and reserved in each range of host-local; attachments by whether
    /// they live and have their rules; host ports; missing rules; and when repair has run last. It changes nothing.
    ///
    /// With --output it replaces a file in one step, for the textfile collector of node_exporter. The unit
    /// cni-plugins-metrics.timer does that every minute.
    ///
    /// What cannot be read is described on standard error and counted in cni_unreadable_sources; the rest is printed.
    ///
    /// For example:
    ///   cni-plugins metrics --network nomad
    ///   cni-plugins metrics --output /var/lib/prometheus/node-exporter/cni.prom
    #[command(verbatim_doc_comment, after_help = statuses!("everything was read"))]
    Metrics(metrics::MetricsOptions),

    /// Follow a packet through the packet filter, and say why it does not arrive
    ///
    /// Follows packets to a port of the host, to and from a container, or from a container to an address: those of the
    /// next seconds, or with --probe one that it sends itself. It prints the interface, each rule that matched and whose
    /// it is, address translations, the route, and where the packet ended. The last line says why, and what helps.
    ///
    /// It sees the rules of nf_tables, iptables-nft included. The probe to a port comes by an interface of its own, so that
    /// it does not meet rules for another interface. While it runs there is a table cni-plugins-trace-PROCESS, which the
    /// kernel deletes with the process, and with --probe an interface cnitracePROCESS. It changes nothing else.
    ///
    /// Examples:
    ///   cni-plugins trace 8080 --probe
    ///   cni-plugins trace 53/udp --seconds 30
    ///   cni-plugins trace web to 192.0.2.1:443 --probe
    #[command(
        verbatim_doc_comment,
        after_help = statuses!("the packet arrived, and was answered", "it did not; the last line says why")
    )]
    Trace(trace::TraceOptions),

    /// Look for mistakes in network configurations
    ///
    /// Compares configuration lists, and single configurations, with what the plugins read: unknown keys, which CNI
    /// ignores without a word, with the nearest known one; types, limits and forms of values; missing keys;
    /// capabilities; the order of the plugins; what a plugin refuses by itself; addresses, bridges and names of two
    /// networks that do not go together. Each finding says what is wrong, and what to write instead. Keys of plugins of
    /// other projects are not judged. It changes nothing, and needs no rights.
    ///
    /// Examples:
    ///   cni-plugins check /etc/cni/net.d
    ///   cni-plugins check --json my.conflist
    ///   cni-plugins check --runtime nomad my.conflist
    #[command(verbatim_doc_comment, after_help = statuses!("no mistake was found", "a mistake was found"))]
    Check(check::CheckOptions),

    /// Print a JSON Schema of network configurations
    ///
    /// Prints a JSON Schema (draft 2020-12) of configuration lists and single configurations, with which an editor
    /// completes keys and marks mistakes. It sees what check sees, except addresses that do not fit each other, and
    /// names of plugins that are misspelt.
    ///
    /// For example: cni-plugins schema >cni.schema.json
    #[command(verbatim_doc_comment)]
    Schema,

    /// Put the plugins into a folder, in place of those that are there
    ///
    /// Puts this program under the name of every plugin into DIR, with hard links, or with copies where the file system
    /// has no links. Each name is replaced by a rename: a runtime finds the old plugin or the new one, never half a
    /// file. Running containers keep running.
    ///
    /// It says what it has replaced. Plugins of others are kept in DIR/.cni-plugins-rs, and uninstall puts them back.
    /// Nomad has to be restarted, since it looks for plugins when its agent starts.
    ///
    /// Examples:
    ///   cni-plugins install --dry-run /opt/cni/bin    # shows what it would replace
    ///   cni-plugins install /opt/cni/bin
    ///   cni-plugins install --only bridge,host-local /opt/cni/bin
    #[command(verbatim_doc_comment, after_help = statuses!("the plugins are in the folder"))]
    Install(install::InstallOptions),

    /// Remove the plugins from a folder, and put back those that were there
    ///
    /// Removes from DIR every file that is this program, in any release, and puts back the plugins of others that
    /// install has kept. It removes nothing else. Containers keep running, but a runtime needs plugins to remove them.
    ///
    /// For example: cni-plugins uninstall /opt/cni/bin
    #[command(verbatim_doc_comment, after_help = statuses!("the folder has no file of this program"))]
    Uninstall(install::RemovalOptions),

    /// Print the completion of a shell
    ///
    /// Prints a script by which a shell completes the verbs and options of this program. For bash:
    ///   cni-plugins completion bash >/usr/share/bash-completion/completions/cni-plugins
    #[command(verbatim_doc_comment)]
    Completion {
        #[arg(value_enum)]
        shell: Shell,
    },

    /// Print a manual page
    ///
    /// Prints the manual page of this program, or of one of its verbs, in the form of man(7). To read it:
    ///   cni-plugins manual list | man -l -
    #[command(verbatim_doc_comment)]
    Manual {
        /// the verb
        verb: Option<String>,
    },

    /// Print the version
    Version,
}

/// A shell for which there is completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// The command line with everything that its pages say.
pub fn command() -> Command {
    let plugins: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.kind()).collect();
    let about = format!(
        "Started under the name of a plugin, the program is that plugin, for a CNI runtime to call:\n{}.\n\n\
         Started under its own name, it shows and repairs what the plugins have made on this host.",
        lines(&plugins)
    );
    CommandLine::command().long_about(about).after_long_help(FILES)
}

/// Words separated by commas, in lines that fit into a terminal.
fn lines(words: &[&str]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for (n, word) in words.iter().enumerate() {
        let separator = match (n, width + word.len() > 76) {
            (0, _) => "",
            (_, true) => ",\n",
            (_, false) => ", ",
        };
        width = if separator == ",\n" { word.len() } else { width + separator.len() + word.len() };
        text.push_str(separator);
        text.push_str(word);
    }
    text
}

/// What else the page of the program says.
const FILES: &str = "\
Files:
  /var/lib/cni/results      what runtimes that use libcni remember of each attachment
  /run/cni/.cni-plugins-rs  what these plugins have recorded since the last boot

Environment:
  CNI_PLUGINS_LOG  how much is logged on standard error: error, warn (unless set), info, debug, trace or off";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_make_a_command_line() {
        command().debug_assert();
    }

    #[test]
    fn the_list_of_plugins_fits_into_a_terminal() {
        assert_eq!(lines(&["bridge", "ptp"]), "bridge, ptp");
        let plugins: Vec<&str> = PLUGINS.iter().map(|plugin| plugin.kind()).collect();
        let text = lines(&plugins);
        assert!(text.lines().all(|line| line.len() <= 78), "{text}");
        assert_eq!(text.replace('\n', " "), plugins.join(", "));
    }
}
