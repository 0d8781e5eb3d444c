# Writes the manual pages of section 3 from the public headers, which are the one place where the
# interface is described: a page for each part of a header that begins with "/* ---- NAME ----",
# called after its first function, an alias for each other function, and seclock.3 from what comes
# before the first part.
#
# usage: awk -v out=DIR -v version=1.0.0 -v date=2026-11-28 -f pages.awk seclock.h seclock_value.h
BEGIN {
    overview = "seclock"
}

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    if (text ~ /^[.']/)
        text = "\\\\&" text
    return text
}

# ---- pages ----

function page_begin(title) {
    page_end()
    part = title
    names = synopsis = body = first = ""
}

function page_end(    list, count, i, file) {
    if (first == "")
        return
    file = out "/" first ".3"
    printf ".TH %s 3 %s \"libseclock %s\" \"Library Functions\"\n", toupper(first), date,
        version >file
    printf ".SH NAME\n%s \\- %s\n", names, part >file
    printf ".SH SYNOPSIS\n.nf\n.B #include <%s>\n%s.fi\n.PP\nLink with \\fI\\-lseclock\\fP.\n",
        header, synopsis >file
    printf ".SH DESCRIPTION\n%s", body >file
    if (first != overview)
        printf ".SH SEE ALSO\n.BR seclock (3)\n" >file
    else
        return # its pages are not all known yet
    close(file)
    count = split(names, list, ", ")
    for (i = 1; i <= count; i++)
        if (list[i] != first) {
            file = out "/" list[i] ".3"
            printf ".so man3/%s.3\n", first >file
            close(file)
        }
    others = others ",\n.BR " first " (3)"
}

# ---- items: a comment and the declaration under it ----

function say(text) {
    body = body (body == "" ? "" : ".PP\n") text
}

function name_of(code) {
    sub(/\(.*/, "", code)
    sub(/.*[ *]/, "", code)
    return code
}

function paragraphs(text,    count, lines, i, result) {
    sub(/^\n+/, "", text)
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++)
        result = result (lines[i] == "" ? (i < count ? ".PP\n" : "") : escape(lines[i]) "\n")
    return result
}

function escape_lines(code,    count, lines, i, result) {
    count = split(code, lines, "\n")
    for (i = 1; i < count; i++)
        result = result escape(lines[i]) "\n"
    return result
}

function listing(code) {
    return ".nf\n" escape_lines(code) ".fi\n"
}

function item_end(    plain, name) {
    if (code == "")
        return
    plain = code
    gsub(/\/\*[^*]*\*\//, "", plain)
    if (plain ~ /SECLOCK_API|^static inline/) {
        gsub(/SECLOCK_API /, "", code)
        if (gsub(/SECLOCK_API |static inline /, "", plain))
            gsub(/\n            /, "\n", plain)
        sub(/\n\{.*/, ";\n", plain)
        sub(/\n\{.*/, ";\n", code)
        name = name_of(plain)
        if (first == "")
            first = name
        names = names (names == "" ? "" : ", ") name
        synopsis = synopsis ".sp\n" escape_lines(plain)
        body = body ".SS " name "\n" (comment == "" ? listing(code) : "") paragraphs(comment)
    } else {
        say(listing(code))
        if (comment != "")
            say(paragraphs(comment))
    }
    code = comment = ""
}

# ---- lines ----

FNR == 1 {
    page_end()
    header = FILENAME
    sub(/.*\//, "", header)
    part = names = synopsis = body = first = code = comment = ""
    within = ""
    if (header == "seclock.h") {
        first = names = overview
        part = "distributed locks: leases with fencing tokens"
    } else {
        part = "values with versions"
    }
}
# Of a macro, only the rows that an enumeration is made of.
/^#define SECLOCK_[A-Z]+\(X\)/ {
    prefix = $2
    sub(/S?\(X\)/, "_", prefix)
    sub(/LOSSE_/, "LOSS_", prefix)
    sub(/RESULT_/, "", prefix)
}
/^#ifndef/ && comment != "" { # what comes before the guard is of the whole header
    say(paragraphs(comment))
    comment = ""
}
/^#/ || continued {
    row = $0
    continued = sub(/ *\\$/, "", row)
    if (sub(/^ *X\(/, prefix, row) || (rows != "" && sub(/^ +/, "", row))) {
        sub(/\)( *\/\*|$)/, " &", row)
        sub(/ \)/, "", row)
        rows = rows row (row ~ /,$/ ? " " : "\n")
    }
    if (!continued && rows != "") {
        say(paragraphs(comment) ".PP\n" listing(rows))
        rows = comment = ""
    }
    next
}
/^extern "C"/ || /^}$/ && code == "" { next }
within == "" && /^\/\* ---- / {
    title = $0
    gsub(/^\/\* ---- | ----.*$/, "", title)
    page_begin(title)
    within = /\*\/$/ ? "" : "intro"
    next
}
within == "" && code == "" && /^\/\*/ {
    if (comment != "") # one that no declaration follows
        say(paragraphs(comment))
    comment = ""
    within = "comment"
}
within == "comment" || within == "intro" {
    line = $0
    ended = sub(/ *\*\/$/, "", line)
    sub(/^(\/\*| \*) ?/, "", line)
    comment = comment line "\n"
    if (ended) {
        if (within == "intro") {
            say(paragraphs(comment))
            comment = ""
        }
        within = ""
    }
    next
}
$0 != "" || depth > 0 {
    code = code $0 "\n"
    opened = $0
    gsub(/'[{}]'/, "", opened)
    depth += gsub(/\{/, "", opened) - gsub(/\}/, "", opened)
    if (depth == 0 && /(;|\})( *\/\*.*\*\/)?$/ && !/\\$/)
        item_end()
}
END {
    page_end()
    printf ".SH SEE ALSO\n.BR seclock (1)%s\n", others >(out "/" overview ".3")
}
