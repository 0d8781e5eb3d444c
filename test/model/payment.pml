/* The protocol of late payments and refunds (docs/guarantees.md), for spin.
 *
 * One order expires and gives its unit back, while its payments are told: two names, each perhaps
 * more than once, and one without a name. Two workers pay, expire, refund and sell to others, step
 * by step in every order, while Redis forgets, leases run out, answers are lost, transactions end
 * late and workers die. spin visits every state that the budgets below allow and checks:
 *
 *   - the units sold are those that orders hold, and no more than there are;
 *   - a payment is decided once, and goes from none to taken or due, and from there to refunded;
 *   - one payment at most is taken, and exactly while the order is paid by a name;
 *   - every answer agrees with the ledger, whose decisions are final; and a client that heard that
 *     nothing was done has changed nothing, then or later;
 *   - once the faults have stopped, each payment is decided within a bounded number of tries, and
 *     every unit that no order holds is sold.
 *
 * protocol.pml says why the segment's steps are as they are, and takes their rules away. Here there
 * is one segment, as units come back to any. A step is one remote call, so a transaction that first
 * looks and then writes is two: between them it holds the order's row.
 *
 * Each MUTANT_NAME takes a rule away; test/model/run shows that spin then finds a failure. */

#ifndef STEPS
#define STEPS 2    /* calls that each worker makes under faults */
#endif
#ifndef FAULTS
#define FAULTS 1   /* workers that die, answers lost, leases that run out, restarts of Redis */
#endif
#ifndef CAPACITY
#define CAPACITY 2 /* units; the order has one of them at first */
#endif

#define WORKERS 2
#define NOW WORKERS      /* the place of a transaction that is carried out at once */
#define NAMES 2
#define UNNAMED NAMES
#define TRIES_FAULTY 3   /* of a call under faults */
#define TRIES_CALM 4     /* that decide every call when there are no faults */

mtype = { RESERVED, PAID, EXPIRED, REFUNDED }         /* the order; REFUNDED: a payment, too */
mtype = { NONE, TAKEN, DUE }                          /* payments */
mtype = { IN_TIME, RETAKEN, TOO_LATE, ALREADY_PAID }  /* what they were answered */
mtype = { SALE, RETAKE, EXPIRY, REFUND, PAYING, REFUND_DUE } /* transactions */

/* --- Redis --- */

typedef redis_segment {
    bool present;
    byte holder;    /* its fence; 0: nobody */
    byte open;      /* dirty mark: the hold that changes units and has not settled; 0: settled */
    byte available;
    byte settled    /* the fence at which the ledger agreed */
}
redis_segment redis;

/* --- The ledger --- */

byte sold, fence; /* of the segment */
byte others;      /* units of the orders of others */

mtype status;     /* of the order, which has one unit */
bool overdue;     /* its time to pay is over */
bool unreturned;  /* it was refunded, and its unit counts as sold for good */
bool unnamed;     /* a payment without a name has paid it */
byte row_of;      /* whose transaction holds its row: worker + 1; 0: nobody's */

typedef payment_row { mtype state; mtype outcome }
payment_row payments[NAMES];

/* A transaction. One at its worker's place is late: it arrives when the worker has given up
 * waiting. */
typedef transaction {
    bool late;
    bool past;     /* the call that sent it is over */
    bool denied;   /* and its client was told that nothing was done */
    mtype kind;
    byte name;
    mtype outcome; /* that a payment gets */
    bool restock;
    byte fence;    /* of the hold */
    byte settled
}
transaction sent[WORKERS + 1];

/* --- The workers' holds --- */

byte f[WORKERS], p[WORKERS]; /* fence, and the fence settled before */
bool wrote[WORKERS];         /* its call has changed the ledger */
byte fences;

byte faults_seen, ended;
bool over;                   /* the faults are */
bool first_told;             /* the first name */

#define LEFT (CAPACITY - sold)
#define HOLDS (status == RESERVED || status == PAID || unreturned)

inline check_ledger() {
    assert(sold <= CAPACITY);
    assert(sold == others + HOLDS);
    assert(payments[0].state != TAKEN || payments[1].state != TAKEN);
    assert((payments[0].state == TAKEN || payments[1].state == TAKEN) ==
           (status == PAID && !unnamed))
}

