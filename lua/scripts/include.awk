# Prints a script with each line "-- include: NAME" replaced by the file include/NAME beside it,
# without its comments: so the daemon and the library send it. To load one by hand:
#
#   awk -f lua/scripts/include.awk lua/scripts/lock_acquire.lua | redis-cli -x SCRIPT LOAD
/^ *-- include: / {
    name = FILENAME
    sub(/[^\/]*$/, "", name)
    name = name "include/" $3
    lines = 0
    while ((got = (getline line < name)) > 0) {
        if (line !~ /^--/)
            print line
        lines++
    }
    close(name)
    if (got < 0 || lines == 0) {
        print FILENAME ":" FNR ": no file " name >"/dev/stderr"
        exit 1
    }
    next
}
{ print }
