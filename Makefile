# A flash-sale (seckill) order service on Redis and MySQL.
#
#   make            build the daemon, build/seckilld, and the operator's tool, build/seckillctl
#   make run        install what is missing, build, start a private Redis and MariaDB under run/,
#                   create the sale "demo" and serve on 127.0.0.1:8080 until Ctrl-C
#   make test       the same installs, then every unit and whole-process test, without those that take
#                   long: with TEST_ALL=1 these, too. TESTS="test/http" takes all whole-process tests
#                   there, and no others
#   make test-all   the same as TEST_ALL=1 make test
#   make test-costs the processor time of each test: a table of the dearest, build/costs.md
#   make check      the unit tests only
#   make test-extra     the next three at once, and the tools of the load campaigns; needs npm
#   make test-browser   the pages of the daemon, in a headless Chromium; needs npm
#   make test-client    the description of the interface: Redocly's lint, a client made from it; needs npm
#   make test-alerts    every alert of deploy/prometheus, by a Prometheus beside a daemon whose servers
#                   are broken
#   make test-growth    what each call and each step beside them reads in a ledger of a million orders
#   make test-lock  of these, the lock library under faults, and histories of many processes
#   make simulate   schedules of crashes, lost messages and lost data, of the real code in one process:
#                   SEEDS=100000 of them, from seed FROM=1 on, by JOBS processes; SEED=7 repeats one
#                   and tells its story
#   make mutants    small faults put into the core, one at a time: which seed of the simulation, which
#                   unit test and which whole-process test finds each; MUTANTS_ARGS="--list" names them
#   make chaos      faults of every kind strike a running service; then every answer that clients got
#                   is compared with the ledger: DURATION=60 seconds, SEED= to repeat the schedule
#   make network    hosts in network namespaces, with Sentinel, replicas and other set-ups, and every fault
#                   of the network between them: what it costs, and whether an answer was wrong. The
#                   table is build/network.md; NETWORK_ARGS="--list" names the faults. Wants root, or
#                   user namespaces. network-quick: five of them in two minutes
#   make prove      all of these and the sanitizers, for hours; what came out is kept in docs/proof and
#                   makes the table of docs/proof.md. STAGES="simulate chaos" runs some of them
#   make bench      accepted and sold-out orders next to a bare HTTP server, 2 minutes
#   make around     every call that a buyer or a shop makes, beside its aim, in short rounds: 3 minutes
#   make flood      each call asked for by 2,000 connections: what the others notice of it
#   make campaigns  every load campaign, each run audited, with a report: 40 minutes
#   make campaign NAME=rush   one of them; loadtest/campaign --list names them
#   make sample     all of them, then the page loadtest/sample/report.html, which the repository does not
#                   keep, its figures as JSON, as the README's tables, and in the pages that name them;
#                   loadtest/picture then shows the page in docs/images/report.png
#   make bench-lock the locks, next to the raw limit of the same server
#   make asan       every test under the address and undefined-behaviour sanitizers
#   make tsan       every test under the thread sanitizer
#   make fuzz-http  mutated HTTP requests against the daemon under a sanitizer; DURATION=60 and SEED=1
#                   are its seconds and its seed, SANITIZE=thread another sanitizer
#   make fuzz       the code that reads bytes of others, under libFuzzer and sanitizers: TARGET=url is
#                   one of the targets in test/fuzz, DURATION=600 the seconds of each
#   make overload   20,000 connections that wear the daemon out in one way after the other, and a crowd
#                   above capacity for DURATION=60 seconds, beside good clients: 6 minutes
#   make history    random operations with faults on each kind of lock, by processes, for SECONDS=300 of
#                   each form; what they saw is checked against exclusion and the order of fences
#   make model      every state of the protocol, searched by spin: five minutes, 3 GiB; DEEP=1 goes on
#                   for DURATION=600 seconds with more faults than memory can hold states of
#   make valgrind   the unit tests under valgrind: no leak, no read of what is not there
#   make lint       style, include direction, scripts, reference configuration, clang-tidy
#   make format     let clang-format set the C sources
#   make seclock    the lock library and its tool alone: build/libseclock.{a,so}, build/seclock
#   make abi        writes what the lock library promises to programs that are built with it
#   make install-lock   them, the headers, the bindings, a pkg-config file and the manual pages
#   make install    daemon, operators' tools, manual pages, completion, configuration, systemd units,
#                   rules for Prometheus, and the lock library (PREFIX, SYSCONFDIR, DESTDIR)
#   make uninstall  removes that again; configuration and data stay. uninstall-lock: the library
#   make dist       the source archive of this version, with its checksum, in build/dist
#   make deb        Debian packages in build/deb, checked by lintian
#   make test-deb   installs them in a new Debian under build/, serves a sale there, and purges them;
#                   wants root
#   make test-debian13   README's first commands on a new Debian 13 under build/: make run takes an
#                   order, make test; PART=ci for some of its tests. Wants root. test-debian12 and
#                   test-debian14, which is unstable, do the same there
#   make clean      remove what was built; run/ and its data stay
#   make help       this text
#
# Variables: V=1 shows the commands; BUILD is the folder to build in; CC, CFLAGS, LDFLAGS, WERROR=
# as usual. SECKILL_LISTEN=127.0.0.1:9090 make run serves elsewhere. Builds run in parallel.

BUILD      ?= build
PREFIX     ?= /usr/local
SYSCONFDIR ?= /etc
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man
DATADIR    ?= $(PREFIX)/share/seckill
UNITDIR    ?= $(PREFIX)/lib/systemd/system
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
WERROR     ?= -Werror
PYTHON     ?= /usr/bin/python3
OBJCOPY    ?= objcopy
export BUILD PYTHON
export PYTHONPYCACHEPREFIX := $(abspath build/pycache)
comma      := ,

