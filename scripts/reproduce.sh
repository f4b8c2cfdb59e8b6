#!/usr/bin/env bash
# Shows that the release does not depend on the folder or the moment in which it is made: makes it here, and once more from a clone of
# the same commit in another folder, and compares all files.
#
#   scripts/reproduce.sh [ARCH...]      ARCH as of scripts/release.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
"$TOP/scripts/release.sh" "$@"
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
say "once more, in another folder"
git clone --quiet "$TOP" "$elsewhere/another-folder"
git -C "$elsewhere/another-folder" checkout --quiet "$(git -C "$TOP" rev-parse HEAD)"
env -u CARGO_TARGET_DIR "$elsewhere/another-folder/scripts/release.sh" --out "$elsewhere/files" "$@"
diff --recursive "$TARGET/release-files" "$elsewhere/files" || die "the files differ"
say "all files are the same"
