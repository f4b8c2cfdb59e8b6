#!/usr/bin/env bash
# Fuzzes what plugins read: libFuzzer, guided by the coverage that the stable toolchain counts.
# conformance/fuzz/README.md says what the targets are, and what must hold.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]    SECONDS of each target (60), or of those that are named
#   JOBS=N scripts/fuzz.sh ...               N targets at a time, instead of one for each core
#
# The corpus grows in target/fuzz/corpus. A finding is made small; the way to repeat it is printed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

FUZZ=$TARGET/fuzz
SEEDS=$TOP/conformance/fuzz/seeds
DICTIONARY=$TOP/conformance/fuzz/words.dict

# What makes the compiler count the branches that an input takes, and note what it is compared with.
coverage_flags() {
    printf ' -C %s' passes=sancov-module llvm-args=-sanitizer-coverage-level=4 \
        llvm-args=-sanitizer-coverage-inline-8bit-counters llvm-args=-sanitizer-coverage-pc-table \
        llvm-args=-sanitizer-coverage-trace-compares llvm-args=-simplifycfg-branch-fold-threshold=0
}

# build_fuzz: the one program that has all targets; prints its path.
build_fuzz() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    # With a target named, the flags are not those of programs that run while building.
    RUSTFLAGS="${RUSTFLAGS:-}$(coverage_flags)" cargo build --quiet --locked --package cni-fuzz --bin fuzz --features libfuzzer \
        --profile fuzz --target "$host" --target-dir "$FUZZ/build" >&2 || return
    printf '%s\n' "$FUZZ/build/$host/fuzz/fuzz"
}

# run_target PROGRAM TARGET ARGUMENT...
run_target() {
    local program=$1 target=$2
    shift 2
    CNI_FUZZ_TARGET=$target "$program" -dict="$DICTIONARY" -max_len=65536 -timeout=20 -rss_limit_mb=2048 "$@"
}

# fuzz PROGRAM SECONDS TARGET: fails when there is a finding.
fuzz() {
    local program=$1 seconds=$2 target=$3 log=$FUZZ/$3.log corpus=$FUZZ/corpus/$3
    mkdir -p "$corpus" "$FUZZ/findings/$target" "$FUZZ/rows/$target"
    if run_target "$program" "$target" -max_total_time="$seconds" -artifact_prefix="$FUZZ/findings/$target/" -print_final_stats=1 \
        "$corpus" "$SEEDS/$target" "$FUZZ/rows/$target" >"$log" 2>&1; then
        printf '%s: %s inputs, no finding\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" >&2
    else
        tell "$program" "$target" "$log" >&2
        return 1
    fi
}

# tell PROGRAM TARGET LOG: what was found, and how to see it again.
tell() {
    local program=$1 target=$2 log=$3 input
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    if [[ "$input" == */crash-* ]]; then
        run_target "$program" "$target" -minimize_crash=1 -max_total_time=20 -exact_artifact_path="$input.small" "$input" \
            >"$log.small" 2>&1 || true
        [ ! -s "$input.small" ] || input=$input.small
    fi
    printf 'FOUND by %s, all of it in %s:\n' "$target" "$log"
    grep -a -A 4 -e 'panicked at' -e 'ERROR: libFuzzer' "$log" | head -n 8 | cut -c 1-1000
    printf 'see it again: CNI_FUZZ_TARGET=%s %s %s\n' "$target" "$program" "$input"
}

case "${1:-}" in
-h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 0 ;;
esac
seconds=60
if [[ "${1:-}" =~ ^[1-9][0-9]*$ ]]; then
    seconds=$1
    shift
fi
for target; do [ -d "$SEEDS/$target" ] || die "there is no target $target: $SEEDS has the others"; done
cd "$TOP"
need_rust
need c++ g++
say "building the fuzz targets (some minutes; seconds when nothing has changed)"
program=$(build_fuzz)
cargo run --quiet --locked --package cni-fuzz --bin seeds -- "$FUZZ/rows/config"
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(find "$SEEDS" -mindepth 1 -printf '%P\n' -prune | sort)
say "fuzzing ${targets[*]}"
export -f fuzz run_target tell
export FUZZ SEEDS DICTIONARY
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'set -euo pipefail; fuzz "$@"' fuzz "$program" "$seconds" {} ||
    die "there are findings"
