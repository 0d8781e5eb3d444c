/* The protocol of segment locks, fences and dirty marks (stock/README.md), for spin.
 *
 * Two workers sell, return and restock units of two segments, step by step in every order, while
 * Redis forgets, leases run out, answers are lost, transactions end late and workers die. spin
 * visits every state that the budgets below allow and checks:
 *
 *   - no segment sells more than its capacity or fewer than no units, and the units sold of all
 *     segments together are those of the accepted orders;
 *   - where Redis is settled at the ledger's fence, it has the units that the ledger has left;
 *   - a return whose client heard that nothing came back does not come back later;
 *   - an order that was accepted is in the ledger, and one that was refused never will be;
 *   - "sold out" is said only while the ledger has too few units;
 *   - once the faults have stopped, the last unit is sold within a bounded number of tries.
 *
 * Each remote call is one atomic step, as a script and a transaction are; between two of them
 * anything may happen. A fence is also the token of its hold: every lock makes a new one.
 *
 * Each MUTANT_NAME takes a rule away; test/model/run shows that spin then finds a failure. */

#ifndef STEPS
#define STEPS 2    /* orders, returns and restocks that each worker tries under faults */
#endif
#ifndef FAULTS
#define FAULTS 2   /* workers that die, answers lost, leases that run out, restarts of Redis */
#endif

#define SEGMENTS 2
#define WORKERS 2
#define SLOTS (WORKERS * STEPS + 1) /* one for every order, and one for those of the calm */
#define CALM_SLOT (SLOTS - 1)
#define PASSES_FAULTY 2 /* that an order makes under faults before it is refused */
#define PASSES_CALM 5   /* that decide every order when there are no faults */
#define ANY 3           /* a hint that says nothing; a return that tries every segment */

mtype = { NONE, ACCEPTED, ENDED }                /* what the ledger knows of an order */
mtype = { SILENCE, YES, NO, SOLD_OUT, IN_DOUBT } /* what its client heard */
mtype = { SALE, RETURN, RESTOCK }                /* transactions */

/* --- Redis --- */

typedef redis_segment {
    bool present;
    byte holder;    /* its fence; 0: nobody */
    byte open;      /* dirty mark: the hold that changes units and has not settled; 0: settled */
    byte available;
    byte settled    /* the fence at which the ledger agreed */
}
redis_segment redis[SEGMENTS];
redis_segment saved[SEGMENTS];
redis_segment nothing[SEGMENTS]; /* what an empty Redis knows */
bool remembers, restarted;       /* something was saved; it came back */
byte fences;        /* grows even when Redis forgets: it follows the server's clock */

/* --- The ledger --- */

typedef ledger_segment { byte capacity; byte sold; byte fence }
ledger_segment ledger[SEGMENTS];

typedef order_row { mtype state; mtype told; byte units }
order_row orders[SLOTS];
bool restocked;

/* A transaction on its way. Those at WORKERS and above arrive when their worker has given up
 * waiting. */
typedef transaction {
    bool late;
    bool denied;           /* its client was told that nothing was done, or it tries anew */
    mtype kind;
    byte slot;
    byte units[SEGMENTS];  /* sold, or added by a restock */
    byte fence[SEGMENTS];  /* of the hold; 0: the segment is not held */
    byte settled[SEGMENTS]
}
transaction sent[2 * WORKERS];

byte faults_seen, ended;
bool calm;

#define LEFT(s) (ledger[s].capacity - ledger[s].sold)
#define LEFT_ALL (LEFT(0) + LEFT(1))

#ifdef MUTANT_FENCE_UNGUARDED
#define CHAINED(t, s) true
#else
#define CHAINED(t, s) (ledger[s].fence == t.settled[s] && ledger[s].fence < t.fence[s])
#endif

#define REFUSES(t, s)                                                       \
    (t.fence[s] != 0 &&                                                     \
     ((t.kind == SALE && (!CHAINED(t, s) || t.units[s] > LEFT(s))) ||       \
      (t.kind == RESTOCK && ledger[s].fence >= t.fence[s])))

inline change_segment(t, s) {
    if
    :: t.fence[s] == 0
    :: t.fence[s] != 0 ->
        ledger[s].fence = t.fence[s];
        if
        :: t.kind == SALE -> ledger[s].sold = ledger[s].sold + t.units[s]
        :: t.kind == RESTOCK -> ledger[s].capacity = ledger[s].capacity + t.units[s]
        fi;
        assert(ledger[s].sold <= ledger[s].capacity)
    fi
}