ifeq ($(MAKELEVEL),0)
  MAKEFLAGS += --no-print-directory -j$(shell nproc)
  ifneq ($(word 2,$(MAKECMDGOALS)),)
    .NOTPARALLEL: # "make clean all" means one after the other
  endif
endif
ifneq ($(V),1)
  Q   := @
  say  = @printf '  %-6s %s\n' '$(1)' '$(strip $(2))';
endif

# Installs $(2), of mode $(1), as $(3); the output of $(1) as $(2); removes files, and our
# own folders when these are empty.
put   = $(call say,PUT,$(3))install -D -m $(1) $(2) $(DESTDIR)$(3)
write = $(call say,PUT,$(2))mkdir -p $(dir $(DESTDIR)$(2)) && $(1) >$(DESTDIR)$(2) && chmod 644 $(DESTDIR)$(2)
drop  = $(call say,REMOVE,$(words $(1)) files)rm -f $(addprefix $(DESTDIR),$(1)); \
        rmdir $(DESTDIR)$(DATADIR)/* $(DESTDIR)$(DATADIR) 2>/dev/null || true
define new_line


endef

# --- Flags --------------------------------------------------------------------------------------

ifdef SANITIZE
  CFLAGS      ?= -O1 -g
  instrument  := -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
else
  ifeq ($(origin CFLAGS),undefined)
    test_cflags := -O0 -g # a quarter of the compiler's time; what the tests test is as shipped
  endif
  CFLAGS      ?= -O2 -g -D_FORTIFY_SOURCE=2 -fstack-protector-strong
endif
LDFLAGS       ?= -Wl,-z,relro,-z,now -Wl,--as-needed
WARNINGS      := -Wall -Wextra -Wshadow -Wconversion -Wformat-security -Wstrict-prototypes \
                 -Wmissing-prototypes $(WERROR)

packages      := libmicrohttpd hiredis jansson libssl libcrypto libcurl
# A kind of lock whose client library is not there is left out.
zookeeper     := $(shell echo '\#include <zookeeper/zookeeper.h>' | $(CC) -E - >/dev/null 2>&1 && \
                   echo -lzookeeper_mt)
mysql_flags    = $(shell { pkg-config --$(1) mysqlclient || pkg-config --$(1) libmariadb || \
                   mariadb_config --$(1) || mysql_config --$(1); } 2>/dev/null)
system_cflags := $(patsubst -I%,-isystem%,$(call mysql_flags,cflags) \
                   $(shell pkg-config --cflags $(packages) 2>/dev/null))
etcd          := $(shell printf '\#include <curl/curl.h>\n\#include <jansson.h>\n' | \
                   $(CC) -E - >/dev/null 2>&1 && pkg-config --libs libcurl jansson 2>/dev/null)
LIBS          := $(call mysql_flags,libs) $(shell pkg-config --libs $(packages) 2>/dev/null) $(zookeeper) -lm

COMPILE        = $(CC) -std=gnu11 -pthread $(WARNINGS) -I. -I$(gen) $(system_cflags) \
                 $(if $(zookeeper),-DLOCK_WITH_ZOOKEEPER) $(if $(etcd),-DLOCK_WITH_ETCD) $(CPPFLAGS) \
                 $(CFLAGS) $(instrument)
LINK           = $(CC) -pthread $(CFLAGS) $(instrument) $(LDFLAGS)

# --- What there is ------------------------------------------------------------------------------

folders  := base lua sql lock stock service ctl
gen      := $(BUILD)/gen
left_out := $(wildcard $(if $(zookeeper),,lock/zookeeper/*.c) $(if $(etcd),,lock/etcd/*.c))
sources  := $(filter-out $(left_out),$(wildcard $(foreach f,$(folders),$f/*.c $f/*/*.c)))
test_src := $(wildcard $(foreach f,$(folders),$f/test_*.c $f/*/test_*.c))
tool     := $(wildcard lock/tool/*.c)
ctl_part := $(filter-out ctl/main.c $(test_src),$(wildcard ctl/*.c ctl/*/*.c))
examples := $(wildcard lock/examples/*.c)
programs := service/main.c $(tool) $(examples) ctl/main.c $(ctl_part)
parts    := $(filter-out $(test_src) $(programs),$(sources))
object    = $(patsubst %.c,$(BUILD)/%.o,$(1))
daemon   := $(BUILD)/seckilld
control  := $(BUILD)/seckillctl
archive  := $(BUILD)/libseckill.a
tests    := $(patsubst %.c,$(BUILD)/test/%,$(notdir $(test_src)))
ctl_tests := $(patsubst %.c,$(BUILD)/test/%,$(notdir $(filter ctl/%,$(test_src))))
lock_tests := $(addprefix $(BUILD)/test/lock_,driver driver_loop history history_loop)
simulate_tests := $(addprefix $(BUILD)/test/,test_simulate test_simulate_ledger)
load_tools := $(addprefix $(BUILD)/,bare_httpd bare_epoll pace insert_limit)
recorder := $(BUILD)/record_ids.so
headers  := $(addprefix $(gen)/,lua_script_names.h lua_scripts.h sql_migrations.h web_files.h ctl_completion.h)

LOCK_VERSION := 1.0.0
LOCK_DATE    := 2026-11-28
lock_headers := lock/seclock.h lock/seclock_value.h

.PHONY: all seclock abi install-lock uninstall-lock install-service uninstall dist deb test-deb test-debian12 test-debian13 test-debian14 tests run test test-all test-costs test-extra test-browser browser-modules client-modules test-client screenshots test-alerts test-growth test-lock history check simulate mutants chaos network network-quick prove bench around flood campaign campaigns sample bench-lock asan tsan fuzz fuzz-keep fuzz-replay fuzz-http overload model valgrind lint tidy format install clean help
.DELETE_ON_ERROR:
.SUFFIXES:

all: $(daemon) $(control) $(load_tools) $(recorder) seclock
	@:
tests: all $(tests) $(lock_tests) $(simulate_tests) $(BUILD)/test/shifted_clock.so fuzz-targets
	@:

$(daemon): $(BUILD)/service/main.o $(archive)
$(load_tools): $(BUILD)/%: $(BUILD)/loadtest/tools/%.o
$(BUILD)/insert_limit: $(archive)
$(tests): $(BUILD)/test/part.o
$(if $(test_cflags),$(call object,$(test_src)): private CFLAGS = $(test_cflags))
$(filter-out $(ctl_tests),$(tests)): $(archive)
$(foreach t,$(test_src),$(eval $(BUILD)/test/$(basename $(notdir $t)): $(call object,$t)))
$(tests): LIBS := -Wl,--wrap=_cmocka_run_group_tests -lcmocka $(LIBS)

$(daemon) $(load_tools) $(tests):
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

$(archive): $(call object,$(parts))
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/%.o: %.c | $(headers)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

-include $(patsubst %.o,%.d,$(call object,$(sources)) $(load_tools:$(BUILD)/%=$(BUILD)/loadtest/tools/%.o) \
  $(BUILD)/test/part.o)

# --- The operator's tool: it knows the interface, and nothing of the service ----------------------

ctl_archive := $(BUILD)/libseckillctl.a
ctl_libs    := $(shell pkg-config --libs libcurl jansson 2>/dev/null) -lm

$(ctl_archive): $(call object,$(ctl_part) $(addprefix base/,clock.c config_file.c identifier.c))
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(control): $(BUILD)/ctl/main.o $(ctl_archive)
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(ctl_libs)

$(ctl_tests): $(ctl_archive)
$(ctl_tests): LIBS := -Wl,--wrap=_cmocka_run_group_tests -lcmocka $(ctl_libs) $(LIBS)

# --- The lock library by itself -----------------------------------------------------------------

lock_source := $(filter-out lock/test_% $(programs) $(left_out),$(wildcard lock/*.c lock/*/*.c)) \
               $(filter-out base/test_%,$(wildcard base/*.c)) \
               $(filter-out lua/test_% lua/cluster/test_%,$(wildcard lua/*.c lua/cluster/*.c)) \
               $(addprefix sql/db/,db_client.c db_connection.c db_servers.c db_waits.c sql_text.c)
lock_object := $(patsubst %.c,$(BUILD)/pic/%.o,$(lock_source))
lock_libs    = $(shell pkg-config --libs hiredis libssl libcrypto) $(if $(etcd),$(shell pkg-config --libs jansson)) -ldl
soname      := libseclock.so.$(firstword $(subst ., ,$(LOCK_VERSION)))

seclock: $(BUILD)/seclock $(BUILD)/libseclock.a $(BUILD)/libseclock.so

$(BUILD)/pic/%.o: %.c | $(headers)
	$(call say,CC,$< for the library)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

# The client libraries of the other servers are not linked but loaded when they are first used: here
# their names, as the linker would write them.
file_of = $(shell readelf -d $$($(CC) -print-file-name=lib$(patsubst -l%,%,$(firstword $(filter -l%,$(1)))).so) | \
            sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
loaded  = $(gen)/lock_loaded.h
use     = -include $(loaded) -DLOADED_$(1)

$(loaded): lock/library/symbols lock/library/symbols.awk
	$(Q)mkdir -p $(@D)
	$(Q)awk -f lock/library/symbols.awk lock/library/symbols mysql=$(call file_of,$(call mysql_flags,libs)) \
	    zookeeper=$(call file_of,$(zookeeper)) etcd=$(call file_of,$(filter -lcurl,$(etcd))) >$@
$(lock_object): $(loaded)
$(BUILD)/pic/lock/%.o: CPPFLAGS += -DLOCK_LOADS
$(BUILD)/pic/sql/%.o: CPPFLAGS += $(call use,mysql)
$(BUILD)/pic/lock/zookeeper/%.o: CPPFLAGS += $(call use,zookeeper)
$(BUILD)/pic/lock/etcd/%.o: CPPFLAGS += $(call use,etcd)

# Outside only what seclock.h declares can be seen, in the static library as well. Memory comes from
# where lock/library/memory.c has it from.
memory_calls = malloc calloc realloc free strdup
$(BUILD)/pic/seclock.o: $(filter-out %/lock/library/memory.o,$(lock_object))
	$(Q)$(LD) -r -o $@ $^
	$(Q)$(OBJCOPY) --localize-hidden $(foreach f,$(memory_calls),--redefine-sym $f=seclock_memory_$f) $@

$(BUILD)/libseclock.a: $(BUILD)/pic/seclock.o $(BUILD)/pic/lock/library/memory.o
	$(call say,AR,$@)
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/$(soname): $(BUILD)/pic/seclock.o $(BUILD)/pic/lock/library/memory.o lock/library/seclock.map
	$(call say,LINK,$@)
	$(Q)$(LINK) -shared -Wl,-soname,$(soname) -Wl,--version-script=lock/library/seclock.map \
	    $(if $(SANITIZE),,-Wl,-z,defs) -o $@ $(filter %.o,$^) $(lock_libs)

# What programs that are built with this release rely on. A release that adds to the interface writes
# it anew; the tests compare what is built with it.
abi: $(BUILD)/$(soname)
	$(call say,WRITE,lock/library/seclock.abi)
	$(Q)mkdir -p $(BUILD)/abi && cp $(lock_headers) $(BUILD)/abi
	$(Q)abidw --exported-interfaces-only --headers-dir $(BUILD)/abi --drop-private-types --no-elf-needed \
	    --no-show-locs --no-comp-dir-path --no-corpus-path --out-file lock/library/seclock.abi $<

$(BUILD)/libseclock.so: $(BUILD)/$(soname)
	$(Q)ln -sf $(soname) $@

$(call object,$(examples) test/lock/embedded.c): CPPFLAGS += -Ilock
$(BUILD)/lock/tool/seclock.o: CPPFLAGS += -DSECLOCK_VERSION='"$(LOCK_VERSION)"'
$(BUILD)/seclock: $(call object,$(tool)) $(BUILD)/libseclock.a
$(BUILD)/seclock:
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(lock_libs)

# Written at each installation, since it has the paths of that one. What a static link needs is
# spelled out: pkg-config asks for the packages of Requires.private even when nobody links statically.
lock_pc = { echo 'Name: seclock'; \
	echo 'Description: distributed locks with leases and fencing tokens'; \
	echo 'Version: $(LOCK_VERSION)'; \
	echo 'Cflags: -I$(INCLUDEDIR)'; echo 'Libs: -L$(LIBDIR) -lseclock'; \
	echo 'Libs.private: $(lock_libs) -pthread'; }

-include $(patsubst %.o,%.d,$(lock_object))

$(BUILD)/man3/seclock.3: lock/man/pages.awk $(lock_headers)
	$(call say,WRITE,$(@D))
	$(Q)mkdir -p $(@D) && rm -f $(@D)/*
	$(Q)awk -v out=$(@D) -v version=$(LOCK_VERSION) -v date=$(LOCK_DATE) -f $^

install-lock: seclock $(BUILD)/man3/seclock.3
	$(call put,644,lock/seclock.h,$(INCLUDEDIR)/seclock.h)
	$(call put,644,lock/seclock_value.h,$(INCLUDEDIR)/seclock_value.h)
	$(call put,644,lock/bindings/seclock.hpp,$(INCLUDEDIR)/seclock.hpp)
	$(call put,644,lock/bindings/seclock.py,$(PREFIX)/share/seclock/python/seclock.py)
	$(call put,644,$(BUILD)/libseclock.a,$(LIBDIR)/libseclock.a)
	$(call put,755,$(BUILD)/$(soname),$(LIBDIR)/libseclock.so.$(LOCK_VERSION))
	$(call say,LN,$(LIBDIR)/libseclock.so)
	$(Q)ln -sf libseclock.so.$(LOCK_VERSION) $(DESTDIR)$(LIBDIR)/$(soname)
	$(Q)ln -sf $(soname) $(DESTDIR)$(LIBDIR)/libseclock.so
	$(call write,$(lock_pc),$(LIBDIR)/pkgconfig/seclock.pc)
	$(call put,755,$(BUILD)/seclock,$(PREFIX)/bin/seclock)
	$(call put,644,lock/tool/seclock.1,$(MANDIR)/man1/seclock.1)
	$(call say,PUT,$(MANDIR)/man3)
	$(Q)mkdir -p $(DESTDIR)$(MANDIR)/man3
	$(Q)install -m 644 $(BUILD)/man3/*.3 $(DESTDIR)$(MANDIR)/man3/

uninstall-lock:
	$(call drop,$(addprefix $(INCLUDEDIR)/,seclock.h seclock_value.h seclock.hpp) \
	    $(PREFIX)/share/seclock/python/seclock.py $(addprefix $(LIBDIR)/,libseclock.a libseclock.so $(soname) \
	    libseclock.so.$(LOCK_VERSION) pkgconfig/seclock.pc) $(PREFIX)/bin/seclock $(MANDIR)/man1/seclock.1 \
	    $(MANDIR)/man3/seclock.3 $(MANDIR)/man3/seclock_*.3)

# What the lock tests run as processes of their own, and the bench of the locks.
lock_tools := $(lock_tests) $(BUILD)/bench_lock $(BUILD)/bench_loop
$(BUILD)/test/lock_driver: $(BUILD)/test/lock/driver.o $(BUILD)/libseclock.a
$(BUILD)/test/lock_driver_loop: $(BUILD)/test/lock/driver_loop.o $(BUILD)/libseclock.a
$(BUILD)/test/lock_history: $(BUILD)/test/lock/history.o $(BUILD)/libseclock.a
$(BUILD)/test/lock_history_loop: $(BUILD)/test/lock/history_loop.o $(BUILD)/libseclock.a
bench_limit := $(call object,loadtest/bench_limit.c $(filter-out $(test_src),$(wildcard base/*.c sql/db/*.c)))
$(BUILD)/bench_lock: $(BUILD)/loadtest/bench_lock.o $(bench_limit) $(BUILD)/libseclock.a
$(BUILD)/bench_loop: $(BUILD)/loadtest/bench_loop.o $(bench_limit) $(BUILD)/libseclock.a
$(BUILD)/bench_lock $(BUILD)/bench_loop: lock_libs += $(LIBS) # the raw limits
$(lock_tools):
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $^ $(lock_libs)

-include $(wildcard $(BUILD)/test/lock/*.d $(BUILD)/loadtest/bench_l*.d)

# Preloaded into programs, sanitized or not, so they are never instrumented themselves.
$(recorder): loadtest/tools/record_ids.c
$(BUILD)/test/shifted_clock.so: test/shifted_clock.c
$(recorder) $(BUILD)/test/shifted_clock.so:
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(WARNINGS) $(CPPFLAGS) -O2 -fPIC -shared -o $@ $<

# Between the hosts of test/network.
$(BUILD)/test/network_switch: $(BUILD)/test/network/switch.o
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^

# --- The simulation: stock/, the scripts and the daemon's workers, in one process ------------------

simulate_src  := $(filter-out test/simulate/test_%,$(wildcard test/simulate/*.c test/simulate/*/*.c))
simulate_real := $(filter-out stock/test_%,$(wildcard stock/*.c stock/*/*.c)) \
                 $(addprefix base/,clock.c config_file.c fault.c identifier.c text.c url.c) \
                 lock/redis/pipeline.c \
                 $(filter-out service/request/test_% service/request/unescape.c,$(wildcard service/request/*.c)) \
                 $(addprefix service/workers/,workers.c orders.c calls.c expiry.c feed.c invalidation.c prepare.c publisher.c) \
                 $(addprefix service/calls/,call.c events.c fields.c order.c order_state.c stock.c sale_settings.c) \
                 $(addprefix service/events/,event_text.c feed_page.c) \
                 $(addprefix service/,service.c drain.c node.c synced_clock.c metrics/metrics.c) \
                 $(addprefix service/,config/address.c config/tokens.c live/admin_actions.c) \
                 $(addprefix lua/,command.c script.c) \
                 $(addprefix sql/,events/event_line.c orders/ledger_status.c payments/ledger_payments.c) \
                 $(addprefix sql/,ledger/ledger_time.c db/sql_text.c)
arena_wrap    := malloc calloc realloc free strdup
simulate_wrap := $(arena_wrap) clock_gettime nanosleep __assert_fail stock_sell \
                 pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast prctl getrandom write

$(call object,$(simulate_src)): system_cflags += $(patsubst -I%,-isystem%,$(shell pkg-config --cflags lua5.1))

simulate_parts := $(call object,$(simulate_src) $(simulate_real))

# What these use and the simulation does not have, they do not call: a call names what is absent.
$(BUILD)/test/simulate/absent.c: $(simulate_parts)
	$(Q)$(LD) -r -o $(@:.c=.part) $^
	$(Q){ $(call made_of,what is missing for the simulation); \
	    echo '#include <stdio.h>'; echo '#include <stdlib.h>'; \
	    nm -u $(@:.c=.part) | awk '$$2 ~ /^(cluster|command|config|db|event|ledger|lock|redis|script|seclock|supervise|value|webhook)_/ { \
	    print "void " $$2 "(void);\nvoid " $$2 "(void)\n{\n    fputs(\"simulate: " $$2 \
	    " is not simulated\\n\", stderr);\n    abort();\n}" }'; } >$@

$(BUILD)/test/simulate/absent.o: $(BUILD)/test/simulate/absent.c
	$(Q)$(COMPILE) -c -o $@ $<

$(BUILD)/simulate: $(simulate_parts) $(BUILD)/test/simulate/absent.o
	$(call say,LINK,$@)
	$(Q)$(LINK) $(simulate_wrap:%=-Wl$(comma)--wrap=%) -o $@ $^ $(shell pkg-config --libs lua5.1 jansson)

# The simulated ledger beside the real one: its functions get names of their own. What it allocates
# lies in the arena, as in the simulation: it leaves most of that to be taken back at once.
simulate_model := $(BUILD)/test/simulate/model.o
$(simulate_model): $(call object,$(filter test/simulate/ledger/%,$(simulate_src)) \
                     $(addprefix test/simulate/,machine/chance.c machine/coroutine.c machine/loop.c story.c tally.c)) $(archive)
	$(Q)$(LD) -r -o $@.part $(filter %.o,$^)
	$(Q){ nm --defined-only $@.part | awk '$$2 == "T" && $$3 ~ /^ledger_/ && $$3 !~ /^ledger_server_/ { print $$3, "model_" $$3 }'; \
	    printf '%s\n' $(foreach f,$(arena_wrap),'$f __wrap_$f'); } >$@.names
	$(Q)$(OBJCOPY) --redefine-syms=$@.names $@.part $@

$(simulate_tests): $(BUILD)/test/%: $(BUILD)/test/simulate/%.o $(BUILD)/test/part.o
$(BUILD)/test/test_simulate: $(BUILD)/simulate
$(BUILD)/test/test_simulate_ledger: $(simulate_model) $(BUILD)/test/simulate/machine/arena.o $(archive)
$(simulate_tests): LIBS := -Wl,--wrap=_cmocka_run_group_tests -lcmocka $(LIBS)
$(BUILD)/test/test_simulate_ledger: LIBS += -Wl,--wrap=free
$(simulate_tests):
	$(call say,LINK,$@)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

-include $(patsubst %.o,%.d,$(call object,$(wildcard test/simulate/*.c test/simulate/*/*.c)))

