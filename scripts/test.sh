#!/usr/bin/env bash
# All tests, in one build. Those of the simulation only compute; they run at the lowest priority beside the others, which
# mostly wait. Then those end to end, of which $1 run at the same time.
set -uo pipefail
cd "$(dirname "$0")/.."
sims=(--test seeds --test metaservers --test copies --test mutations --test determinism)

cargo test --workspace --no-run && cargo test --workspace --no-run "${sims[@]}" --test e2e || exit

said=$(mktemp)
set -m # a process group of its own
nice -n 19 cargo test --workspace --no-fail-fast "${sims[@]}" >"$said" 2>&1 &
simulation=$!
set +m
trap '[ -z "$simulation" ] || kill -- "-$simulation"; rm -f "$said"' EXIT

status=0
cargo test --workspace --no-fail-fast || status=$?
echo "waiting for the simulation"
wait "$simulation" || status=$?
simulation=
cat "$said"
cargo test --workspace --test e2e --no-fail-fast -- --test-threads "$1" || status=$?
exit "$status"
