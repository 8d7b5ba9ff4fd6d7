# The figures of lab/bench/works.sh as a table: a line a work, a column a place, and behind each figure how many times as good
# as plain FUSE it is (above 1 is better, whatever is measured).
#   awk -F'\t' -v places="plain folders" -f table.awk FIGURES

{
    work = $2 " | " $3
    if (!(work in better)) { better[work] = $4; which[work] = $5; order[++works] = work }
    values[work, $1] = values[work, $1] " " $6
}

# The best or the median of figures between blanks.
function chosen(text, up, best,    n, i, j, swap, list) {
    n = split(text, list, " ")
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j] + 0 < list[j - 1] + 0; j--) { swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap }
    if (best) return up ? list[n] : list[1]
    return list[int((n + 1) / 2)]
}
function figure(value) { return value + 0 >= 100 ? sprintf("%.0f", value) : sprintf("%.3g", value) }

END {
    columns = split(places, place, " ")
    line = "| work | unit |"; rule = "|---|---|"
    for (p = 1; p <= columns; p++) { line = line " " place[p] " |"; rule = rule "---|" }
    print line; print rule
    for (w = 1; w <= works; w++) {
        work = order[w]; up = better[work] == "up"
        delete value
        for (p = 1; p <= columns; p++)
            if ((work, place[p]) in values) value[p] = chosen(values[work, place[p]], up, which[work] == "best")
        line = "| " work " |"
        for (p = 1; p <= columns; p++) {
            if (!(p in value)) { line = line " |"; continue }
            line = line " " figure(value[p])
            if (place[p] != "plain" && place[1] == "plain" && value[1] > 0 && value[p] > 0)
                line = line sprintf(" (%.2f)", up ? value[p] / value[1] : value[1] / value[p])
            line = line " |"
        }
        print line
    }
}