/* --- Transactions --- */

#define CHAINED(tx) (fence == sent[tx].settled && fence < sent[tx].fence)

/* The key of the payments' table is the order and the name. */
#ifdef MUTANT_PAYMENT_NOT_UNIQUE
#define TOLD(tx) false
#else
#define TOLD(tx) (sent[tx].name != UNNAMED && payments[sent[tx].name].state != NONE)
#endif

#ifdef MUTANT_RETAKE_UNCHECKED
#define RETAKABLE true
#else
#define RETAKABLE (status == EXPIRED)
#endif

#ifdef MUTANT_REFUND_UNCHECKED
#define REFUNDABLE true
#else
#define REFUNDABLE (status == PAID)
#endif

#define RETURNABLE(tx)                                                             \
    (row_of == 0 && ((sent[tx].kind == EXPIRY && status == RESERVED && overdue) || \
                     (sent[tx].kind == REFUND && REFUNDABLE)))

/* Nobody who was told that nothing was done finds that something was. */
inline note_change(tx, who) {
    assert(!sent[tx].denied);
    wrote[who] = wrote[who] || !sent[tx].past
}

inline write_payment(tx, who, state_, outcome_) {
    if
    :: sent[tx].name != UNNAMED ->
        assert(payments[sent[tx].name].state == NONE);
        payments[sent[tx].name].state = state_;
        payments[sent[tx].name].outcome = outcome_
    :: else -> unnamed = true
    fi;
    note_change(tx, who)
}

/* A segment whose fence has moved on refuses the sale, as does an order that is not expired. */
inline execute_sale(tx, who) {
    if
    :: !CHAINED(tx) || LEFT == 0 -> ok = false
    :: else ->
        if
        :: sent[tx].kind == RETAKE && (!RETAKABLE || TOLD(tx)) -> ok = false; by_row = true
        :: else ->
            sold++;
            fence = sent[tx].fence;
            if
            :: sent[tx].kind == SALE -> others++
            :: else ->
                status = PAID;
                write_payment(tx, who, TAKEN, RETAKEN)
            fi
        fi
    fi
}

/* An order that somebody else has ended, or holds, is left as it is. Without `restock` no unit
 * comes back, and no segment is needed. */
inline execute_return(tx, who) {
    if
    :: !RETURNABLE(tx)
    :: RETURNABLE(tx) && sent[tx].restock && fence >= sent[tx].fence -> ok = false
    :: else ->
        moved = true;
        if
        :: sent[tx].restock -> assert(sold > 0); sold--; fence = sent[tx].fence
        :: else -> unreturned = true
        fi;
        if
        :: sent[tx].kind == EXPIRY -> status = EXPIRED
        :: else ->
            status = REFUNDED;
            for (n : 0 .. NAMES - 1) {
                if
                :: payments[n].state == TAKEN -> payments[n].state = REFUNDED
                :: else
                fi
            }
            n = 0;
            note_change(tx, who)
        fi
    fi
}

/* What was decided under the order's row, which is still held. */
inline execute_paying(tx, who) {
    if
    :: TOLD(tx) -> ok = false
    :: else ->
        if
        :: sent[tx].outcome == IN_TIME || sent[tx].outcome == RETAKEN ->
            status = PAID;
            write_payment(tx, who, TAKEN, sent[tx].outcome)
        :: else ->
            assert((sent[tx].outcome == ALREADY_PAID) == (status == PAID));
            write_payment(tx, who, DUE, sent[tx].outcome)
        fi
    fi
}

/* Carries the transaction out, all of it or nothing. */
inline execute(tx, who) {
    ok = true;
    by_row = false;
    moved = false;
    if
    :: sent[tx].kind == SALE || sent[tx].kind == RETAKE -> execute_sale(tx, who)
    :: sent[tx].kind == EXPIRY || sent[tx].kind == REFUND -> execute_return(tx, who)
    :: sent[tx].kind == PAYING -> execute_paying(tx, who)
    :: sent[tx].kind == REFUND_DUE ->
        if
        :: payments[sent[tx].name].state == DUE ->
            payments[sent[tx].name].state = REFUNDED;
            note_change(tx, who)
        :: else
        fi
    fi;
    check_ledger()
}

