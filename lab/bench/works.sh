# The works of lab/bench.sh. Each work_NAME has every place do it, in turn, and prints a line a figure, between tabs:
#
#   place  work  unit  up|down  best|median  figure
#
# "up" says that more is better. Of several lines of one place and work the best or the median counts: writes are quoted by
# their best, reads by their median, since a disturbance only takes from a write and a cache may give to a read.

say() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@"; }
each() { # COMMAND...: for every place, as many times as there are rounds, in turn
    local round place
    for round in $(seq "$rounds"); do
        for place in "${places[@]}"; do "$@" "$place" "$ground/$place/mnt"; done
    done
}
now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.4f\n", to - from }'; }
# Seconds that all processors worked for anybody, the kernel included.
busy() { awk -v tick="$(getconf CLK_TCK)" '/^cpu / { printf "%.2f\n", ($2 + $3 + $4 + $7 + $8) / tick }' /proc/stat; }

# The first touch of memory costs a virtual machine 2 to 3 s of a processor for a GiB, and again after its host took free memory back.
# So before each write as much is touched as it may use: one and a half times its bytes on nodes, once in the kernel's page cache, and
# buffers. Otherwise the place seems to work where the machine does.
touch_memory() {
    local touched
    touched="$(mktemp -p /dev/shm weft-touch.XXXXXX)"
    head -c "$((large_mib * 4))M" /dev/zero >"$touched"
    rm "$touched"
}

# fio's terse line: field 7 is read KiB/s, 8 read IOPS, 48 write KiB/s, 49 write IOPS.
fio_figure() { # FIELD DIRECTORY ARGUMENTS...
    local field="$1" directory="$2"
    shift 2
    fio --name=work --directory="$directory" --ioengine=psync --group_reporting --output-format=terse --terse-version=3 "$@" |
        awk -F';' -v field="$field" '/^3;/ { print $field }'
}

# One large file; what it costs all processors.
one_sequential() { # rw PLACE DIRECTORY
    local options=(--filename=large --bs=1m --size="${large_mib}m" --rw="$1") before
    echo 3 >/proc/sys/vm/drop_caches
    [ "$1" != write ] || touch_memory
    before="$(busy)"
    if [ "$1" = write ]; then
        say "$2" "sequential write + fsync" KiB/s up best "$(fio_figure 48 "$3" "${options[@]}" --end_fsync=1)"
    else
        say "$2" "sequential read" KiB/s up median "$(fio_figure 7 "$3" "${options[@]}")"
    fi
    say "$2" "processors, sequential $1" s/GiB down median \
        "$(awk -v before="$before" -v after="$(busy)" -v mib="$large_mib" 'BEGIN { print (after - before) * 1024 / mib }')"
}
work_sequential() {
    each one_sequential write
    each one_sequential read
}

one_streams() {
    local options=(--bs=1m --size="$((large_mib / 5))m" --numjobs=5 --filename_format='stream.$jobnum')
    echo 3 >/proc/sys/vm/drop_caches
    touch_memory
    say "$1" "five streams, write + fsync" KiB/s up best "$(fio_figure 48 "$2" "${options[@]}" --rw=write --end_fsync=1)"
    echo 3 >/proc/sys/vm/drop_caches
    say "$1" "five streams, read" KiB/s up median "$(fio_figure 7 "$2" "${options[@]}" --rw=read)"
    rm -f "$2"/stream.*
}
work_streams() { each one_streams; }

one_random() { # THREADS PLACE DIRECTORY
    forget "$2"
    say "$2" "random read 4 KiB O_DIRECT, threads: $1" /s up median "$(fio_figure 8 "$3" --filename=large --bs=4k \
        --size="${large_mib}m" --rw=randread --direct=1 --runtime="$seconds" --time_based --numjobs="$1")"
}
work_random() {
    each one_random 1
    each one_random 16
}

one_synced() { # THREADS PLACE DIRECTORY
    say "$2" "4 KiB write + fsync, files: $1" /s up best "$(fio_figure 49 "$3" --bs=4k --size=4m --rw=randwrite --fsync=1 \
        --runtime="$seconds" --time_based --numjobs="$1" --filename_format='synced.$jobnum')"
    rm -f "$3"/synced.*
}
work_synced() {
    each one_synced 1
    each one_synced 16
}

# What one program does with small files, one after another, by `weft bench`.
one_small() {
    "$weft" bench --files "$files" --size-mib 1 --json "$2" |
        jq -r '.[] | select(.what | test("create|stat|open|rename|unlink")) | [.what, .operations / .seconds] | @tsv' |
        while IFS=$'\t' read -r what rate; do say "$1" "$what" /s up best "$rate"; done
}
work_small() { each one_small; }

