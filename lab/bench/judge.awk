# What a new table says beside the one of the same ground in the notes: ratios to plain FUSE that fell by more than a tenth, and
# all that are below a half.
#   awk -v kind=tmpfs -f judge.awk NOTES TABLE

FNR == NR && index($0, "<!-- lab/bench.sh " kind " -->") { committed = 1; next }
FNR == NR && /^<!-- end -->/ { committed = 0; next }
FNR == NR && !committed { next }
!/^\|/ || /^\|---/ { next }
{
    cells = split($0, cell, / *\| */)
    if (cell[2] == "work") { for (c = 4; c < cells; c++) place[c] = cell[c]; next }
    for (c = 4; c < cells; c++) {
        if (!match(cell[c], /\([0-9.]+\)/)) continue
        ratio = substr(cell[c], RSTART + 1, RLENGTH - 2) + 0
        key = place[c] ", " cell[2]
        if (FNR == NR) { was[key] = ratio; continue }
        if (key in was && ratio < 0.9 * was[key]) fell[++falls] = sprintf("%s: %.2f, was %.2f", key, ratio, was[key])
        if (place[c] ~ /^(folders|local|sent|tls)$/ && ratio < 0.5) low[++lows] = sprintf("%s: %.2f", key, ratio)
    }
}
END {
    for (key in was) compared++
    if (!compared) print "\nlab/NOTES.md has no table of " kind " to compare with: --renew writes this one there."
    else if (!falls) print "\nNo ratio fell by more than a tenth."
    if (falls) print "\nFell by more than a tenth:"
    for (f = 1; f <= falls; f++) print "- " fell[f]
    if (lows) print "\nBelow half of plain FUSE:"
    for (l = 1; l <= lows; l++) print "- " low[l]
}