inline clear(tx) {
    sent[tx].late = false;
    sent[tx].past = false;
    sent[tx].denied = false;
    sent[tx].kind = 0;
    sent[tx].name = 0;
    sent[tx].outcome = 0;
    sent[tx].restock = false;
    sent[tx].fence = 0;
    sent[tx].settled = 0
}

inline fill(tx) {
    sent[tx].kind = kind;
    sent[tx].name = name;
    sent[tx].outcome = outcome;
    sent[tx].restock = restock;
    sent[tx].fence = f[t];
    sent[tx].settled = p[t]
}

/* --- The steps of a worker --- */

#define MAY_DIE                         \
    if                                  \
    :: !calm && faults_seen < FAULTS -> \
        faults_seen++;                  \
        goto died                       \
    :: true                             \
    fi

#define SELLS (kind == SALE || kind == RETAKE)

/* What the client learns of a transaction that was sent. */
inline hear() {
    if
    :: !known -> doubt = true
    :: known && ok ->
        answered = (moved || kind != REFUND && kind != EXPIRY);
        assert(kind != RETAKE || payments[name].outcome == RETAKEN);
        assert(kind != PAYING || name == UNNAMED || payments[name].outcome == outcome);
        assert(kind != REFUND_DUE || payments[name].state == REFUNDED)
    :: known && !ok
    fi
}

/* What is known of the transaction: an answer came back (`known`), and what it said (`ok`). A lost
 * answer leaves it done, never done, or still to come; then one that pays holds the order's row
 * until it ends. */
inline commit() {
    atomic {
        kind != RETAKE || row_of == 0; /* it waits for the row; the others skip it */
        known = true;
        carried_out = true;
        if
        :: true
        :: !calm && faults_seen < FAULTS && !sent[t].late ->
            faults_seen++;
            known = false;
            if
            :: true
            :: carried_out = false
            :: carried_out = false;
                fill(t);
                sent[t].late = true
            fi
        fi;
        if
        :: carried_out ->
            fill(NOW);
            execute(NOW, t);
            clear(NOW)
        :: else
        fi;
        if
        :: !known -> ok = false; by_row = false; moved = false
        :: else
        fi;
        hear();
        left = LEFT;
        carried_out = false;
        if
        :: row_of == t + 1 && (!sent[t].late || sent[t].kind != PAYING) -> row_of = 0
        :: else
        fi;
        MAY_DIE
    }
}

/* Of fences it counts which are equal and which is greater. So those in use are made the smallest
 * ones, to save states. */
#define IN_USE(x)                                                                \
    (fence == x || redis.holder == x || redis.open == x || redis.settled == x || \
     f[0] == x || f[1] == x || p[0] == x || p[1] == x || sent[0].fence == x ||   \
     sent[1].fence == x || sent[0].settled == x || sent[1].settled == x)

#define LOWER(value) value = (value > n -> value - 1 : value)

inline renumber() {
    d_step {
        n = 1;
        do
        :: n > fences -> break
        :: n <= fences && IN_USE(n) -> n++
        :: else ->
            LOWER(fence);
            LOWER(redis.holder);
            LOWER(redis.open);
            LOWER(redis.settled);
            LOWER(f[0]);
            LOWER(f[1]);
            LOWER(p[0]);
            LOWER(p[1]);
            LOWER(sent[0].fence);
            LOWER(sent[1].fence);
            LOWER(sent[0].settled);
            LOWER(sent[1].settled);
            fences--
        od;
        n = 0
    }
}

/* lock_acquire.lua: nothing is held when the segment is busy. */
inline lock_segment() {
    if
    :: redis.holder == 0 ->
        renumber();
        fences++;
        redis.holder = fences;
        f[t] = fences;
        held = true
    :: else
    fi
}

inline forget_hold() {
    f[t] = 0;
    p[t] = 0;
    held = false;
    took = false;
    marked = false
}

/* lock_acquire.lua and stock_take.lua. Sets `dirty` when the segment needs the ledger. */
inline lock_and_take() {
    atomic {
        dirty = false;
        lock_segment();
        if
        :: !held
        :: held && (!redis.present || redis.open != 0 || suspect) -> dirty = true
        :: else ->
            if
            :: redis.available > 0 ->
                redis.available--;
                took = true;
                p[t] = redis.settled;
                redis.open = f[t]
            :: else -> /* empty: released at once */
                redis.holder = 0;
                f[t] = 0;
                held = false;
                none_left = true
            fi
        fi;
        suspect = false;
        MAY_DIE
    }
}

