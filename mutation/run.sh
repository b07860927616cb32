#!/bin/sh
# Runs the mutants of docs/MUSEUM.md against checkers that know nothing of the rules, and reports which are killed.
#
#   mutation/run.sh [NUMBER | NAME]...                   # without any: all
#
# Needs cargo. The checkers are tests, built with the feature `museum`; a variable that exists only with it injects a
# mutant into the whole process.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
limit_s=${MUTATION_LIMIT_S:-900}
checkers=${MUTATION_CHECKERS:-hunts ambush chaos twins hostile hardship conformance sweep state}
build=${MUTATION_BUILD:--p quorate-adversary -p quorate-simulator}

# The numbers and names of the mutants. Those for which an exhibit stands have no name.
table=$(sed -n '/^## The mutation score/,$ s/^| \([0-9][0-9]*\) | [^|]* | `\([A-Za-z]*\)` |.*/\1 \2/p' "$here/docs/MUSEUM.md")
chosen=
for wanted in "$@"; do
    found=$(echo "$table" | grep -E "^$wanted | $wanted\$" || true)
    if [ -z "$found" ]; then
        echo "mutation/run.sh: there is no mutant $wanted; help: docs/MUSEUM.md lists numbers and names" >&2
        exit 2
    fi
    chosen="$chosen$found
"
done
[ -n "$chosen" ] || chosen=$table

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM
# $build is a list of flags.
# shellcheck disable=SC2086
(cd "$here" && cargo test --no-run --locked $build --test twins --test byzantine --test tests \
    --message-format json) >"$out/build"
# Prints the path of a crate's test binary.
binary() {
    sed -n "/\/laboratory\/$1#.*\"name\":\"$2\"/ s/.*\"executable\":\"\([^\"]*\)\".*/\1/p" "$out/build"
}
twins=$(binary adversary twins)
byzantine=$(binary adversary byzantine)
simulator=$(binary simulator tests)
if ! [ -x "$twins" ] || ! [ -x "$byzantine" ] || ! [ -x "$simulator" ]; then
    echo "mutation/run.sh: the checkers' binaries are missing: $twins $byzantine $simulator" >&2
    exit 2
fi

# The checkers, fastest first. None of these tests names a rule; the properties they check are in laboratory/adversary.
checker() {
    case $1 in
    hunts) cd "$here/laboratory/adversary" && set -- "$twins" mutants::hunts_with --include-ignored --nocapture ;;
    ambush) cd "$here/laboratory/adversary" && set -- "$twins" ambush::a_nearby ;;
    twins) cd "$here/laboratory/adversary" && set -- "$twins" scenarios:: ;;
    chaos) cd "$here/laboratory/simulator" && set -- "$simulator" chaos::every ;;
    conformance) cd "$here/laboratory/adversary" && set -- "$byzantine" conformance:: ;;
    hostile) cd "$here/laboratory/simulator" && set -- "$simulator" hostile:: ;;
    hardship) cd "$here/laboratory/simulator" && set -- "$simulator" hardships:: ;;
    sweep) cd "$here/laboratory/simulator" && set -- "$simulator" crash_sweep:: ;;
    state) cd "$here/laboratory/simulator" && set -- "$simulator" state_transfer:: ;;
    *) echo "mutation/run.sh: MUTATION_CHECKERS names no checker $1" >&2; exit 2 ;;
    esac
    timeout "$limit_s" "$@"
}

# Runs the checkers with a mutant, or without one if it has no name. Sets `by` to the first that fails.
by=
run() {
    by=
    for checker in $checkers; do
        if [ -n "$1" ]; then export QUORATE_MUTANT="$1"; else unset QUORATE_MUTANT; fi
        (checker "$checker") >"$out/said" 2>&1 || by=$checker
        if ! grep -q '^running [1-9]' "$out/said"; then
            cat "$out/said" >&2
            echo "mutation/run.sh: the checker $checker runs no test; help: its filter must name a test" >&2
            exit 2
        fi
        if [ -n "$by" ] || grep -q '^only hunts inject it' "$out/said"; then return; fi
    done
}

run ""
[ -z "$by" ] || { echo "without a mutant $by fails:"; tail -40 "$out/said"; exit 2; }
killed=0
total=0
while read -r number name; do
    [ -n "$name" ] || continue
    run "$name" </dev/null
    total=$((total + 1))
    if [ -n "$by" ]; then
        killed=$((killed + 1))
        # The message of the first panic, and the violation if it compares one.
        said=$(sed -n '/panicked at/,$ p' "$out/said" | sed -n '2p' | cut -c1-120)
        violation=$(grep -m1 -oE '(property: |Violation \{ ).{1,150}' "$out/said" || true)
        echo "$number $name killed by $by: $said $violation"
    else
        echo "$number $name SURVIVED"
    fi
done <<END
$chosen
END
echo "$killed of $total killed"