# --- clang-tidy ---------------------------------------------------------------------------------

# A file is looked at again when its object is made again, so with the headers that it includes.
tidy_src   := $(sources) $(wildcard loadtest/*.c loadtest/*/*.c test/*.c test/*/*.c test/*/*/*.c)
tidy_of     = $(patsubst %.c,$(BUILD)/tidy/%.ok,$(1))
# How much of a function's paths it follows: a quarter of the time of its own limit, the same found.
tidy_limit := $(addprefix --extra-arg=,-Xclang -analyzer-config -Xclang max-nodes=30000)

tidy: $(call tidy_of,$(tidy_src))

$(call tidy_of,$(simulate_src)): system_cflags += $(patsubst -I%,-isystem%,$(shell pkg-config --cflags lua5.1))
$(call tidy_of,$(examples) test/lock/embedded.c): CPPFLAGS += -Ilock
$(call tidy_of,lock/tool/seclock.c): CPPFLAGS += -DSECLOCK_VERSION='"$(LOCK_VERSION)"'

$(BUILD)/tidy/%.ok: %.c $(BUILD)/%.o .clang-tidy
	$(call say,TIDY,$<)
	$(Q)mkdir -p $(@D)
	$(Q)clang-tidy --quiet $(tidy_limit) $< -- $(filter-out -W% -O% -D_FORTIFY%,$(COMPILE:$(CC)%=%)) 2>$@.err || \
	    { cat $@.err >&2; exit 1; }
	$(Q)touch $@