/* Units have no home: a return takes those of its order off what the held segments have sold, in
 * any parts. REACH is how far that goes; FITS, whether n units off the first segment and the rest
 * off the second are a way to do it. */
#ifdef MUTANT_RETURN_BEYOND_SOLD
#define REACH(t, s) (t.fence[s] != 0 -> ledger[s].capacity : 0)
#else
#define REACH(t, s) (t.fence[s] != 0 -> ledger[s].sold : 0)
#endif
#define REST(t, n) (orders[t.slot].units - (n))
#define FITS(t, n) ((n) <= REACH(t, 0) && REST(t, n) >= 0 && REST(t, n) <= REACH(t, 1))

/* A segment of which n units come off has got a later fence than the hold's. */
#ifdef MUTANT_RETURN_UNGUARDED
#define OVERTAKEN(t, s, n) false
#else
#define OVERTAKEN(t, s, n) ((n) > 0 && ledger[s].fence >= t.fence[s])
#endif

#ifdef MUTANT_RETURN_UNCHECKED
#define RETURNABLE(t) (orders[t.slot].units > 0)
#else
#define RETURNABLE(t) (orders[t.slot].state == ACCEPTED)
#endif

inline take_off(t, s, units_) {
    if
    :: (units_) > 0 ->
        assert(ledger[s].sold >= (units_));
        ledger[s].sold = ledger[s].sold - (units_);
        ledger[s].fence = t.fence[s]
    :: else
    fi
}

/* An order that somebody else has ended, or whose units do not fit, is left as it is: the
 * transaction is carried out and changes nothing. */
inline execute_return(t) {
    ok = true;
    part = 0;
    if
    :: RETURNABLE(t) && FITS(t, 0) -> moved = true
    :: RETURNABLE(t) && FITS(t, 1) -> moved = true; part = 1
    :: RETURNABLE(t) && FITS(t, 2) -> moved = true; part = 2
    :: else -> moved = false
    fi;
    if
    :: !moved
    :: moved && (OVERTAKEN(t, 0, part) || OVERTAKEN(t, 1, REST(t, part))) -> ok = false
    :: else ->
        assert(!t.denied);
        take_off(t, 0, part);
        take_off(t, 1, REST(t, part));
        orders[t.slot].state = ENDED
    fi;
    part = 0;
    moved = false
}

/* Carries the transaction out, all of it or nothing. */
inline execute(t) {
    ok = false;
    if
    :: t.kind == RETURN -> execute_return(t)
    :: t.kind != RETURN &&
       (REFUSES(t, 0) || REFUSES(t, 1) || (t.kind == SALE && orders[t.slot].state != NONE) ||
        (t.kind == RESTOCK && restocked)) -> skip
    :: else ->
        ok = true;
        change_segment(t, 0);
        change_segment(t, 1);
        if
        :: t.kind == SALE ->
            assert(!t.denied);
            orders[t.slot].units = t.units[0] + t.units[1];
            orders[t.slot].state = ACCEPTED
        :: t.kind == RESTOCK -> restocked = true
        fi
    fi
}

/* --- The steps of a worker, on its own variables --- */

#define MAY_DIE                                       \
    if                                                \
    :: !calm && faults_seen < FAULTS ->                  \
        faults_seen++;                                    \
        goto died                                     \
    :: true                                           \
    fi

/* lock_acquire.lua: f[s] stays 0 when the segment is busy. */
inline lock_segment(s) {
    if
    :: redis[s].holder == 0 ->
        fences++;
        redis[s].holder = fences;
        f[s] = fences
    :: else -> busy = true
    fi
}

/* stock_take.lua, in one trip with the lock. Sets `dirty` when the segment needs the ledger. */
inline lock_and_take(s) {
    atomic {
        dirty = false;
        wanted = (hint[s] < unmet -> hint[s] : unmet);
        lock_segment(s);
        if
        :: f[s] == 0
        :: f[s] != 0 && (!redis[s].present || redis[s].open != 0 || suspect[s]) -> dirty = true
        :: else ->
            k[s] = (redis[s].available < wanted -> redis[s].available : wanted);
            p[s] = redis[s].settled;
            redis[s].available = redis[s].available - k[s];
            hint[s] = redis[s].available;
            unmet = unmet - k[s];
            if
            :: k[s] > 0 -> redis[s].open = f[s]
            :: else -> /* empty: released at once */
                redis[s].holder = 0;
                f[s] = 0
            fi
        fi;
        suspect[s] = false;
        wanted = 0;
        MAY_DIE
    }
}

