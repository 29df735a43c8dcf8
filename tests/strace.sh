#!/bin/sh
# Makes each system call of a synced put fail in turn, or kill the process, and looks at what is left:
# acknowledged writes are there, old keys are read, the store verifies. Needs strace.
#
#   cargo build --release --features cli && tests/strace.sh target/release/criba
#
# Exit code 1 when a write was lost, a store damaged or a process hung.
set -u
criba=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export RUST_BACKTRACE=0

n=1
while [ $n -le 20 ]; do
    "$criba" put --durability sync "$dir/base" "k$n" "v$n" >"$dir/out" || exit 1
    n=$((n + 1))
done

runs=0 acknowledged=0 refused=0 lost=0 damaged=0 hung=0 panicked=0
for call in fsync fdatasync write pwrite64 openat rename ftruncate fallocate unlink getdents64 flock; do
    cp -r "$dir/base" "$dir/store"
    strace -f -o "$dir/trace" -e trace=$call "$criba" put --durability sync "$dir/store" new value >"$dir/out"
    calls=$(grep -c "$call(" "$dir/trace")
    rm -rf "$dir/store"
    n=1
    while [ $n -le "$calls" ]; do
        for fault in error=EIO error=ENOSPC signal=SIGKILL; do
            cp -r "$dir/base" "$dir/store"
            timeout 20 strace -f -o "$dir/trace" -e trace=$call -e inject=$call:$fault:when=$n \
                "$criba" put --durability sync "$dir/store" new value >"$dir/out" 2>"$dir/err"
            code=$?
            runs=$((runs + 1))
            [ $code = 124 ] && hung=$((hung + 1))
            grep -q panicked "$dir/err" && panicked=$((panicked + 1))
            if [ $code = 0 ]; then
                acknowledged=$((acknowledged + 1))
                [ "$("$criba" get "$dir/store" new)" = value ] || lost=$((lost + 1))
            else
                refused=$((refused + 1))
            fi
            sound=yes
            for key in 1 7 20; do
                [ "$("$criba" get "$dir/store" k$key)" = v$key ] || sound=no
            done
            "$criba" verify "$dir/store" >"$dir/out" 2>&1 || sound=no
            [ $sound = no ] && damaged=$((damaged + 1)) && echo "damaged: call $n of $call, $fault"
            rm -rf "$dir/store"
        done
        n=$((n + 1))
    done
    echo "$call: $calls calls"
done 2>/dev/null
echo "$runs runs: $acknowledged acknowledged, $refused refused or killed, $lost lost, $damaged damaged, $hung hung, $panicked panicked"
[ $lost = 0 ] && [ $damaged = 0 ] && [ $hung = 0 ] && [ $panicked = 0 ]