/* stock_settle.lua: at the hold's fence if the ledger has it, else at the one before, and the unit
 * goes back. */
inline settle() {
    atomic {
        if
        :: redis.holder == f[t] && redis.open == f[t] ->
            redis.open = 0;
            redis.settled = (ok && !marked -> f[t] : p[t]);
            redis.available = redis.available + (!ok && took);
            redis.holder = 0
        :: else
        fi;
        forget_hold();
        MAY_DIE
    }
}

/* lock_release.lua. Units that were taken stay taken: the segment is dirty. */
inline release() {
    atomic {
        if
        :: redis.holder == f[t] -> redis.holder = 0
        :: else
        fi;
        forget_hold();
        MAY_DIE
    }
}

/* stock_load.lua: Redis gets what the ledger's row said under this hold. */
inline load() {
    atomic {
        if
        :: redis.holder == f[t] ->
            if
            :: !ahead ->
                redis.present = true;
                redis.available = left;
                redis.settled = f[t];
                redis.open = 0
            :: else
            fi;
            redis.holder = 0
        :: else
        fi;
        forget_hold();
        MAY_DIE
    }
}

/* The ledger's fence becomes ours, unless it is ahead; then Redis is loaded with its row. */
inline recover() {
    atomic {
        if
        :: ahead = fence > f[t];
            fence = (ahead -> fence : f[t]);
            left = LEFT
        :: !calm && faults_seen < FAULTS -> /* the ledger is away for long: it stays dirty */
            faults_seen++;
            ahead = true
        fi;
        MAY_DIE
    }
    load()
}

/* --- Units for an order, and units that come back --- */

/* Takes a unit, from a segment that is dirty after its recovery. */
inline take_unit() {
    lock_and_take();
    do
    :: dirty && !recovered -> recover(); recovered = true; lock_and_take()
    :: dirty && recovered -> release(); dirty = false /* given up for now */
    :: !dirty -> break
    od;
    recovered = false
}

/* "Sold out" is asked of the ledger. */
inline conclude() {
    atomic {
        none_left = false;
        sold_out = LEFT == 0;
        suspect = LEFT > 0;
        give_up = sold_out;
        answered = sold_out && kind == SALE
    }
}

/* lock_acquire.lua and stock_open.lua. */
inline lock_and_mark() {
    atomic {
        lock_segment();
        if
        :: held && redis.present && redis.open == 0 ->
            redis.open = f[t];
            p[t] = redis.settled;
            marked = true
        :: else
        fi;
        MAY_DIE
    }
}

/* Waits for the old transaction, or forbids it by the raised fence, and tells no more than that it
 * is over: each payment's own row tells what became of it. The question itself may remain
 * unanswered: then `resolved` stays false. */
inline resolve() {
    atomic {
        if
        :: fence = (fence < f[t] -> f[t] : fence);
            resolved = true;
#if defined(MUTANT_OVER_IS_NOTHING)
            doubt = false
#elif defined(MUTANT_PAID_IS_MINE)
            if
            :: kind == RETAKE && status == PAID -> known = true; ok = true; hear()
            :: else
            fi
#endif
        :: !calm && faults_seen < FAULTS -> faults_seen++ /* the ledger is away for long */
        fi
    }
}

/* Ends the hold by what is known of the transaction. A segment is recovered as well when it is only
 * known that the transaction is over: what Redis says of it may be out of date. That is no rule but
 * spares the next holder a refusal, which the chain of fences would bring about. */
inline end_hold() {
    if
    :: !held
    :: held && SELLS && (ok || by_row) -> settle()
    :: held && SELLS && !ok && !by_row && (known || resolved) -> recover()
    :: held && SELLS && !known && !resolved -> release()
    :: held && !SELLS && ok && moved -> load()
    :: held && !SELLS && ok && !moved && marked -> settle()
    :: held && !SELLS && ok && !moved && !marked -> release()
    :: held && !SELLS && !ok -> recover()
    fi
}

/* --- Payments --- */

/* Sets `kind` to PAYING with the outcome that is to be written. An expired order stays undecided
 * unless it is given up. */