/* stock_settle.lua */
inline settle(s, fence_now, back) {
    atomic {
        if
        :: redis[s].holder == f[s] && redis[s].open == f[s] ->
            redis[s].open = 0;
            redis[s].settled = fence_now;
            redis[s].available = redis[s].available + back;
            redis[s].holder = 0
        :: else
        fi;
        hint[s] = hint[s] + back;
        f[s] = 0;
        k[s] = 0;
        p[s] = 0;
        MAY_DIE
    }
}

/* lock_release.lua. Units that were taken stay taken: the segment is dirty. */
inline release(s) {
    atomic {
        if
        :: f[s] != 0 && redis[s].holder == f[s] -> redis[s].holder = 0
        :: else
        fi;
        f[s] = 0;
        k[s] = 0;
        p[s] = 0;
        MAY_DIE
    }
}

/* stock_load.lua: Redis gets what the ledger's row said under this hold, which ends. */
inline load(s, units_) {
    atomic {
        if
        :: redis[s].holder == f[s] ->
            if
#ifndef MUTANT_RECOVERY_NOT_LOADED
            :: !ahead ->
                redis[s].present = true;
                redis[s].available = units_;
                redis[s].settled = f[s];
                redis[s].open = 0
#endif
            :: else
            fi;
            redis[s].holder = 0
        :: else
        fi;
        f[s] = 0;
        k[s] = 0;
        p[s] = 0;
        left = 0;
        ahead = false;
        MAY_DIE
    }
}

/* The ledger's fence becomes ours, unless it is ahead; what its row says is then final until
 * somebody takes again, and Redis is loaded with it. */
inline recover(s) {
    atomic {
        ahead = ledger[s].fence > f[s];
        if
        :: !ahead -> ledger[s].fence = f[s]
        :: else
        fi;
        left = LEFT(s);
        hint[s] = (ahead -> ANY : left);
        MAY_DIE
    }
    load(s, left)
}

inline begin_transaction(kind_, slot_) {
    sent[t].kind = kind_;
    sent[t].slot = slot_;
    for (x : 0 .. SEGMENTS - 1) {
        sent[t].units[x] = k[x];
        sent[t].fence[x] = f[x];
        sent[t].settled[x] = p[x]
    }
}

/* A return or a restock also reads the rows of the held segments, under their locks: which have
 * changed (their fence is the hold's), and how much they have left. */
inline execute_and_read(kind_) {
#ifdef MUTANT_RETURN_LOADS_REDIS
    for (x : 0 .. SEGMENTS - 1) {
        if
        :: kind_ == RETURN && marked[x] -> k[x] = hint[x] - LEFT(x)
        :: else
        fi
    }
#endif
    execute(sent[t]);
    for (x : 0 .. SEGMENTS - 1) {
        if
        :: kind_ != SALE && ok && f[x] != 0 && ledger[x].fence == f[x] ->
            changed[x] = true;
#ifdef MUTANT_RETURN_LOADS_REDIS
            k[x] = (kind_ == RETURN && marked[x] -> k[x] + LEFT(x) : LEFT(x))
#else
            k[x] = LEFT(x)
#endif
        :: else
        fi
    }
}

/* Sends the worker's transaction. `known`: an answer came back, and `ok` is what it said. A lost
 * answer leaves the transaction done, never done, or still to come. */
inline commit(kind_, slot_) {
    atomic {
        begin_transaction(kind_, slot_);
        known = true;
        if
        :: execute_and_read(kind_)
        :: !calm && faults_seen < FAULTS && !sent[t + WORKERS].late ->
            faults_seen++;
            known = false;
            if
            :: execute(sent[t])
            :: true
            :: sent[t + WORKERS].late = true;
                sent[t + WORKERS].denied = false;
                sent[t + WORKERS].kind = sent[t].kind;
                sent[t + WORKERS].slot = sent[t].slot;
                for (x : 0 .. SEGMENTS - 1) {
                    sent[t + WORKERS].units[x] = sent[t].units[x];
                    sent[t + WORKERS].fence[x] = sent[t].fence[x];
                    sent[t + WORKERS].settled[x] = sent[t].settled[x]
                }
            fi;
            ok = false
        fi;
        x = 0;
        MAY_DIE
    }
}

/* What became of a sale whose answer was lost. The raised fence forbids it if it is still to come:
 * then `ok` is final. The question itself may remain unanswered: then `known` stays false. */
