# shellcheck shell=bash
# What stands on the machine, a line for each thing that a container could leave behind or take along.

# Kernel state and files; the file names alone, since some hold the last address that was given.
machine_state() {
    ip -brief link show | awk '{ print "link", $1 }'
    ip -brief address show | awk '{ for (i = 3; i <= NF; i++) if ($i !~ /^fe80/) print "address", $1, $i }'
    { ip route show table all && ip -6 route show table all; } | grep -v 'fe80\|ff00' | sed 's/ linkdown//; s/^/route /'
    ip rule show | sed 's/^/rule /'
    { iptables-save && ip6tables-save; } | grep -v '^#' | sed 's/\[[0-9:]*\]//'
    nft --stateless list ruleset 2>/dev/null | tables_but_those_of_iptables
    files_below /run/cni /var/lib/cni /etc/cni | grep -v '/lock$\|\.lock$\|/stamp$\|/repaired$' || true
    ls /run/netns
    ip neigh show | grep PERMANENT || true
}

files_below() {
    local folder
    for folder in "$@"; do
        [ ! -d "$folder" ] || find "$folder" -type f
    done
}

tables_but_those_of_iptables() {
    awk '$1 == "table" { kept = $3 !~ /^(nat|filter|mangle|raw|security)$/; table = $2 " " $3 } kept { print "nft", table, $0 }'
}

# remember: what the machine is like without a container.
remember() { machine_state | sort >/tmp/before; }

is_as_before() {
    machine_state | sort >/tmp/after
    cmp -s /tmp/before /tmp/after
}

# expect_as_before WHAT: the machine is as it was when it was remembered.
expect_as_before() {
    until_true 30 is_as_before || {
        diff /tmp/before /tmp/after || true
        wrong "$1: the machine is not as it was"
    }
    shown "$1: no link, address, route, rule, lease or result is left"
}

# expect_no_trace WORD...: nothing on the machine has one of the words, say a container's identifier or address.
expect_no_trace() {
    local word
    machine_state >/tmp/after
    for word in "$@"; do
        ! grep -F -- "$word" /tmp/after || wrong "$word is still on the machine"
    done
}
