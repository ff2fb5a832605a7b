#!/usr/bin/env bash
# Builds heorot as it was at a commit or a tag, in a work tree of its own below target/old, for `make upgrade`. Prints the program.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$top" rev-parse --verify --quiet "$1^{commit}") || { echo "no commit $1" >&2; exit 1; }
tree=$top/target/old/$commit
if [ ! -e "$tree/.git" ]; then
    git -C "$top" worktree prune
    git -C "$top" worktree add --quiet --force --detach "$tree" "$commit"
fi
# One folder of compiled code for all of them: what they depend on is mostly the same.
(cd "$tree" && CARGO_TARGET_DIR=$top/target/old/build cargo build --quiet --bin heorot >&2)
cp "$top/target/old/build/debug/heorot" "$tree/heorot-old"
echo "$tree/heorot-old"
