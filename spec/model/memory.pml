/*
 * One direction of a connection with shared memory, as spec/transports.md has
 * it: a caller sends frames to a server by ring or by socket, either side may
 * be killed, and the server may close the connection and live on.
 *
 * README.md says what is modelled and how; `check` verifies it, and verifies
 * that each mutant below, a step left out or in the wrong place, fails.
 */

/* Three models of one text: what arrives; with MARKS, what the caller may
 * conclude from the start marks; with ONE_MARK as well, the same when the calls
 * run at the same time and share a mark. */
#ifdef MARKS
#define FRAMES 2
#else
#define FRAMES 3
#endif
#define SLOTS 2

/* ---- Memory: every word has one writer, and a store is seen late ---- */

/* Words that another process, or another thread, reads. */
#define SEQUENCE(n) ((n) % SLOTS)
#define BODY(n) (SLOTS + (n) % SLOTS)
#define TAKEN (2 * SLOTS)
#define SLEEPS (2 * SLOTS + 1)
#define GATE (2 * SLOTS + 2)
#ifdef ONE_MARK
#define MARK(frame) (2 * SLOTS + 3)
#else
#define MARK(frame) (2 * SLOTS + 2 + (frame))
#endif
#define WORDS (2 * SLOTS + 3 + FRAMES)

byte memory[WORDS];
byte stored[WORDS];  /* what will be seen */
bool pending[WORDS]; /* and is not yet */

/* Stores of one processor become visible in any order, as on the weakest
 * machines; a release store waits for those before it, a fence for all. */
inline store(word, value) {
    d_step { stored[word] = value; pending[word] = true }
}

#define CALLER_STORES_SEEN (!pending[0] && !pending[1] && !pending[2] && !pending[3])
#define SERVER_STORES_SEEN (!pending[TAKEN] && !pending[SLEEPS] && MARKS_SEEN)
#ifdef MARKS
#define MARKS_SEEN (!pending[MARK(1)] && !pending[MARK(2)])
#else
#define MARKS_SEEN true
#endif

proctype Visibility() {
    do
    :: d_step { pending[0] -> memory[0] = stored[0]; pending[0] = false }
    :: d_step { pending[1] -> memory[1] = stored[1]; pending[1] = false }
    :: d_step { pending[2] -> memory[2] = stored[2]; pending[2] = false }
    :: d_step { pending[3] -> memory[3] = stored[3]; pending[3] = false }
    :: d_step { pending[TAKEN] -> memory[TAKEN] = stored[TAKEN]; pending[TAKEN] = false }
    :: d_step { pending[SLEEPS] -> memory[SLEEPS] = stored[SLEEPS]; pending[SLEEPS] = false }
#ifdef MARKS
    :: d_step { pending[GATE] -> memory[GATE] = stored[GATE]; pending[GATE] = false }
    :: d_step { pending[MARK(1)] -> memory[MARK(1)] = stored[MARK(1)]; pending[MARK(1)] = false }
    :: d_step { pending[MARK(2)] -> memory[MARK(2)] = stored[MARK(2)]; pending[MARK(2)] = false }
#endif
    od
}

/* ---- The socket ---- */

#define WAKE 0
/* Room for every frame and every WAKE: that a socket is full is not modelled. */
chan socket = [FRAMES * 2 + 1] of { byte };
bool caller_dead, server_dead;
bool closed; /* by the server, or by its death */

/* ---- What must never be ---- */

bool delivered[FRAMES + 1];
byte deliveries;
byte sent;             /* frames given to ring or socket */
byte ring_frame[FRAMES]; /* which frame was put as which */
byte copied;           /* frames of the ring the server needs no longer */
byte last_by_ring, last_by_socket;
bool started[FRAMES + 1], finished[FRAMES + 1];
bool said_not_executed[FRAMES + 1];
bool server_ended, caller_ended;
byte waked; /* the sleep for which WAKE was last sent */

bool lost_wake_up, end_not_noticed, woken_twice, caller_waits;
bool delivered_twice, out_of_order, read_unpublished, overwritten;
bool said_not_executed_but_started, said_finished_but_was_not;

