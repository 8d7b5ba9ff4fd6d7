# The notes with TABLE in place of the one of the same ground, or at the end where there is none.
#   awk -v kind=tmpfs -v table=TABLE -f renew.awk NOTES

function copy(    line) { print begin; while ((getline line < table) > 0) print line; print "<!-- end -->"; done = 1 }
BEGIN { begin = "<!-- lab/bench.sh " kind " -->" }
$0 == begin { copy(); skipping = 1; next }
skipping { if (/^<!-- end -->/) skipping = 0; next }
{ print }
END { if (!done) { print ""; copy() } }