inline decide() {
    if
    :: name == UNNAMED ->
        if
        :: status == RESERVED && !overdue -> outcome = IN_TIME
        :: else -> answered = true
        fi
    :: name != UNNAMED && payments[name].state != NONE -> answered = true
    :: else ->
        if
        :: status == RESERVED ->
            outcome = (!overdue -> IN_TIME : (give_up -> TOO_LATE : RETAKEN))
        :: status == EXPIRED -> outcome = (give_up -> TOO_LATE : 0)
        :: status == PAID -> outcome = ALREADY_PAID
        :: status == REFUNDED -> outcome = TOO_LATE
        fi
    fi;
    kind = (outcome != 0 -> PAYING : 0)
}

/* Looks without a lock whether the order's unit is to be taken again: the commit decides. The
 * user's limit or a pause may hinder it, as well as a lack of units. */
inline look_for_retake() {
    seen = payments[name].state;
    atomic {
        if
        :: seen == NONE && status == EXPIRED -> kind = RETAKE
        :: seen == NONE && status == EXPIRED && !calm -> give_up = true
        :: seen != NONE || status != EXPIRED
        fi;
        seen = 0;
        MAY_DIE
    }
}

/* ledger_pay: locks the order's row unless somebody else has, looks and decides. */
inline lock_and_decide() {
    atomic {
        if
#ifdef MUTANT_GIVE_UP_UNCHECKED
        :: give_up -> kind = PAYING; outcome = TOO_LATE
#endif
#ifdef MUTANT_LOOK_BEFORE_LOCK
        :: true -> decide()
#else
        :: row_of == 0 -> decide(); row_of = (kind == PAYING -> t + 1 : 0)
        :: row_of != 0
#endif
        fi;
        MAY_DIE
    }
}

inline look_at_payment() {
    if
    :: name != UNNAMED && !give_up -> look_for_retake()
    :: else
    fi;
    if
    :: kind == 0 -> lock_and_decide()
    :: else
    fi
}

/* Looks at the payment first: one that is taken has an order that is paid, or refunded since. */
inline look_at_refund() {
    seen = payments[name].state;
    atomic {
        if
        :: seen == NONE || seen == REFUNDED -> answered = true
        :: seen == DUE -> kind = REFUND_DUE
        :: seen == TAKEN && status == PAID -> kind = REFUND
        :: seen == TAKEN && status != PAID -> answered = true
        fi;
        assert(!answered || seen == NONE || payments[name].state == REFUNDED);
        seen = 0
    }
}

/* One try: looks, holds the segment if a unit moves, sends the transaction, ends the hold. */
inline try_once() {
    if
    :: call == PAYING -> look_at_payment()
    :: call == REFUND -> look_at_refund()
    :: else -> kind = call
    fi;
    if
    :: SELLS ->
        take_unit();
        if
        :: none_left -> conclude()
        :: else
        fi;
        kind = (took -> kind : 0)
    :: (kind == EXPIRY || kind == REFUND) && restock ->
        lock_and_mark();
        kind = (held -> kind : 0)
    :: else
    fi;
    if
    :: kind != 0 ->
        commit();
        if
        :: !known && SELLS -> resolve()
        :: else
        fi;
        end_hold()
    :: else
    fi;
    d_step {
        kind = 0; outcome = 0; known = false; ok = false; resolved = false; by_row = false;
        moved = false; left = 0; ahead = false
    }
}

inline forget() {
    d_step {
        f[t] = 0;
        p[t] = 0;
        wrote[t] = false;
        sent[t].past = sent[t].late;
        row_of = (row_of == t + 1 && !(sent[t].late && sent[t].kind == PAYING) -> 0 : row_of);
        call = 0; kind = 0; outcome = 0; seen = 0; name = 0; tries = 0; left = 0;
        held = false; took = false; restock = false; suspect = false; marked = false;
        dirty = false; recovered = false; none_left = false; known = false; carried_out = false;
        ok = false; resolved = false; by_row = false; moved = false; sold_out = false;
        answered = false; doubt = false; give_up = false; ahead = false
    }
}