inline resolve() {
    atomic {
        x = (f[0] != 0 -> 0 : 1);
        if
        :: true ->
            known = true;
#ifndef MUTANT_RESOLVE_ONLY_LOOKS
            if
            :: ledger[x].fence < f[x] -> ledger[x].fence = f[x]
            :: else
            fi;
#endif
#ifdef MUTANT_UNKNOWN_IS_NO
            ok = false;
#else
            ok = (orders[slot].state != NONE);
#endif
            sent[t + WORKERS].denied = !ok
        :: !calm && faults_seen < FAULTS -> faults_seen++ /* the ledger is away for long */
        fi;
        x = 0
    }
}

/* --- An order --- */

/* One pass over the segments, from a random one on. */
inline gather() {
    unmet = quantity;
    busy = false;
    looked = 0;
    if
    :: s = 0
    :: s = 1
    fi;
    do
    :: looked == SEGMENTS || unmet == 0 -> break
    :: else ->
        if
        :: hint[s] > 0 && f[s] == 0 ->
            lock_and_take(s);
            if
            :: dirty ->
                recover(s);
                if
                :: hint[s] > 0 -> lock_and_take(s); /* once more; dirty again: given up for now */
                    if
                    :: dirty -> release(s); busy = true
                    :: else
                    fi
                :: else
                fi
            :: else
            fi
        :: else
        fi;
        s = 1 - s;
        looked++
    od
}

/* Ends each hold by what is known of the commit. */
inline finish(s) {
    if
    :: f[s] == 0
    :: f[s] != 0 && known && ok -> settle(s, f[s], 0)
    :: f[s] != 0 && known && !ok && sent[t].kind == NONE -> settle(s, p[s], k[s]) /* not sent */
    :: f[s] != 0 && known && !ok && sent[t].kind == SALE -> recover(s) /* refused */
    :: else -> release(s) /* in doubt: the next holder recovers it */
    fi
}

/* "Sold out" is asked of the ledger. Segments of which it knows more than was seen are suspect. */
inline conclude() {
#ifdef MUTANT_SOLD_OUT_FROM_REDIS
    if
    :: !busy -> told = SOLD_OUT
    :: else
    fi;
#else
    atomic {
        if
        :: LEFT_ALL < quantity -> told = SOLD_OUT
        :: else ->
            for (x : 0 .. SEGMENTS - 1) {
                if
#ifdef MUTANT_SUSPECT_ONLY_EMPTY
                :: LEFT(x) > 0 && hint[x] == 0 ->
#else
                :: LEFT(x) > hint[x] ->
#endif
                    suspect[x] = true;
                    hint[x] = LEFT(x)
                :: else
                fi
            }
        fi
    }
#endif
}

inline sell() {
    told = SILENCE;
    passes = 0;
    do
    :: told != SILENCE -> break
    :: told == SILENCE && passes == (calm -> PASSES_CALM : PASSES_FAULTY) ->
        assert(!calm); /* every order is decided within that many passes */
        told = NO
    :: else ->
        passes++;
        gather();
        atomic {
            sent[t].kind = NONE;
            known = true;
            ok = false
        }
        if
        :: unmet == 0 ->
#ifdef MUTANT_ACK_BEFORE_COMMIT
            atomic {
                orders[slot].told = YES;
                MAY_DIE
            }
#endif
            commit(SALE, slot);
            if
            :: !known -> resolve()
            :: else
            fi;
            if
            :: known && ok -> told = YES
            :: !known -> told = IN_DOUBT
            :: else
            fi;
            atomic { /* heard before it is settled */
                if
                :: told != SILENCE -> orders[slot].told = told
                :: else
                fi;
                MAY_DIE
            }
            finish(0);
            finish(1)
        :: else ->
            finish(0);
            finish(1);
            conclude()
        fi
    od;
    orders[slot].told = told
}

/* --- Units that come back, and new ones --- */

#if defined(UNMARKED_RETURNS)
#define MARKABLE(s) false
#elif defined(MUTANT_RETURN_MARKS_DIRTY)
#define MARKABLE(s) (redis[s].present)
#else
#define MARKABLE(s) (redis[s].present && redis[s].open == 0)
#endif

/* stock_open.lua, in one trip with the lock. A segment that is dirty or missing keeps what it says.
 * The mark makes the next holder recover what a dead one left; without it (UNMARKED_RETURNS) the
 * question to the ledger still does. */
