#!/usr/bin/env bash
# All tests, in one build. Those of the simulation only compute; they run beside the others, in the time in which those
# wait, and go on with more seeds until the others have ended. Of the unit and integration tests those that wait for servers
# run beside those that compute. Those end to end come after them; $1 of them run at the same time.
set -uo pipefail
cd "$(dirname "$0")/.."
sims=(--test seeds --test metaservers --test copies --test mutations --test determinism)
more=(--test copies --test metaservers --test seeds whatever_happens)
all=(--lib --bins --tests) # not examples in documentation: there is none that runs
waiting=(bench_agents chains checksums cluster lab nfs_rs nodes rebuild served service_addresses startup)
idle=(chrt --idle 0)
"${idle[@]}" true || idle=(nice -n 19)

cargo test --workspace --no-run "${all[@]}" && cargo test --workspace --no-run "${sims[@]}" --test e2e || exit

# Integration tests that run without being named.
integration=$(cargo metadata --no-deps --format-version 1 | grep -o '"kind":\["test"\][^}]*"test":true' |
    sed 's/.*"name":"\([^"]*\)".*/\1/' | sort -u) && [ -n "$integration" ] || exit
waits=() computes=(--lib --bins)
for name in $integration; do
    case " ${waiting[*]} " in
    *" $name "*) waits+=(--test "$name") ;;
    *) computes+=(--test "$name") ;;
    esac
done
if [ "${#waits[@]}" != $((2 * ${#waiting[@]})) ]; then
    echo "scripts/test.sh: one of these is no test: ${waiting[*]}" >&2
    exit 1
fi

folder=$(mktemp -d) || exit
others_ended=$folder/others-ended
simulate() {
    local status=0
    "${idle[@]}" cargo test --workspace --no-fail-fast "${sims[@]}" || status=$?
    HEOROT_SIM_UNTIL=$others_ended "${idle[@]}" cargo test --workspace --no-fail-fast "${more[@]}" -- --nocapture || status=$?
    return "$status"
}
set -m # process groups of their own
simulate >"$folder/simulation" 2>&1 &
simulation=$!
cargo test --workspace --no-fail-fast "${computes[@]}" >"$folder/computes" 2>&1 &
computing=$!
set +m
trap 'for group in $simulation $computing; do kill -- "-$group"; done; rm -rf "$folder"' EXIT

status=0
cargo test --workspace --no-fail-fast "${waits[@]}" -- --test-threads "$1" || status=$?
wait "$computing" || status=$?
computing=
cat "$folder/computes"
cargo test --workspace --test e2e --no-fail-fast -- --test-threads "$1" || status=$?
echo "waiting for the simulation"
touch "$others_ended"
wait "$simulation" || status=$?
simulation=
cat "$folder/simulation"
exit "$status"