/* Whoever is not answered hears that nothing was done, or that it is in doubt. */
inline end_call() {
    atomic {
        assert(answered || !calm); /* every call is decided within that many tries */
        if
        :: answered || doubt
        :: else ->
            assert(!wrote[t]);
            sent[t].denied = sent[t].late && !sent[t].past
        fi;
        finished = sold_out && call == SALE;
        forget()
    }
}

/* Tries until the call is answered, or its time is over. */
inline make_call() {
    do
    :: answered -> break
    :: !answered && tries < (calm -> TRIES_CALM : TRIES_FAULTY) -> tries++; try_once()
    :: !answered && tries > 0 && (!calm || tries == TRIES_CALM) -> break
    od;
    end_call()
}

/* --- Who acts --- */

inline choose_call() {
    if
    :: call = PAYING; name = 0; first_told = true
    :: first_told -> call = PAYING; name = 1 /* names are alike: this one comes second */
    :: status == RESERVED && !overdue -> call = PAYING; name = UNNAMED
    :: status == RESERVED && overdue -> call = EXPIRY; restock = true
    :: call = SALE
    :: payments[0].state != NONE -> call = REFUND; name = 0
    :: payments[1].state != NONE -> call = REFUND; name = 1
    fi;
    if
    :: call == REFUND -> restock = true
    :: true
    fi
}

/* In the calm every payment is told again, which decides it, and what is left is sold. */
proctype worker(byte t; bool calm) {
    byte step, name, tries, left, n;
    bool held, took, restock, suspect, marked, dirty, recovered, none_left, known, carried_out;
    bool ok, resolved, by_row, moved, sold_out, answered, doubt, give_up, ahead, finished;
    mtype call, kind, outcome, seen;
    do
    :: !calm && step == STEPS -> break
    :: calm && finished -> break
    :: else ->
        atomic {
            if
            :: calm && step < NAMES -> call = PAYING; name = step
            :: calm && step >= NAMES -> call = SALE
            :: !calm -> choose_call()
            fi
        }
        make_call();
        goto next;
died:   forget();
next:   step++
    od;
    assert(!calm || (payments[0].state != NONE && payments[1].state != NONE && LEFT == 0));
    ended++
}

/* The transaction arrives, or never will. */
inline end_late(who) {
    if
    :: sent[who].kind == PAYING -> row_of = 0
    :: else
    fi;
    if
    :: execute(who, who)
    :: true
    fi;
    clear(who);
    ok = false;
    by_row = false;
    moved = false
}

/* Whose late transaction may end: one that pays holds the row, and the others need it. */
#define MAY_ARRIVE(who) \
    (sent[who].late &&  \
     (row_of == 0 || row_of == who + 1 && sent[who].kind == PAYING))

/* Redis and the network, as long as there is somebody to suffer from them; and time. */
active proctype faults() {
    bool ok, by_row, moved;
    byte n;
    do
    :: atomic { !over && status == RESERVED && !overdue -> overdue = true }
    :: atomic { !over && faults_seen < FAULTS && redis.present ->
           faults_seen++;
           redis.present = false;
           redis.holder = 0;
           redis.open = 0;
           redis.available = 0;
           redis.settled = 0
       }
    :: atomic { !over && faults_seen < FAULTS && redis.holder != 0 ->
           faults_seen++;
           redis.holder = 0
       }
    :: atomic { MAY_ARRIVE(0) -> end_late(0) }
    :: atomic { MAY_ARRIVE(1) -> end_late(1) }
    :: over && !sent[0].late && !sent[1].late -> break
    od
}

/* Leases end. What differs only in the past is made the same, to save states. */
inline simplify() {
    d_step {
        redis.holder = 0;
        redis.settled = (redis.settled == fence -> 2 : 1);
        redis.open = (redis.open == 0 -> 0 : 1);
        fence = 2;
        fences = 2;
        faults_seen = 0
    }
}

init {
    d_step {
        redis.present = true;
        redis.available = CAPACITY - 1;
        redis.settled = 1;
        fence = 1;
        fences = 1;
        sold = 1;
        status = RESERVED;
        payments[0].state = NONE;
        payments[1].state = NONE
    }
    atomic {
        run worker(0, false);
        run worker(1, false)
    }
    ended == WORKERS;
    over = true;
    !sent[0].late && !sent[1].late;
    assert(row_of == 0);
    simplify();
    run worker(0, true)
}
