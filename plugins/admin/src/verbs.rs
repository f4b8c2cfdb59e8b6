//! The verbs of the administrator's tool: the one table that everything about the command line follows from.

use crate::command_line::{FOUND, OptionSpec, Run, ValueSpec, VerbSpec};
use crate::{doctor, gc, list, pages, repair};

const NETWORK: OptionSpec =
    OptionSpec { name: "--network", value: ValueSpec::Text("NAME"), help: "only attachments to this network" };
const CACHE_DIR: OptionSpec = OptionSpec {
    name: "--cache-dir",
    value: ValueSpec::Folder("DIR"),
    help: "the runtime's cache directory, which contains a folder \"results\"; default /var/lib/cni",
};
const JSON: OptionSpec =
    OptionSpec { name: "--json", value: ValueSpec::None, help: "print one JSON document, for programs" };

/// Every verb, in the order of the pages.
pub const VERBS: [VerbSpec; 8] = [
    VerbSpec {
        name: "list",
        summary: "show the containers, their addresses and ports, and what is missing or left over",
        about: "\
Shows every attachment in libcni's result cache: network, container, interface, addresses, published ports,
plugins, age, and whether it is whole. Then it shows what is left of containers that the cache does not have:
addresses that are leased to them, and records of what the plugins have made. It changes nothing.

The state is one of: whole; missing, with the first thing that is missing in each plugin's share (repair puts
it back); gone, when the container's namespace is (gc removes what is left); unclear, with the reason.",
        words: &[],
        options: &[
            NETWORK,
            CACHE_DIR,
            OptionSpec { name: "--full", value: ValueSpec::None, help: "do not shorten the names of containers" },
            JSON,
        ],
        statuses: &[
            (0, "every attachment is whole, and nothing is left over"),
            (FOUND, "something is missing, left over or unclear"),
        ],
        run: Run::Work(list::run),
    },
    VerbSpec {
        name: "gc",
        summary: "remove what belongs to no living namespace",
        about: "\
Finds attachments whose namespace has ended: those in libcni's result cache, and those of which addresses or
records are left. What cannot be judged is kept, and shown as unclear, with the reason: containers that other
plugins have made can be judged only where all processes of the machine are seen. Without --remove it says what
it has found. With --remove it does what the runtime ought to have done: it calls DEL of each plugin of the list, also of
plugins that are not among these, and removes the entry of the cache.

It leaves alone addresses that were leased within the last minute, and whatever a plugin works on at this moment.
It refuses to work in another network namespace than that of the containers' records.",
        words: &[],
        options: &[
            OptionSpec { name: "--remove", value: ValueSpec::None, help: "remove what was found" },
            NETWORK,
            CACHE_DIR,
            OptionSpec {
                name: "--plugin-dir",
                value: ValueSpec::Folder("DIR"),
                help: "where plugins of others are, beside the folder of this program",
            },
            JSON,
        ],
        statuses: &[(0, "nothing is left over, or all of it has been removed"), (FOUND, "something is left over or unclear")],
        run: Run::Work(gc::run),
    },
    VerbSpec {
        name: "repair",
        summary: "put back rules of running containers that somebody has flushed",
        about: "\
Puts back packet filter rules of running containers that somebody has flushed: the rules that the plugins
bridge, ptp, firewall, portmap and consul-cni have made, for every attachment in libcni's result cache. It touches
no link, address or lease, and changes nothing where nothing is missing.

It prints a line for each attachment, and fails when one of them could not be repaired.",
        words: &[],
        options: &[
            NETWORK,
            CACHE_DIR,
            OptionSpec { name: "--dry-run", value: ValueSpec::None, help: "say what is missing, and change nothing" },
        ],
        statuses: &[],
        run: Run::Work(repair::run),
    },
    VerbSpec {
        name: "doctor",
        summary: "look for what keeps plugins from working on this host, and say what helps",
        about: "\
Looks at the kernel, the packet filter, kernel parameters, permissions, the folders in which runtimes look for
plugins, and the network configurations. Each finding is a line: what is wrong, and what helps. It changes nothing.

A problem keeps containers from their network; a note is worth knowing.",
        words: &[],
        options: &[
            OptionSpec {
                name: "--config-dir",
                value: ValueSpec::Folder("DIR"),
                help: "a folder with network configurations; default /etc/cni/net.d and /opt/cni/config",
            },
            JSON,
        ],
        statuses: &[(0, "no problem was found"), (FOUND, "a problem was found")],
        run: Run::Work(doctor::run),
    },
    VerbSpec {
        name: "completion",
        summary: "print the completion of a shell",
        about: "\
Prints a script by which a shell completes the verbs and options of this program. For bash:
  cni-plugins completion bash >/usr/share/bash-completion/completions/cni-plugins",
        words: &["bash", "zsh", "fish"],
        options: &[],
        statuses: &[],
        run: Run::Page(pages::completion),
    },
    VerbSpec {
        name: "manual",
        summary: "print the manual page",
        about: "\
Prints the manual page in the form of man(7). To read it:
  cni-plugins manual | man -l -",
        words: &[],
        options: &[],
        statuses: &[],
        run: Run::Page(pages::manual),
    },
    VerbSpec {
        name: "help",
        summary: "print what this program can do",
        about: "Prints the verbs. `cni-plugins VERB --help` prints the page of one.",
        words: &[],
        options: &[],
        statuses: &[],
        run: Run::Page(pages::help),
    },
    VerbSpec {
        name: "version",
        summary: "print the version",
        about: "Prints the version of this program.",
        words: &[],
        options: &[],
        statuses: &[],
        run: Run::Page(pages::version),
    },
];
