#!/bin/sh
# Runs the mutants of mutants.patch against checkers that know nothing of the rules, and reports which are killed.
#
#   mutation/run.sh [--keep DIRECTORY] [NUMBER...]       # without numbers: all
#   mutation/run.sh --check                              # only whether the mutants still apply and compile
#
# Needs git and cargo. Copies the last commit, not the working tree. DIRECTORY keeps the copy and its build for another
# run. docs/MUSEUM.md lists the mutants by number.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
limit_s=${MUTATION_LIMIT_S:-900}
usage="usage: mutation/run.sh [--keep DIRECTORY] [NUMBER...] | --check"
copy=
check=
if [ "${1:-}" = "--check" ] && [ $# = 1 ]; then
    check=yes
    shift
elif [ "${1:-}" = "--keep" ]; then
    [ $# -ge 2 ] || { echo "mutation/run.sh: --keep names no directory; $usage" >&2; exit 2; }
    mkdir -p "$2"
    copy=$(cd "$2" && pwd)
    shift 2
fi
for number in "$@"; do
    case $number in
        *[!0-9]*) echo "mutation/run.sh: $number is no mutant's number; $usage" >&2; exit 2 ;;
    esac
done
if [ -z "$copy" ]; then
    copy=$(mktemp -d)
    trap 'git -C "$here" worktree remove --force "$copy/tree"; rm -rf "$copy"' EXIT INT TERM
fi
tree=$copy/tree
if [ ! -e "$tree" ]; then
    git -C "$here" worktree add --quiet --detach "$tree" HEAD
    git -C "$tree" apply --3way "$here/mutation/mutants.patch" || {
        echo "mutation/run.sh: the code under some mutants has changed; help: docs/MUSEUM.md, \"Keeping the patch\"" >&2
        exit 1
    }
fi
if [ -n "$check" ]; then
    # In the build of the workspace, which has checked the dependencies already.
    (cd "$tree" && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$here/target} cargo check --quiet --workspace --locked)
    exit
fi
export CARGO_TARGET_DIR="$copy/target"

# Builds a crate's tests of a module and prints the path of the binary.
binary() {
    (cd "$tree" && cargo test --no-run -p "$1" --test "$2" 2>&1) | tee "$copy/build" |
        sed -n 's/.*Executable.*(\(.*\))$/\1/p'
}
twins=$(binary quorate-adversary twins)
simulator=$(binary quorate-simulator tests)
byzantine=$(binary quorate-adversary byzantine)
if [ -z "$twins" ] || [ -z "$simulator" ] || [ -z "$byzantine" ]; then
    cat "$copy/build" >&2
    exit 2
fi

# The checkers, fastest first. None of these tests names a rule; the properties they check are in laboratory/adversary.
checker() {
    case $1 in
    ambush) cd "$tree/laboratory/adversary" && set -- "$twins" ambush::a_nearby ;;
    twins) cd "$tree/laboratory/adversary" && set -- "$twins" scenarios:: ;;
    chaos) cd "$tree/laboratory/simulator" && set -- "$simulator" chaos::every ;;
    conformance) cd "$tree/laboratory/adversary" && set -- "$byzantine" conformance:: ;;
    hostile) cd "$tree/laboratory/simulator" && set -- "$simulator" hostile:: ;;
    hardship) cd "$tree/laboratory/simulator" && set -- "$simulator" hardships:: ;;
    sweep) cd "$tree/laboratory/simulator" && set -- "$simulator" crash_sweep:: ;;
    state) cd "$tree/laboratory/simulator" && set -- "$simulator" state_transfer:: ;;
    esac
    timeout "$limit_s" "$@"
}
checkers=${MUTATION_CHECKERS:-ambush chaos twins hostile hardship conformance sweep state}

killed=0
run=0
[ $# -gt 0 ] || set -- $(sed -n '/^## The mutation score/,$ s/^| \([0-9][0-9]*\) |.*/\1/p' "$here/docs/MUSEUM.md")
for number in 0 "$@"; do
    by=
    for checker in $checkers; do
        (export QUORATE_MUTANT="$number"; checker "$checker") >"$copy/out" 2>&1 || by=$checker
        if grep -q '^running 0 tests' "$copy/out"; then
            echo "mutation/run.sh: the checker $checker runs no test; help: its filter must name a test" >&2
            exit 2
        fi
        [ -z "$by" ] || break
    done
    if [ "$number" = 0 ]; then
        [ -z "$by" ] || { echo "without a mutant $by fails:"; tail -40 "$copy/out"; exit 2; }
        continue
    fi
    run=$((run + 1))
    if [ -n "$by" ]; then
        killed=$((killed + 1))
        echo "$number killed by $by: $(grep -m1 -E 'violation|Violation|panicked|left:' "$copy/out" | cut -c1-160)"
    else
        echo "$number SURVIVED"
    fi
done
echo "$killed of $run killed"