#define RECEIVED 1
#define STARTED 2
#define FINISHED 3
#define MARKED(frame, stage) ((frame) * 4 + (stage))
/* The first call that was sent when there were marks. */
byte first_marked = 1;
/* What the caller concludes; a mark of a later call says neither. */
#ifdef MUTANT_OLD_CALLS_JUDGED
#define MARKS_TELL(frame) true
#else
#define MARKS_TELL(frame) ((frame) >= first_marked)
#endif
#define SAYS_NOT_STARTED(frame) (MARKS_TELL(frame) && memory[MARK(frame)] <= MARKED(frame, RECEIVED))
#define SAYS_FINISHED(frame) (memory[MARK(frame)] == MARKED(frame, FINISHED))

/* Of the sleeping words: 1 is that of a side which never used its ring. */
#define ASLEEP(word) ((word) % 2 == 1)
#define ATTACHED(word) ((word) > 1)

/* ---- The caller ---- */

inline send_by_socket(frame) {
    socket!frame;
    sent++
}

inline put(frame) {
    d_step {
        overwritten = overwritten || (put_count - copied >= SLOTS);
        assert(!overwritten);
        ring_frame[put_count] = frame
    }
#ifdef MUTANT_SEQUENCE_FIRST
    store(SEQUENCE(put_count), put_count + 1);
    CALLER_STORES_SEEN;
    store(BODY(put_count), frame);
#else
    store(BODY(put_count), frame);
#ifndef MUTANT_NO_RELEASE
    CALLER_STORES_SEEN;
#endif
    store(SEQUENCE(put_count), put_count + 1);
#endif
    put_count++;
    sent++
}

/* After a frame was put: the second look. */
inline wake_if_asleep() {
#ifndef MUTANT_NO_SECOND_LOOK
#ifndef MUTANT_NO_SENDER_FENCE
    CALLER_STORES_SEEN;
#endif
    seen_sleeps = memory[SLEEPS];
    if
#ifdef MUTANT_WAKE_ONCE
    :: ASLEEP(seen_sleeps) && woken == 0 ->
#else
#ifdef MUTANT_WAKE_ALWAYS
    :: ASLEEP(seen_sleeps) ->
#else
    :: ASLEEP(seen_sleeps) && seen_sleeps != woken ->
#endif
#endif
        d_step {
            woken_twice = woken_twice || waked == seen_sleeps;
            assert(!woken_twice);
            waked = seen_sleeps;
            woken = seen_sleeps
        }
#ifdef MUTANT_SENT_BOTH_WAYS
        socket!frame
#else
        socket!WAKE
#endif
    :: else
    fi;
#endif
    skip
}

#ifdef MUTANT_ROOM_FOR_ONE_MORE
#define ROOM (put_count - memory[TAKEN] <= SLOTS)
#else
#define ROOM (put_count - memory[TAKEN] < SLOTS)
#endif

/* Which frames are large enough to be put although the server sleeps does not
 * matter: any may be. */
inline send(frame) {
    seen_sleeps = memory[SLEEPS];
    if
#ifdef MUTANT_SLEEPER_GETS_RING
    :: ROOM -> put(frame)
#else
    :: ASLEEP(seen_sleeps) -> send_by_socket(frame)
#ifdef MUTANT_RING_BEFORE_ATTACHED
    :: ASLEEP(seen_sleeps) && ROOM -> put(frame); wake_if_asleep()
#else
    :: ASLEEP(seen_sleeps) && ATTACHED(seen_sleeps) && ROOM -> put(frame); wake_if_asleep(); owes_look = false
    :: ASLEEP(seen_sleeps) && ATTACHED(seen_sleeps) && ROOM -> put(frame); owes_look = true
#endif
    :: !ASLEEP(seen_sleeps) && ROOM -> put(frame); wake_if_asleep(); owes_look = false
    :: !ASLEEP(seen_sleeps) && ROOM -> put(frame); owes_look = true
#ifndef MUTANT_WAITS_FOR_ROOM
    :: !ASLEEP(seen_sleeps) && !ROOM -> send_by_socket(frame)
#endif
#endif
    fi
}

/* What is concluded about one call; only *finished* may be before the end. */
inline conclude(frame) {
    d_step {
        if
#ifdef MUTANT_CONCLUDES_BEFORE_END
        :: SAYS_NOT_STARTED(frame) ->
#else
        :: at_end && SAYS_NOT_STARTED(frame) ->
#endif
            said_not_executed[frame] = true;
            said_not_executed_but_started = said_not_executed_but_started || started[frame]
        :: SAYS_FINISHED(frame) ->
            said_finished_but_was_not = said_finished_but_was_not || !finished[frame]
        :: else
        fi;
        assert(!said_not_executed_but_started);
        assert(!said_finished_but_was_not)
    }
}