inline lock_and_mark(s) {
    atomic {
        lock_segment(s);
        if
        :: f[s] != 0 && MARKABLE(s) ->
            redis[s].open = f[s];
            p[s] = redis[s].settled;
#ifdef MUTANT_RETURN_LOADS_REDIS
            hint[s] = redis[s].available;
#endif
            marked[s] = true
        :: else
        fi;
        MAY_DIE
    }
}

/* Ends the hold of a segment after a transaction that was carried out. */
inline end_hold(s) {
    if
    :: f[s] == 0
    :: f[s] != 0 && changed[s] -> load(s, k[s])
    :: f[s] != 0 && !changed[s] && marked[s] -> settle(s, p[s], 0)
    :: f[s] != 0 && !changed[s] && !marked[s] -> release(s)
    fi
}

inline recover_held() {
    if
    :: f[0] != 0 -> recover(0)
    :: else
    fi;
    if
    :: f[1] != 0 -> recover(1)
    :: else
    fi
}

/* Holds any segments that are free, whichever the order was taken from. A return whose answer was
 * lost is forbidden by the raised fences, if it is still to come; the order's status then says what
 * became of it. */
inline return_order(other) {
    if
    :: s = 0
    :: s = 1
    :: s = ANY
    fi;
    if
    :: s != 1 -> lock_and_mark(0)
    :: else
    fi;
    if
    :: s != 0 -> lock_and_mark(1)
    :: else
    fi;
    s = 0;
    if
    :: f[0] == 0 && f[1] == 0
    :: else ->
        commit(RETURN, other);
        if
        :: known && ok -> end_hold(0); end_hold(1)
        :: known && !ok -> recover_held()
        :: !known ->
            recover_held();
            atomic {
                sent[t + WORKERS].denied = (orders[other].state != ENDED);
                MAY_DIE
            }
        :: !known && faults_seen < FAULTS -> /* the ledger is away for long */
            faults_seen++;
            release(0);
            release(1)
        fi
    fi
}

inline restock() {
    busy = false;
    lock_and_mark(0);
    lock_and_mark(1);
    if
    :: busy -> release(0); release(1)
    :: else ->
        k[1] = 1;
        commit(RESTOCK, CALM_SLOT);
        if
        :: ok -> end_hold(0); end_hold(1)
        :: !ok -> release(0); release(1)
        fi
    fi
}

/* --- Who acts --- */

#define LOCALS                                                   \
    byte f[SEGMENTS], k[SEGMENTS], p[SEGMENTS], hint[SEGMENTS];  \
    bool suspect[SEGMENTS], marked[SEGMENTS], changed[SEGMENTS]; \
    byte slot, quantity, unmet, wanted, left, passes, looked, s, x, t, part; \
    bool busy, dirty, ok, known, ahead, moved;                   \
    mtype told

inline forget() {
    d_step {
        for (x : 0 .. SEGMENTS - 1) {
            f[x] = 0;
            k[x] = 0;
            p[x] = 0;
            hint[x] = ANY;
            suspect[x] = false;
            marked[x] = false;
            changed[x] = false
        }
        busy = false; dirty = false; ok = false; known = false; ahead = false; moved = false;
        unmet = 0; wanted = 0; left = 0; passes = 0; looked = 0; s = 0; x = 0; quantity = 0;
        part = 0;
        told = SILENCE
    }
}

proctype worker(byte me) {
    LOCALS;
    byte step, other;
    t = me;
    forget();
    do
    :: step == STEPS -> break
    :: step < STEPS ->
        slot = me * STEPS + step;
        if
        :: quantity = 1; sell()
        :: quantity = 2; sell()
        :: select(other : 0 .. CALM_SLOT - 1);
            if
            :: orders[other].state == ACCEPTED -> return_order(other)
            :: else
            fi
        :: restock()
        fi;
        goto next;
died:   skip;
next:   forget();
        other = 0;
        step++
    od;
    ended++
}

#define COPY(from, to)                            \
    for (x : 0 .. SEGMENTS - 1) {                 \
        to[x].present = from[x].present;          \
        to[x].holder = from[x].holder;            \
        to[x].open = from[x].open;                \
        to[x].available = from[x].available;      \
        to[x].settled = from[x].settled           \
    }                                             \
    x = 0

