#!/usr/bin/env bash
# All tests, in one build. Those of the simulation only compute; they run beside the others, in the time in which those
# wait, and go on with more seeds until the others have ended. Those end to end come after the unit and integration
# tests; $1 of them run at the same time.
set -uo pipefail
cd "$(dirname "$0")/.."
sims=(--test seeds --test metaservers --test copies --test mutations --test determinism)
more=(--test copies --test metaservers --test seeds whatever_happens)
others=(--lib --bins --tests) # not examples in documentation: there is none that runs
idle=(chrt --idle 0)
"${idle[@]}" true || idle=(nice -n 19)

cargo test --workspace --no-run "${others[@]}" && cargo test --workspace --no-run "${sims[@]}" --test e2e || exit

folder=$(mktemp -d) || exit
others_ended=$folder/others-ended
simulate() {
    local status=0
    "${idle[@]}" cargo test --workspace --no-fail-fast "${sims[@]}" || status=$?
    HEOROT_SIM_UNTIL=$others_ended "${idle[@]}" cargo test --workspace --no-fail-fast "${more[@]}" -- --nocapture || status=$?
    return "$status"
}
set -m # a process group of its own
simulate >"$folder/said" 2>&1 &
simulation=$!
set +m
trap '[ -z "$simulation" ] || kill -- "-$simulation"; rm -rf "$folder"' EXIT

status=0
cargo test --workspace --no-fail-fast "${others[@]}" || status=$?
cargo test --workspace --test e2e --no-fail-fast -- --test-threads "$1" || status=$?
echo "waiting for the simulation"
touch "$others_ended"
wait "$simulation" || status=$?
simulation=
cat "$folder/said"
exit "$status"
