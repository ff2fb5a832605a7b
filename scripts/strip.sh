#!/usr/bin/env bash
# Takes the debug symbols out of a program, into PROGRAM.debug beside it. The program names that file (.gnu_debuglink), so that
# debuggers, and Rust's own backtraces, find it where it lies beside the program or below /usr/lib/debug. Can be run again.
set -euo pipefail

program=$1
# Not through a pipe to grep -q, which ends at the first match: readelf would fail then, now and then.
sections=$(readelf --sections --wide "$program")
if [[ $sections == *' .debug_line '* ]]; then
    objcopy --only-keep-debug "$program" "$program.debug"
    (cd "$(dirname "$program")" && objcopy --strip-all --add-gnu-debuglink="$(basename "$program").debug" \
        "$(basename "$program")" "$(basename "$program").stripped")
    mv "$program.stripped" "$program"
fi
