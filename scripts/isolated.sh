#!/usr/bin/env bash
# Runs a program with processes and a /proc of its own, so that it sees none of the other processes of this machine. When it ends, so
# do all that it has started. The shell, which is its parent, waits for those that it leaves behind.
#
#   scripts/isolated.sh PROGRAM [ARGUMENT...]     needs root
set -euo pipefail
exec unshare --mount-proc --pid --fork --kill-child sh -c '"$@"; exit $?' sh "$@"
