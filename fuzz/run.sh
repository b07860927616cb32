#!/bin/sh
# Runs one fuzz target, or each of them, for that many seconds: fuzz/run.sh <target|all> <seconds>
set -eu
cd "$(dirname "$0")"
target=${1:?usage: fuzz/run.sh <target|all> <seconds>}
seconds=${2:?usage: fuzz/run.sh <target|all> <seconds>}

# cargo-fuzz's instrumentation without the address sanitizer, which needs a nightly toolchain; all code here is safe Rust.
# These flags replace .cargo/config.toml, so they repeat its curve25519_dalek_backend.
flags='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing
--cfg curve25519_dalek_backend="avx512"'
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS=$(echo $flags) cargo build --release --target "$host" --target-dir target

if [ "$target" = all ]; then
    targets=$(ls fuzz_targets | sed 's/\.rs$//')
else
    targets=$target
fi
for name in $targets; do
    echo "== $name"
    mkdir -p "corpus/$name" "artifacts/$name"
    "target/$host/release/$name" "corpus/$name" -artifact_prefix="artifacts/$name/" -max_total_time="$seconds" \
        -print_final_stats=1
done
