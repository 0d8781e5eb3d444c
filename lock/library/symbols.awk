# Prints a C header from the list lock/library/symbols: for each library a table of pointers, such as
# loaded_mysql, and for each symbol a macro that reaches it by the table. So the sources use its
# name, whether the library is loaded or linked. An argument like mysql=libmariadb.so.3, after the
# list's name, gives the file of a library; one without is left out.
function finish() {
    if (library == "")
        return
    printf "};\nextern struct loaded_%s loaded_%s;\n", library, library
    printf "#ifdef LOADED_DEFINE\nstruct loaded_%s loaded_%s;\n", library, library
    printf "static const char *const names_%s[] = {\n%s};\n#endif\n", library, names
    printf "%s#endif\n", macros
}
BEGIN {
    print "/* Made by lock/library/symbols.awk. */\n#define CURL_DISABLE_TYPECHECK"
    for (i = 2; i < ARGC; i++) {
        split(ARGV[i], word, "=")
        file[word[1]] = word[2]
        delete ARGV[i]
    }
}
/^#/ || /^$/ { next }
NF == 2 {
    finish()
    library = names = macros = ""
    if (file[$1] == "")
        next
    library = $1
    printf "\n#define LOADED_FILE_%s \"%s\"\n#ifdef LOADED_%s\n", library, file[library], library
    printf "#include %s\nstruct loaded_%s {\n", $2, library
    next
}
library != "" {
    printf "    __typeof__(%s) *%s;\n", $1, $1
    names = names "    \"" $1 "\",\n"
    macros = macros "#undef " $1 "\n#define " $1 " (*loaded_" library "." $1 ")\n"
}
END { finish() }
