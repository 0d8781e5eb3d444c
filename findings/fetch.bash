#!/bin/bash
# Sourced by each finding: fetches Debian packages into a temporary folder and runs them there.
#
# It makes $temp, which goes when the script ends, with the processes that spawn has started. Status
# 1 of a script means that the behaviour is no longer as stated, 2 that it could not be run here.
# FINDINGS_CACHE names a folder that keeps package lists and packages for the next script.

temp=$(mktemp -d /tmp/finding.XXXXXX)
cache=${FINDINGS_CACHE:-$temp/apt}
pids=()

# kill_now PID: ends a process that spawn has started, without a word from the shell.
kill_now() {
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

clean_up() {
    local pid
    for pid in "${pids[@]}"; do kill_now "$pid"; done
    rm -rf --one-file-system "$temp"
}
trap clean_up EXIT

cannot_run() {
    echo "${0##*/}: cannot run here: $*" >&2
    exit 2
}

# Ends the script when a statement about others' software no longer holds.
changed() {
    echo "${0##*/}: NO LONGER SO: $*" >&2
    exit 1
}

# require WHAT WANTED SEEN
require() {
    [[ $3 == "$2" ]] || changed "$1: stated $2, seen $3"
}

need() {
    command -v "$1" >/dev/null || cannot_run "$1 is not installed"
}

# Where this machine gets its packages of Debian from.
mirror() {
    apt-cache policy | awk '$2 ~ /^http.*\/debian$/ && $3 ~ /\/main$/ && !seen++ {print $2}'
}

# A suite that this machine has no list of gets a configuration of its own. With no package
# installed in its eyes, apt names all the libraries that one needs.
apt_options() {
    local suite=$1
    local folder=$cache/$suite
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    : >"$folder/status"
    options=(-q -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder"
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o APT::Get::AllowUnauthenticated=false)
    [[ $(apt-cache policy) != *" $suite/main "* ]] || return 0
    echo "deb $(mirror) $suite main" >"$folder/sources.list"
    options+=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$folder/lists" -o Acquire::Languages=none)
    [[ -e $folder/updated ]] || apt-get "${options[@]}" update >"$temp/apt.log" 2>&1 ||
        cannot_run "no package list of $suite: $(tail -n 1 "$temp/apt.log")"
    touch "$folder/updated"
}

# fetch FOLDER SUITE PACKAGE=VERSION ...: unpacks them in $temp/FOLDER, with the libraries they
# need.
fetch() {
    local folder=$temp/$1 suite=$2 options wanted deb
    shift 2
    need apt-get
    apt_options "$suite"
    wanted=$(apt-get "${options[@]}" install -s --no-install-recommends "$@" 2>"$temp/apt.log" |
        sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p') ||
        cannot_run "$suite has no $*: $(tail -n 1 "$temp/apt.log")"
    mkdir -p "$folder" "$temp/debs"
    # shellcheck disable=SC2086 # one word a package
    (cd "$temp/debs" && apt-get "${options[@]}" download $wanted >"$temp/apt.log" 2>&1) ||
        cannot_run "not downloaded: $(tail -n 1 "$temp/apt.log")"
    for deb in "$temp/debs"/*.deb; do dpkg-deb -x "$deb" "$folder"; done
    rm -r "$temp/debs"
}

# from FOLDER PROGRAM ARGUMENT ...: sets `command` to what runs a program of $temp/FOLDER with the
# libraries there, whatever Debian this machine has.
from() {
    local root=$temp/$1 program=$2 loader
    shift 2
    local libraries=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu
    for loader in "$root"{/usr,}/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2; do
        [[ ! -x $loader ]] || break
    done
    [[ -x $loader && -x $root/$program ]] || cannot_run "no $program in $root"
    command=("$loader" --library-path "$libraries" "$root/$program" "$@")
}

run() {
    local command
    from "$@"
    "${command[@]}"
}

# spawn LOG FOLDER PROGRAM ARGUMENT ...: starts it in the background; its process is $spawned.
spawn() {
    local log=$1 command
    shift
    from "$@"
    LC_ALL=C "${command[@]}" >>"$log" 2>&1 </dev/null &
    spawned=$!
    pids+=("$spawned")
}

free_port() {
    python3 -c 'import socket
print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])'
}

wait_for() {
    local i
    for ((i = 0; i < 300; i++)); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    cannot_run "waited 30 s in vain: $*"
}

# mariadb_start NAME FOLDER OPTION ...: a private MariaDB of $temp/FOLDER, with its data in
# $temp/NAME. Root logs in at $temp/NAME/s without a password. Started again, it recovers.
mariadb_start() {
    local name=$1 home=$temp/$1 folder=$2 share=$temp/$2/usr/share/mysql
    shift 2
    [[ -d $share ]] || share=$temp/$folder/usr/share/mariadb
    local base=(--no-defaults "--datadir=$home/data" "--lc-messages-dir=$share"
        "--character-sets-dir=$share/charsets" "--plugin-dir=$temp/$folder/usr/lib/mysql/plugin"
        --user="$(id -un)" --innodb-buffer-pool-size=32M --innodb-log-file-size=16M)
    if [[ ! -d $home ]]; then
        mkdir -p "$home/data"
        { printf '%s\n' 'CREATE DATABASE mysql;' 'USE mysql;'
          cat "$share"/m*_system_tables.sql
          cat "$share"/m*_performance_tables.sql
          cat "$share"/m*_system_tables_data.sql
          echo "CREATE DATABASE shop;"; } |
            run "$folder" usr/sbin/mariadbd "${base[@]}" --bootstrap >"$home/made" 2>&1 ||
            cannot_run "no data folder: $(tail -n 3 "$home/made")"
    fi
    spawn "$home/log" "$folder" usr/sbin/mariadbd "${base[@]}" --skip-networking \
        --socket="$home/s" "$@"
    mariadb_of=$folder
    wait_for sql "$name" 'SELECT 1'
}

# sql NAME STATEMENT: its rows without headings, columns parted by tabs.
sql() {
    run "$mariadb_of" usr/bin/mariadb --no-defaults -uroot -S "$temp/$1/s" -N -B shop -e "$2"
}

# mysql_start FOLDER OPTION ...: a private MySQL of $temp/FOLDER. Root logs in at $temp/s without a
# password.
mysql_start() {
    local share=$temp/$1/usr/share/mysql
    local base=(--no-defaults "--datadir=$temp/data" "--lc-messages-dir=$share" --user="$(id -un)"
        "--character-sets-dir=$share/charsets" "--plugin-dir=$temp/$1/usr/lib/mysql/plugin"
        --innodb-buffer-pool-size=32M --secure-file-priv=NULL --skip-log-bin)
    run "$1" usr/sbin/mysqld "${base[@]}" --initialize-insecure >"$temp/made" 2>&1 ||
        cannot_run "no data folder: $(tail -n 1 "$temp/made")"
    spawn "$temp/log" "$1" usr/sbin/mysqld "${base[@]}" --skip-networking --loose-mysqlx=OFF \
        --socket="$temp/s" "${@:2}"
    mysql_of=$1
    wait_for mysql 'SELECT 1'
}

# mysql STATEMENT: its rows without headings, in the database mysql.
mysql() {
    run "$mysql_of" usr/bin/mysql --no-defaults -uroot -S "$temp/s" -N -B mysql -e "$1"
}
