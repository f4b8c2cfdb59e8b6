#!/usr/bin/env bash
# Builds the plugins and installs them: one static binary, hard-linked under every name.
#
#   scripts/install.sh [DIR]      DIR is /opt/cni/bin unless given
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
dir=${1:-/opt/cni/bin}

need_rust
binary=$(build_static)
say "installing into $dir"
install_plugins "$binary" "$dir"

# Nomad runs the first of several directories but believes the version of the last.
for other in /usr/lib/cni /usr/libexec/cni /opt/cni/bin; do
    [ "$(realpath -m "$other")" = "$(realpath -m "$dir")" ] && continue
    if [ -x "$other/bridge" ]; then
        say "note: $other has a bridge plugin too; give your runtime just one of the two directories"
    fi
done
CNI_COMMAND='' "$dir/bridge"