/* Redis and the network, as long as there is somebody to suffer from them. */
active proctype faults() {
    byte x, part;
    bool ok, moved;
    do
    :: atomic { !calm && faults_seen < FAULTS && !remembers -> /* a restart is to come */
           faults_seen++;
           remembers = true;
           COPY(redis, saved)
       }
    :: atomic { !calm && remembers && !restarted -> restarted = true; COPY(saved, redis); COPY(nothing, saved) }
    :: atomic { !calm && faults_seen < FAULTS -> faults_seen++; COPY(nothing, redis) }
    :: atomic { !calm && faults_seen < FAULTS && redis[0].holder != 0 -> faults_seen++; redis[0].holder = 0 }
    :: atomic { !calm && faults_seen < FAULTS && redis[1].holder != 0 -> faults_seen++; redis[1].holder = 0 }
    :: atomic { sent[WORKERS].late -> execute(sent[WORKERS]); sent[WORKERS].late = false }
    :: atomic { sent[WORKERS + 1].late ->
           execute(sent[WORKERS + 1]); sent[WORKERS + 1].late = false }
    :: atomic { sent[WORKERS].late -> sent[WORKERS].late = false }
    :: atomic { sent[WORKERS + 1].late -> sent[WORKERS + 1].late = false }
    :: calm && !sent[WORKERS].late && !sent[WORKERS + 1].late -> break
    od
}

inline check_segment(s) {
    assert(ledger[s].sold <= ledger[s].capacity);
    assert(!redis[s].present || redis[s].open != 0 || redis[s].settled != ledger[s].fence ||
           redis[s].available == LEFT(s))
}

inline check() {
    d_step {
        left = 0;
        for (x : 0 .. SLOTS - 1) {
            left = left + (orders[x].state == ACCEPTED -> orders[x].units : 0);
            assert(orders[x].told != YES || orders[x].state != NONE);
            assert((orders[x].told != NO && orders[x].told != SOLD_OUT) ||
                   orders[x].state == NONE)
        }
        assert(left == ledger[0].sold + ledger[1].sold);
        check_segment(0);
        check_segment(1);
        left = 0;
        x = 0
    }
}

/* Sells what is left, two units at a time and then one by one, with hints that say anything. */
proctype seller() {
    LOCALS;
    t = 0;
    slot = CALM_SLOT;
    forget();
    for (x : 0 .. SEGMENTS - 1) {
        if
        :: hint[x] = 0
        :: hint[x] = 1
        :: hint[x] = ANY
        fi
    }
    quantity = 2;
    do
    :: sell();
        assert(told == YES || told == SOLD_OUT);
        atomic {
            orders[slot].state = NONE;
            orders[slot].told = SILENCE;
            orders[slot].units = 0
        }
        if
        :: told == SOLD_OUT && quantity == 2 -> quantity = 1
        :: told == SOLD_OUT && quantity == 1 -> break
        :: else
        fi
    od;
    assert(LEFT_ALL == 0);
    goto over;
died:
    assert(false); /* nobody dies in the calm */
over:
    skip
}

/* Leases end. What differs only in what the past was is made the same, to save states: of fences
 * it counts whether Redis and the ledger agree. */
inline simplify() {
    d_step {
        for (x : 0 .. SEGMENTS - 1) {
            redis[x].holder = 0;
            redis[x].settled = (redis[x].settled == ledger[x].fence -> 2 : 1);
            ledger[x].fence = 2;
            redis[x].open = (redis[x].open == 0 -> 0 : 1)
        }
        for (x : 0 .. SLOTS - 1) {
            orders[x].state = NONE;
            orders[x].told = SILENCE;
            orders[x].units = 0
        }
        for (x : 0 .. 2 * WORKERS - 1) {
            sent[x].denied = false;
            sent[x].kind = NONE;
            sent[x].slot = 0;
            for (left : 0 .. SEGMENTS - 1) {
                sent[x].units[left] = 0;
                sent[x].fence[left] = 0;
                sent[x].settled[left] = 0
            }
            left = 0
        }
        fences = 2;
        faults_seen = 0;
        remembers = false;
        restarted = false;
        COPY(nothing, saved)
    }
}

init {
    byte x, left;
    d_step {
        for (x : 0 .. SEGMENTS - 1) {
            ledger[x].capacity = 2 - x;
            redis[x].present = true;
            redis[x].available = 2 - x
        }
        for (x : 0 .. SLOTS - 1) {
            orders[x].state = NONE;
            orders[x].told = SILENCE
        }
        x = 0
    }
    atomic {
        run worker(0);
        run worker(1)
    }
    ended == WORKERS;
    calm = true;
    !sent[WORKERS].late && !sent[WORKERS + 1].late;
    check();
    simplify();
    run seller()
}
