#!/usr/bin/env bash
# Makes a draft of the forge's page of a release: the files of target/release-files, and what the changelog says of the version.
#
#   scripts/draft_release.sh v1.2.3      needs the forge's program gh, and its token in GH_TOKEN
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
tag=${1:?the tag is missing: see --help}
command -v gh >/dev/null 2>&1 || die "the forge's program gh is missing"
[ "$tag" = "v$(sed -n 's/^version = "\(.*\)"$/\1/p' "$TOP/Cargo.toml")" ] || die "$tag is not the version in Cargo.toml"
notes=$(awk -v version="${tag#v}" '/^## / { on = index($0, "## " version) == 1; next } on' "$TOP/CHANGELOG.md")
[ -n "$notes" ] || die "CHANGELOG.md has no section for ${tag#v}"
cd "$TARGET/release-files"
gh release create "$tag" --draft --verify-tag --title "$tag" --notes "$notes" -- *