proctype Caller() provided (!caller_dead) {
    byte frame = 1;
    byte put_count, seen_sleeps, woken;
    bool at_end;
    bool owes_look; /* frames were put, and the second look was left for later */
#ifndef ONE_MARK
    do
    :: frame <= FRAMES && !closed -> send(frame); frame++
    :: frame > FRAMES || closed -> break
    od;
#ifndef MUTANT_NO_LAST_LOOK
    if :: owes_look -> wake_if_asleep() :: else fi;
#endif
#endif
#ifdef MARKS
    /* The marks are read at the end of the connection, or at a deadline. */
    at_end = closed;
    frame = 1;
    do
    :: frame <= FRAMES -> conclude(frame); frame++
    :: else -> break
    od;
#endif
    caller_ended = true
}

/* ---- The server ---- */

inline begin(frame) {
    d_step {
        started[frame] = true;
        said_not_executed_but_started = said_not_executed_but_started || said_not_executed[frame];
        assert(!said_not_executed_but_started)
    }
}

inline finish(frame) { finished[frame] = started[frame] }

#ifdef ONE_MARK
/* Calls that run at the same time store the same mark: the server exchanges it
 * atomically, which is a fence, and leaves a later call's as it is. */
inline set_mark(frame, stage) {
#ifdef MUTANT_MARK_NOT_EXCHANGED
    if
    :: memory[MARK(frame)] / 4 <= frame -> memory[MARK(frame)] = MARKED(frame, stage)
    :: else
    fi
#else
    d_step {
        if
#ifdef MUTANT_LATER_MARK_LOST
        :: true ->
#else
        :: memory[MARK(frame)] / 4 <= frame ->
#endif
            memory[MARK(frame)] = MARKED(frame, stage)
        :: else
        fi
    }
#endif
}
#else
inline set_mark(frame, stage) {
    if
    :: frame >= first_marked -> store(MARK(frame), MARKED(frame, stage))
    :: else
    fi
}
#endif

inline execute(frame) {
    set_mark(frame, RECEIVED);
#ifdef MUTANT_STARTED_TOO_LATE
    if :: !memory[GATE] -> begin(frame); set_mark(frame, STARTED) :: else fi;
    finish(frame);
#else
    set_mark(frame, STARTED);
#ifndef MUTANT_NO_FENCE_BEFORE_GATE
    SERVER_STORES_SEEN;
#endif
    if
#ifdef MUTANT_NO_GATE
    :: true ->
#else
    :: !memory[GATE] ->
#endif
        if
        :: begin(frame);
#ifdef MUTANT_FINISHED_TOO_EARLY
            set_mark(frame, FINISHED);
            finish(frame)
#else
            finish(frame);
            set_mark(frame, FINISHED)
#endif
        :: true -> /* its arguments are refused: it does not run */
#ifdef MUTANT_REFUSED_IS_FINISHED
            set_mark(frame, FINISHED)
#else
            set_mark(frame, RECEIVED)
#endif
        fi
    :: else -> set_mark(frame, RECEIVED) /* taken back: it will not run */
    fi;
#endif
    skip
}

#ifdef ONE_MARK
proctype Function(byte frame) provided (!server_dead) { execute(frame) }
#endif

inline deliver(frame) {
    d_step {
        delivered_twice = delivered_twice || delivered[frame];
        assert(!delivered_twice);
        delivered[frame] = true;
        deliveries++
    }
#ifdef ONE_MARK
    run Function(frame);
#else
#ifdef MARKS
    execute(frame);
#endif
#endif
    skip
}

#ifdef MUTANT_SEQUENCE_NOT_COMPARED
#define READY (memory[SEQUENCE(seen)] != 0)
#else
#define READY (memory[SEQUENCE(seen)] == seen + 1)
#endif
#define NEXT_READY (memory[SEQUENCE(seen + 1)] == seen + 2)

