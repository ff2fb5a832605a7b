#!/usr/bin/env bash
# Runs every fuzz target for $1 minutes, two at a time. Ends with 1 if one of them found something.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
minutes=${1:-10}
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: installs cargo-fuzz, the usual front end of libFuzzer"
  cargo install cargo-fuzz --locked
fi
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzz: needs a nightly toolchain: rustup toolchain install nightly --profile minimal" >&2
  exit 1
fi
(cd .. && HEOROT_FUZZ_SEEDS=$PWD/fuzz/seeds cargo test --quiet -p wire --lib -- --ignored seeds_for_the_fuzzer)
cargo +nightly fuzz build --fuzz-dir .
mkdir -p logs
run() {
  mkdir -p "corpus/$1" "seeds/$1"
  nice -n 19 cargo +nightly fuzz run --fuzz-dir . "$1" "corpus/$1" "seeds/$1" -- -max_len=8192 -malloc_limit_mb=64 \
    -rss_limit_mb=2048 -print_final_stats=1 -max_total_time=$((minutes * 60)) >"logs/$1.log" 2>&1
}
failed=0
for pair in "nfs4 nfs3" "private disk"; do
  pids=()
  for target in $pair; do run "$target" & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
done
for target in nfs4 nfs3 private disk; do
  echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "logs/$target.log") executions"
done
find artifacts -type f 2>/dev/null || true
exit $failed