# --- Fuzzing: targets of libFuzzer, or with a main of their own that runs the inputs that are kept --

fuzz_shared  := fuzz fuzz_service replay
fuzz_targets := $(filter-out $(fuzz_shared),$(basename $(notdir $(wildcard test/fuzz/*.c))))
fuzz_bins    := $(fuzz_targets:%=$(BUILD)/bin/%)
fuzz_engine  := $(if $(LIBFUZZER),-fsanitize=fuzzer)

$(fuzz_bins): $(BUILD)/bin/%: $(BUILD)/test/fuzz/%.o $(BUILD)/test/fuzz/fuzz.o \
              $(BUILD)/test/fuzz/fuzz_service.o $(if $(LIBFUZZER),,$(BUILD)/test/fuzz/replay.o) $(archive)
	$(call say,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) $(fuzz_engine) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

fuzz-targets: $(fuzz_bins)
.PHONY: fuzz-targets

-include $(patsubst %.o,%.d,$(call object,$(wildcard test/fuzz/*.c)))

# --- Embedded files: each becomes a C string ----------------------------------------------------

c_string = sed -e 's/[?\\"]/\\&/g' -e 's/.*/    "&\\n"/'
made_of  = echo '/* Made from $(1) by the Makefile: DO NOT EDIT. */'

$(headers): Makefile

# A script may take fragments from lua/scripts/include/; its digest is that of the whole text.
lua_text := awk -f lua/scripts/include.awk

$(gen)/lua_script_names.h: $(wildcard lua/scripts/*.lua)
	$(call say,EMBED,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call made_of,the names of lua/scripts/); \
	    echo '#define SCRIPTS(X)$(foreach f,$(sort $(basename $(notdir $(filter %.lua,$^)))), X($f))'; } >$@

$(gen)/lua_scripts.h: $(wildcard lua/scripts/*.lua lua/scripts/include/*.lua) lua/scripts/include.awk
	$(call say,EMBED,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call made_of,the scripts in lua/scripts/); set -e; for f in $(filter-out lua/scripts/include/%,$(filter %.lua,$^)); do \
	    n=lua_$$(basename $$f .lua); text=$$($(lua_text) $$f && echo .); \
	    echo "static const char $$n[] ="; printf %s "$${text%.}" | $(c_string); echo '    "";'; \
	    echo "static const char $${n}_sha1[] = \"$$(printf %s "$${text%.}" | sha1sum | cut -d ' ' -f 1)\";"; \
	done; } >$@

$(gen)/sql_migrations.h: $(sort $(wildcard sql/migrations/*.sql))
	$(call say,EMBED,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call made_of,the files in sql/migrations/); \
	echo 'static const struct { const char *name; const char *text; } sql_migrations[] = {'; \
	for f in $(filter %.sql,$^); do \
	    echo "    {\"$$(basename $$f .sql)\","; $(c_string) $$f; echo '    },'; \
	done; echo '};'; } >$@

$(gen)/ctl_completion.h: ctl/completion/bash ctl/completion/zsh
	$(call say,EMBED,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call made_of,the files in ctl/completion/); for f in $(filter ctl/%,$^); do \
	    echo "static const char completion_$$(basename $$f)[] ="; $(c_string) $$f; echo '    "";'; \
	done; } >$@

# The pages' curves are drawn by dygraphs, of Debian's libjs-dygraphs (2.2.1 in Debian 12).
DYGRAPHS ?= /usr/share/javascript/dygraphs

# Without the mark of trigraphs, ??; names are without their folders. WEB_FILES are the rows of the table in service/calls/web.c.
$(gen)/web_files.h: $(sort $(wildcard $(foreach k,html css js svg,service/web/*.$k))) $(DYGRAPHS)/dygraph.min.js service/openapi.json
	$(call say,EMBED,$@)
	$(Q)mkdir -p $(@D)
	$(Q){ $(call made_of,the pages in service/web/$(comma) dygraphs and service/openapi.json); set -e; rows=; for f in $(filter-out Makefile,$^); do \
	    name=$$(basename $$f); n=web_$$(echo $$name | tr -c 'A-Za-z0-9\n' _); \
	    case $$name in dashboard.html | demo.html) path=/$${name%.html};; demo.*) path=/demo/$$name;; openapi.json) path=/$$name;; \
	        dygraph.min.js) path=/dashboard/dygraph.js;; *) path=/dashboard/$$name;; esac; \
	    case $$name in *.json) kind=application/json;; *.js) kind='text/javascript; charset=utf-8';; \
	        *.svg) kind='image/svg+xml; charset=utf-8';; *) kind="text/$${name##*.}; charset=utf-8";; esac; \
	    echo "static const char $$n[] ="; $(c_string) $$f; echo '    "";'; \
	    echo "static const char $${n}_etag[] = \"\\\"$$(sha1sum <$$f | cut -c 1-16)\\\"\";"; \
	    rows="$$rows {\"$$path\", \"$$kind\", $${n}_etag, $$n, sizeof $$n - 1},"; \
	done; echo "#define WEB_FILES $$rows"; } >$@

# --- Commands: each a program that make runs without a shell between, for signals to reach it ------

run:
	@deploy/packages run
	@$(MAKE) all
	@env --default-signal=INT deploy/run

test:
	@deploy/packages test
	@$(MAKE) tests
	@test/run $(if $(TESTS),some $(TESTS))

test-all:
	@TEST_ALL=1 $(MAKE) test

test-costs:
	@rm -f $(BUILD)/costs
	@result=0; TEST_COSTS=$(abspath $(BUILD)/costs) TEST_ALL=1 $(MAKE) test || result=1; \
	$(PYTHON) test/harness/costs.py $(BUILD)/costs >$(BUILD)/costs.md && cat $(BUILD)/costs.md && exit $$result

test-extra:
	@deploy/packages browser
	@deploy/packages client
	@deploy/packages alerts
	@deploy/packages campaign
	@$(MAKE) tests browser-modules client-modules
	@test/run extra

test-browser:
	@deploy/packages browser
	@$(MAKE) tests browser-modules
	@test/run browser

# The pictures of the dashboard in docs/images/, of a real rush: 2 minutes.
screenshots:
	@deploy/packages browser
	@$(MAKE) all browser-modules
	@$(PYTHON) test/browser/screenshots.py

test-client:
	@deploy/packages client
	@$(MAKE) tests client-modules
	@test/run client

test-alerts:
	@deploy/packages alerts
	@$(MAKE) tests
	@test/run alerts

# The table of what was read is build/growth.md, too.
test-growth:
	@deploy/packages test
	@$(MAKE) tests
	@test/run growth

# What test/browser/package-lock.json and that of test/client name, from npm's registry. npm lists
# what it has installed in a file of its own, but may leave that file's time as it was.
browser-modules client-modules: %-modules: test/%/node_modules/.package-lock.json
	@:
$(patsubst %,test/%/node_modules/.package-lock.json,browser client): \
        test/%/node_modules/.package-lock.json: test/%/package-lock.json test/%/package.json
	@npm ci --prefix test/$* --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel=error
	@touch $@

check:
	@deploy/packages test
	@$(MAKE) tests
	@test/run unit

prove:
	@test/prove $(STAGES)

bench:
	@deploy/packages bench
	@$(MAKE) all
	@loadtest/bench $(BENCH_ARGS)

around flood: NAME = $@
around: SHORT = --short
around flood campaign campaigns:
	@deploy/packages campaign
	@$(MAKE) all
	@loadtest/campaign $(NAME) $(SHORT) $(CAMPAIGN_ARGS)

sample:
	@test -z "$$(git status --porcelain)" || \
	    { echo 'sample: commit first, so that the figures belong to a revision' >&2; exit 1; }
	@$(MAKE) campaigns CAMPAIGN_ARGS="--no-report --out loadtest/results/sample $(CAMPAIGN_ARGS)"
	@loadtest/report loadtest/results/sample -o loadtest/sample/report.html --readme README.md \
	    --tables loadtest/README.md
	@loadtest/cite $$(git ls-files '*.md')

test-lock:
	@deploy/packages test
	@$(MAKE) tests
	@SECKILL_DAEMON=$(BUILD)/seckilld $(PYTHON) -m pytest -q -p no:cacheprovider -n 4 --dist loadgroup test/lock

# SECONDS of random operations with faults on each kind, in each form, JOBS runs at a time.
history:
	@deploy/packages test
	@$(MAKE) tests
	@HISTORY_SECONDS=$(or $(SECONDS),300) SECKILL_DAEMON=$(BUILD)/seckilld $(PYTHON) -m pytest -q -rP -p no:cacheprovider \
	    -n $(or $(JOBS),4) test/lock/test_lock_history.py -k 'not checker and not broken'

# SEEDS: how many schedules, from seed FROM on, by JOBS processes; SEED: one alone, with its story.
simulate:
	@deploy/packages test
	@$(MAKE) $(BUILD)/simulate
	@$(BUILD)/simulate $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100000) $(if $(FROM),--from $(FROM)) $(if $(JOBS),--jobs $(JOBS))) $(SIMULATE_ARGS)

mutants:
	@deploy/packages test
	@$(MAKE) tests
	@test/mutants/run $(MUTANTS_ARGS)

# DURATION: seconds of faults; SEED: of their schedule; CHAOS_ARGS="--print 50" shows it alone.
chaos:
	@deploy/packages chaos
	@$(MAKE) $(daemon) $(BUILD)/test/shifted_clock.so
	@$(PYTHON) test/chaos/run $(if $(SEED),--seed $(SEED)) \
	    $(if $(DURATION),--duration $(DURATION)) $(CHAOS_ARGS)

network network-quick:
	@deploy/packages network
	@$(MAKE) all $(BUILD)/test/network_switch $(BUILD)/test/lock_history
	@$(PYTHON) test/network/run $(if $(filter %-quick,$@),--quick) $(NETWORK_ARGS)

# Acquire and release per second and hand-over, next to the server's raw limit.
bench-lock:
	@deploy/packages bench-lock
	@$(MAKE) $(BUILD)/bench_lock $(BUILD)/bench_loop
	@loadtest/bench_lock $(BENCH_ARGS)

asan:
	@$(MAKE) BUILD=build/asan SANITIZE=address,undefined test-all

# Its runtime cannot bear much address space randomisation, hence setarch (where that is allowed).
tsan:
	@$(shell setarch -R true 2>/dev/null && echo setarch -R) $(MAKE) BUILD=build/tsan SANITIZE=thread test-all

model:
	@deploy/packages model
	@test/model/run $(if $(DEEP),deep)

# libFuzzer is clang's: a build of its own, which also counts the lines that are reached.
fuzz_clang = $(MAKE) BUILD=build/fuzz CC=clang SANITIZE=fuzzer-no-link,address,undefined LIBFUZZER=1 WERROR= \
             WARNINGS= CFLAGS='-O1 -gline-tables-only -fprofile-instr-generate -fcoverage-mapping'
fuzz:
	@deploy/packages fuzz
	@$(fuzz_clang) fuzz-targets
	@BUILD=build/fuzz $(PYTHON) test/fuzz/run --seconds $(or $(DURATION),600) $(TARGET)

# Puts what was found since into test/fuzz/corpus, as few inputs as reach as much.
fuzz-keep:
	@deploy/packages fuzz
	@$(fuzz_clang) fuzz-targets
	@BUILD=build/fuzz $(PYTHON) test/fuzz/run --keep $(TARGET)

# The inputs that are kept, under gcc's sanitizers.
fuzz-replay:
	@deploy/packages test
	@$(MAKE) BUILD=build/asan SANITIZE=address,undefined fuzz-targets
	@passed=0; for target in $(fuzz_targets); do \
	    build/asan/bin/$$target test/fuzz/corpus/$$target.txt </dev/null && passed=$$((passed + 1)); \
	done; failed=$$(($(words $(fuzz_targets)) - passed)); \
	echo "$$passed passed, $$failed failed"; test $$failed = 0

fuzz_build = build/$(if $(filter thread,$(SANITIZE)),tsan,asan)
fuzz_env   = $(if $(filter thread,$(SANITIZE)),$(shell setarch -R true 2>/dev/null && echo setarch -R)) \
             env BUILD=$(fuzz_build) SECKILL_DAEMON=$(fuzz_build)/seckilld DURATION=$(DURATION) SEED=$(SEED) \
             ASAN_OPTIONS=halt_on_error=0 TSAN_OPTIONS=die_after_fork=0:suppressions=test/tsan.suppressions
# Its known findings first, then new requests. DURATION, SEED: see test/fuzz/http.
fuzz-http:
	@deploy/packages test
	@$(MAKE) BUILD=$(fuzz_build) SANITIZE=$(or $(SANITIZE),address$(comma)undefined) $(fuzz_build)/seckilld
	@$(fuzz_env) $(PYTHON) -m pytest -q -p no:cacheprovider test/http/test_hostile.py
	@$(fuzz_env) $(PYTHON) test/fuzz/http

overload:
	@deploy/packages test
	@$(MAKE) all
	@DURATION=$(DURATION) $(PYTHON) test/overload/run $(OVERLOAD_ARGS)

valgrind:
	@deploy/packages valgrind
	@$(MAKE) tests
	@test/run valgrind

lint:
	@deploy/packages lint
	@$(MAKE) all
	@test/lint
	@$(MAKE) -k tidy

format:
	@deploy/packages lint
	@clang-format -i $(wildcard $(foreach f,$(folders) loadtest test,$f/*.[ch] $f/*/*.[ch] $f/*/*/*.[ch]))

# --- Installation: what is named here is what uninstall removes -----------------------------------

monitoring := $(wildcard deploy/prometheus/*.yml deploy/prometheus/*.rules deploy/grafana/*.json)
placed     := $(PREFIX)/bin/seckilld $(PREFIX)/bin/seckillctl $(PREFIX)/bin/seckill-failover \
              $(MANDIR)/man8/seckilld.8 $(MANDIR)/man1/seckillctl.1 \
              $(MANDIR)/man1/seckill-failover.1 $(MANDIR)/man5/seckill.conf.5 \
              $(PREFIX)/share/bash-completion/completions/seckillctl \
              $(ZSHDIR)/_seckillctl $(UNITDIR)/seckilld.service \
              $(UNITDIR)/seckilld@.service $(UNITDIR)/seckilld.target \
              $(UNITDIR)/seckilld.socket $(DATADIR)/seckill.conf $(DATADIR)/openapi.json \
              $(monitoring:deploy/%=$(DATADIR)/%)

fill_unit  := sed -e 's|@BINDIR@|$(PREFIX)/bin|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|'

install: $(daemon) $(control) install-lock install-service

install-service: $(daemon) $(control)
	$(call put,755,$(daemon),$(PREFIX)/bin/seckilld)
	$(call put,755,$(control),$(PREFIX)/bin/seckillctl)
	$(call put,755,ctl/seckill-failover,$(PREFIX)/bin/seckill-failover)
	$(call put,644,deploy/man/seckilld.8,$(MANDIR)/man8/seckilld.8)
	$(call put,644,ctl/seckillctl.1,$(MANDIR)/man1/seckillctl.1)
	$(call put,644,ctl/seckill-failover.1,$(MANDIR)/man1/seckill-failover.1)
	$(call write,$(daemon) --help-config | awk -v version="$$($(daemon) --version)" \
	    -f deploy/man/seckill.conf.awk,$(MANDIR)/man5/seckill.conf.5)
	$(call write,$(control) completion bash,$(PREFIX)/share/bash-completion/completions/seckillctl)
	$(call write,$(control) completion zsh,$(ZSHDIR)/_seckillctl)
	$(call write,$(fill_unit) deploy/systemd/seckilld.service,$(UNITDIR)/seckilld.service)
	$(call write,$(fill_unit) deploy/systemd/seckilld@.service,$(UNITDIR)/seckilld@.service)
	$(call put,644,deploy/systemd/seckilld.target,$(UNITDIR)/seckilld.target)
	$(call put,644,deploy/systemd/seckilld.socket,$(UNITDIR)/seckilld.socket)
	$(call put,644,deploy/seckill.conf,$(DATADIR)/seckill.conf)
	$(call put,644,service/openapi.json,$(DATADIR)/openapi.json)
	$(foreach f,$(monitoring),$(call put,644,$f,$(DATADIR)/$(f:deploy/%=%))$(new_line))
	$(Q)test -e $(DESTDIR)$(SYSCONFDIR)/seckill/seckill.conf || { \
	    printf '  %-6s %s\n' PUT $(SYSCONFDIR)/seckill/seckill.conf; \
	    install -d -m 700 $(DESTDIR)$(SYSCONFDIR)/seckill; \
	    install -m 600 deploy/seckill.conf $(DESTDIR)$(SYSCONFDIR)/seckill/seckill.conf; }

uninstall: uninstall-lock
	$(call drop,$(placed))
	@test ! -e $(DESTDIR)$(SYSCONFDIR)/seckill || \
	    echo 'The configuration in $(SYSCONFDIR)/seckill stays, and so does all data in Redis and MySQL.'

dist:
	@deploy/dist build/dist

# --- Debian packages: built from a copy of the tree, with debian/ at its root ----------------------

deb_root := build/deb

deb:
	@deploy/packages deb
	@deploy/deb $(deb_root)

test-deb:
	@deploy/packages test-deb
	@$(MAKE) deb
	@test/deb/run $(deb_root)

test-debian12: SUITE = bookworm
test-debian13: SUITE = trixie
test-debian14: SUITE = sid
test-debian12 test-debian13 test-debian14:
	@deploy/packages test-debian
	@test/debian/run $(SUITE) $(PART)

clean:
	rm -rf $(BUILD)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