inline take() {
#ifdef MUTANT_TAKEN_BEFORE_COPY
    store(TAKEN, seen + 1);
#endif
    d_step {
#ifndef MUTANT_NO_ACQUIRE
        frame = memory[BODY(seen)];
#endif
        read_unpublished = read_unpublished || frame != ring_frame[seen];
        assert(!read_unpublished);
        out_of_order = out_of_order || frame < last_by_ring;
        assert(!out_of_order);
        last_by_ring = frame;
        copied++
    }
    seen++;
#ifndef MUTANT_TAKEN_BEFORE_COPY
    store(TAKEN, seen);
#endif
    deliver(frame)
}

inline handle_from_socket() {
    if
    :: frame != WAKE ->
        d_step {
            out_of_order = out_of_order || frame < last_by_socket;
            assert(!out_of_order);
            last_by_socket = frame
        }
        deliver(frame)
    :: else
    fi
}

inline change_sleeps() {
#ifdef MUTANT_SLEEPS_NOT_COUNTED
    sleeps = (ASLEEP(sleeps) -> 2 : 3);
#else
    sleeps++;
#endif
    store(SLEEPS, sleeps)
}

#ifdef MUTANT_END_NOT_NOTICED
#define CALLER_GONE false
#else
#define CALLER_GONE (caller_dead && empty(socket))
#endif

/* A side that could not use the memory it was given: its word remains 1. */
inline serve_socket() {
    do
    :: socket?frame -> handle_from_socket()
    :: CALLER_GONE || closed -> break
    od
}

inline serve() {
    do
    :: closed -> break
#ifdef MUTANT_NO_ACQUIRE
    :: frame = memory[BODY(seen)];
        if :: READY -> take() :: else fi
#else
    :: READY -> take()
#endif
#ifdef MUTANT_NEWEST_FIRST
    :: READY && NEXT_READY -> seen++; take(); seen = seen - 2; take(); seen++
#endif
    :: socket?frame -> handle_from_socket()
    :: !READY && !closed ->
        change_sleeps();
#ifndef MUTANT_NO_SLEEPER_FENCE
        SERVER_STORES_SEEN;
#endif
        if
#ifdef MUTANT_NO_RECHECK
        :: true ->
#else
        :: READY -> change_sleeps()
        :: !READY ->
#endif
            if
#ifdef MUTANT_SOCKET_NOT_WATCHED
            :: READY -> change_sleeps()
            :: caller_dead -> break
#else
            :: socket?frame -> change_sleeps(); handle_from_socket()
            :: CALLER_GONE -> break
#endif
            :: closed -> break
            fi
        fi
    od
}

proctype Server() provided (!server_dead) {
    byte seen, frame;
    byte sleeps = 1;
#ifdef ONE_MARK
    /* The ways the calls come do not matter here, only that there are two. */
    if
    :: deliver(1); deliver(2)
    :: deliver(2); deliver(1)
    fi;
#else
    if
    :: change_sleeps(); serve()
    :: serve_socket()
    fi;
#endif
    /* What is left in the ring of a dead caller may be dropped. */
    server_ended = true
}

/* ---- Kills, and the server's closing of the connection ---- */

proctype Fate() {
    if
    :: true
    :: caller_dead = true
    :: server_dead = true;
        /* The kernel closes the socket when no thread of the process runs any more,
         * and by then the stores of all are seen. */
        SERVER_STORES_SEEN;
        closed = true
#ifdef MARKS
    :: true ->
#ifdef MUTANT_GATE_AFTER_CLOSE
        closed = true;
        store(GATE, 1)
#else
        store(GATE, 1);
        !pending[GATE];
        closed = true
#endif
#endif
    fi
}

/* When nothing can happen any more, everything must have arrived, or whoever
 * waits for it must know why not. */
proctype Watch() {
    timeout ->
    d_step {
        lost_wake_up = !closed && !caller_dead && deliveries < sent;
        assert(!lost_wake_up);
        end_not_noticed = caller_dead && !server_dead && !server_ended;
        assert(!end_not_noticed);
        caller_waits = !caller_dead && !caller_ended;
        assert(!caller_waits)
    }
}

init {
    atomic {
        memory[SLEEPS] = 1;
#ifdef MARKS
#ifndef ONE_MARK
        if :: first_marked = 1 :: first_marked = 2 fi;
#endif
#endif
        run Visibility();
        run Caller();
        run Server();
        run Fate();
        run Watch()
    }
}