# A tree of sources, this project's own several times, and real programs on it.
one_tree() {
    local place="$1" tree="$2/tree" copy
    timed() { # WORK COMMAND...
        local what="$1" from
        shift
        from="$(now)"
        "$@" >/dev/null
        say "$place" "$what" s down median "$(since "$from")"
    }
    git archive --output="$ground/source.tar" HEAD
    mkdir "$tree"
    unpack() { for copy in $(seq "$tree_copies"); do mkdir "$tree/$copy" && tar xf "$ground/source.tar" -C "$tree/$copy"; done; }
    commit() {
        git -C "$tree" init -q
        git -C "$tree" add .
        git -C "$tree" -c user.name=lab -c user.email=lab@localhost commit -q -m tree
    }
    timed "tar x of the tree" unpack
    echo 2 >/proc/sys/vm/drop_caches
    timed "find" find "$tree"
    echo 2 >/proc/sys/vm/drop_caches
    timed "ls -lR" ls -lR "$tree"
    timed "tar c" tar cf "$ground/packed.tar" "$tree"
    timed "git init, add, commit" commit
    timed "git status" git -C "$tree" status --short
    timed "rm -rf" rm -rf "$tree"
    rm -f "$ground/source.tar" "$ground/packed.tar"
}
work_tree() { each one_tree; }

# One directory with many files.
one_listing() {
    mkdir "$2/many"
    seq -f "$2/many/%08.0f" "$files" | xargs touch
    echo 2 >/proc/sys/vm/drop_caches
    local from
    from="$(now)"
    ls -l "$2/many" >/dev/null
    say "$1" "ls -l of $files files" s down median "$(since "$from")"
    rm -rf "$2/many"
}
work_listing() { each one_listing; }

# What its processes hold after all that came before: shared pages count by their share.
work_memory() {
    local place
    for place in "${places[@]}"; do
        say "$place" "memory of all its processes" MiB down median "$(for process in $(processes "$place"); do
            cat "/proc/$process/smaps_rollup" 2>/dev/null
        done | awk '/^Pss:/ { kib += $2 } END { print kib / 1024 }')"
    done
}

# Does an operation cost more where there are more files? Plain FUSE and folders only: a hundred thousand files take others long.
work_growth() {
    local place count from mnt
    for count in "${growth[@]}"; do
        for place in "${places[@]}"; do
            [ "$place" = plain ] || [ "$place" = folders ] || continue
            # passthrough_ll needs a descriptor for each.
            [ "$place" = folders ] || [ "$count" -lt "$(($(ulimit -n) - 1000))" ] || continue
            mnt="$ground/$place/mnt/growth"
            mkdir "$mnt"
            from="$(now)"
            seq -f "$mnt/%08.0f" "$count" | xargs touch
            say "$place" "of $count files: touch" /s up best "$(awk -v n="$count" -v t="$(since "$from")" 'BEGIN { print n / t }')"
            echo 2 >/proc/sys/vm/drop_caches
            from="$(now)"
            ls -l "$mnt" >/dev/null
            say "$place" "of $count files: ls -l" /s up median "$(awk -v n="$count" -v t="$(since "$from")" 'BEGIN { print n / t }')"
            from="$(now)"
            rm -rf "$mnt"
            say "$place" "of $count files: rm -rf" /s up best "$(awk -v n="$count" -v t="$(since "$from")" 'BEGIN { print n / t }')"
        done
    done
}

# Reads while nodes are gone, then the repair of one; for places that can lose nodes. Comes last.
stored() { du -sk "$ground/$1" | cut -f 1; } # KiB
work_degraded() {
    local place lost round before from
    for place in "${places[@]}"; do
        declare -F "lose_$place" >/dev/null || continue
        # Nobody mends beside the reads.
        "$weft" umount "$ground/$place/mnt" >/dev/null
        "$weft" mount "$(meta_of "$place")" "$ground/$place/mnt" -d --no-care >/dev/null
        for lost in 0 1 2; do
            [ "$lost" = 0 ] || "lose_$place" "$lost"
            for round in $(seq "$rounds"); do
                echo 3 >/proc/sys/vm/drop_caches
                say "$place" "sequential read, nodes lost: $lost" KiB/s up median \
                    "$(fio_figure 7 "$ground/$place/mnt" --filename=large --bs=1m --size="${large_mib}m" --rw=read)"
            done
        done
        "mend_$place" 1
        "mend_$place" 2
        before="$(stored "$place")" from="$(now)"
        "$weft" repair "$(meta_of "$place")" >/dev/null
        say "$place" "repair of two nodes" MiB/s up best \
            "$(awk -v before="$before" -v after="$(stored "$place")" -v t="$(since "$from")" 'BEGIN { print (after - before) / t / 1024 }')"
    done
}
