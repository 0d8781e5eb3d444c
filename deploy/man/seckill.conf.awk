# Makes the manual page seckill.conf(5) from the commented file that seckilld --help-config prints.
# `version` is what seckilld --version prints.

# Text as roff takes it.
function roff(text) {
    gsub(/\\/, "\\\\e", text)
    gsub(/-/, "\\\\-", text)
    return text
}

# Prints each sentence in a line of its own, and none that roff takes for a request.
function print_sentences(text,    end) {
    while (text != "") {
        end = index(text, ". ")
        if (!end)
            end = length(text)
        print (text ~ /^[.']/ ? "\\&" : "") roff(substr(text, 1, end))
        text = substr(text, end + 1)
        sub(/^ +/, "", text)
    }
}

BEGIN {
    print ".TH SECKILL.CONF 5 2026-11-22 \"" version "\" \"File Formats\""
    print ".SH NAME"
    print "seckill.conf \\- configuration of seckilld(8)"
    print ".SH DESCRIPTION"
    print "The file that"
    print ".BI \"seckilld \\-\\-config \" FILE"
    print "reads holds one setting a line,"
    print ".IR option \" = \" value ."
    print "Blank lines and lines that begin with # do not count."
    print "Values stand without quotes, and no option may stand twice."
    print ".PP"
    print "Each option is a flag of the daemon as well (max_batch: \\-\\-max\\-batch) and an"
    print "environment variable (SECKILL_MAX_BATCH)."
    print "Flags win over the environment, the environment wins over the file."
    print ".PP"
    print ".B seckilld \\-\\-check\\-config"
    print "tells what is wrong with a file."
    print ".SH OPTIONS"
    print "Each stands with its default."
}

# The file's own head ends, or an option has been printed.
/^$/ { text = "" }

/^# Allowed: / { allowed = substr($0, 3); next }

/^# / { text = text (text == "" ? "" : " ") substr($0, 3) }

/^#[a-z]/ {
    sub(/ =$/, "")
    print ".TP\n.B " roff(substr($0, 2))
    print_sentences(text)
    print ".br\n" allowed
}

END { print ".SH SEE ALSO\n.BR seckilld (8),\n.BR seckillctl (1)" }
