/* Every state in which a power cut may leave a disk, of sequences of file-system calls, and what a file system makes of
 * each: it is repaired if it wants that, mounted, looked at (crash/judge.h), and used.
 *
 * It runs in the folder under test, on a disk that makes states (scripts/guest/crashdisk.c). What is there before is
 * made, flushed, and unmounted; that is the base of all sequences. Of each sequence a line says how many writes,
 * flushes and states it had, and what was found. `after`: all its calls had returned. `broken`: a promise that was
 * named. at: the number of the state for --at, and of one after a second cut, in the recovery of that state, its own.
 *
 * With --full there is no room before the first sequence: a file beside the folder has taken it (--full bytes: but for
 * so much), or as many files as there are inodes (--full inodes). Then calls may fail with ENOSPC, and the next one is
 * made; what failed must have changed nothing, or a part of its file's content. What has taken the room can be removed
 * in each state, and then a new file can be written.
 */
#ifndef REPROFS_CRASH_VISIT_H
#define REPROFS_CRASH_VISIT_H

#include "asked.h"
#include "calls.h"
#include "content.h"
#include "disk.h"
#include "judge.h"
#include "look.h"
#include "measure.h"
#include "mounts.h"
#include "program.h"
#include "subsets.h"
#include "world.h"

#include <limits.h>
#include <sys/klog.h>

enum { MOST_INODES = 200000, LARGEST_PIECE = 16 << 20, SMALLEST_PIECE = 4096 };

/* ---- what is found ----------------------------------------------------------------------------------------------- */
static struct tally {
    uint32_t states, at, again;
    bool broken, here; /* here: in the state that is being looked at */
    char what[112];
} tallies[FINDINGS][2];
static uint32_t now_at, now_again, n_visited; /* the state that is being looked at */
static int now_done, now_begun; /* calls, at the last place that leaves it */
static bool now_after;

static void found(enum finding kind, bool is_broken, const char *format, ...) {
    struct tally *t = &tallies[kind][now_after];
    char text[112];
    va_list more;
    va_start(more, format);
    vsnprintf(text, sizeof text, format, more);
    va_end(more);
    for (char *c = text; *c; c++)
        if (*c == '"' || *c == '\\' || *c < ' ') *c = '\'';
    if (p.at != NOT_GIVEN)
        printf("FOUND %s: %s (%s the last call had returned; %s)\n", finding_words[kind], text,
            now_after ? "after" : "before", is_broken ? "a broken promise" : "no promise of this file system");
    if (!t->states || (is_broken && !t->broken)) {
        strcpy(t->what, text);
        t->at = now_at;
        t->again = now_again;
    }
    t->broken = t->broken || is_broken;
    t->states += !t->here;
    t->here = true;
}

static void report(const char *sequence, const char *failure, uint64_t began) {
    uint32_t writes = 0, flushes = 0, fua = 0;
    const char *comma = "";
    for (uint32_t e = 0; e < n_events; e++) {
        writes += events[e].kind == 'w';
        flushes += events[e].kind == 'f';
        fua += events[e].fua;
    }
    printf(
        "{\"sequence\":\"%s\",\"failed\":\"%s\",\"writes\":%u,\"flushes\":%u,\"fua\":%u,\"proposed\":%u,\"states\":%u,"
        "\"ns\":%llu,\"findings\":[",
        sequence, failure, writes, flushes, fua, n_proposed, n_visited, (unsigned long long)(now_ns() - began));
    for (int i = 0; i < 2 * FINDINGS; i++) {
        const struct tally *t = &tallies[i / 2][i % 2];
        if (!t->states) continue;
        printf("%s{\"kind\":\"%s\",\"after\":%s,\"broken\":%s,\"states\":%u,\"at\":%u,", comma, finding_words[i / 2],
            i % 2 ? "true" : "false", t->broken ? "true" : "false", t->states, t->at);
        if (t->again) printf("\"again\":%u,", t->again - 1);
        printf("\"what\":\"%s\"}", t->what);
        comma = ",";
    }
    printf("]}\n");
}

/* ---- one state --------------------------------------------------------------------------------------------------- */
/* Whether a file is promised, and nobody has begun to remove it. */
static bool must_stay(int x) {
    int p = x == NOTHING ? NOTHING : flushed_at(x, now_done);
    return p != NOTHING && is_promised(p) && !may_be_nowhere(x, named_at(x, now_done), now_begun);
}

/* The path of what takes the room, beside the folder under test. */
static const char *filler(char *room, int number) {
    int n = snprintf(room, PATH_MAX, "%s/filler", m.mountpoint);
    if (number) snprintf(room + n, PATH_MAX - (size_t)n, "/%d", number);
    return room;
}

/* All of it, or one inode of all. */
static void make_room(void) {
    char room[PATH_MAX];
    if (!unlink(filler(room, full == FULL_OF_INODES))) sync();
    else found(UNUSABLE, false, "what takes the room cannot be removed: %s", words_for(errno));
}

/* Whether what is written now harms what was there. */
static void write_new(void) {
    static struct seen was[NAMES];
    static uint8_t large[1 << 16];
    char room[PATH_MAX], other[PATH_MAX];
    const char *path = path_of("probe", room);
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    memset(large, 7, sizeof large);
    if (fd < 0) return found(UNUSABLE, false, "no new file can be made: %s", words_for(errno));
    bool written = pwrite(fd, large, sizeof large, 0) == sizeof large && !fsync(fd);
    if (!written) found(UNUSABLE, false, "no new file can be written: %s", words_for(errno));
    close(fd);
    memcpy(was, seen, sizeof was);
    for (int n = 0; n < n_names; n++) {
        if (was[n].type != 'f') continue;
        fd = open(path_of(names[n], other), O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        see(n);
        if (seen[n].bytes != was[n].bytes || memcmp(seen[n].tag, was[n].tag, sizeof was[n].tag))
            found(OVERWRITTEN, must_stay(was[n].node[0]), "%s is another after a new file was written", names[n]);
    }
    memcpy(seen, was, sizeof was);
    if (unlink(path)) found(UNUSABLE, false, "the new file cannot be removed: %s", words_for(errno));
}

static void remove_all(void) {
    char room[PATH_MAX];
    for (int turn = 0; turn < 4; turn++)
        for (int n = n_names; n-- > 0;) {
            bool folder = seen[n].type == 'd';
            if (!seen[n].type || seen[n].type == 'e' || folder != (turn > 0)) continue;
            const char *path = path_of(names[n], room);
            if (!(folder ? rmdir(path) : unlink(path)) || errno == ENOENT) seen[n].type = 0;
            else if (turn == 3 || !folder) {
                found(UNUSABLE, false, "%s cannot be removed: %s", names[n], words_for(errno));
                seen[n].type = 0;
            }
        }
}

/* How many calls had returned, or begun, after k events. */
static void calls_at(uint32_t k, int *done, int *begun) {
    *done = *begun = 0;
    for (uint32_t e = 0; e < k; e++) {
        if (events[e].kind != 'm') continue;
        *begun = (int)(events[e].number / 2);
        if (events[e].number % 2) *done = *begun;
    }
}

static void tell_seen(void) {
    static const char *const types[] = {['f'] = "file", ['d'] = "folder", ['l'] = "link", ['e'] = "error", ['?'] = "?"};
    for (int n = 0; n < n_names; n++) {
        const struct seen *s = &seen[n];
        if (!s->type) continue;
        printf("SEEN %s: %s, %ld bytes;", names[n], types[(int)s->type], s->bytes);
        for (int i = 0, from = 0; s->type == 'f' && i * SECTOR < s->bytes && i < SECTORS; i++) {
            bool last = (i + 1) * SECTOR >= s->bytes || i + 1 == SECTORS;
            if (!last && s->tag[i + 1] == s->tag[i] && s->node[i + 1] == s->node[i]) continue;
            bool written = s->tag[i] && s->tag[i] < LEFT;
            printf(" sectors %d to %d %s", from, i, written ? "written by call" : words_of(s, i, NOTHING));
            if (written) printf(" %d", s->tag[i] == BEFORE ? 0 : s->tag[i]);
            from = i + 1;
        }
        printf("\n");
    }
}

static void tell_kernel(void) {
    static char text[1 << 16];
    int n = klogctl(3, text, sizeof text - 1); /* SYSLOG_ACTION_READ_ALL */
    if (n > 0) printf("KERNEL\n%.*s", n, text);
}

/* What the file system makes of the state that the disk is in. first, last: places in the log at which it is left. */
static void judge_state(uint32_t first, uint32_t last) {
    char why[96];
    int done, begun;
    for (int i = 0; i < 2 * FINDINGS; i++) tallies[i / 2][i % 2].here = false;
    calls_at(last, &now_done, &now_begun);
    now_after = now_done == n_calls;
    n_visited++;
    if (p.at != NOT_GIVEN) klogctl(5, NULL, 0); /* SYSLOG_ACTION_CLEAR */
    if (recover(why, sizeof why)) found(MOUNT, promises.fsync, "%s", why);
    else {
        look();
        if (p.at != NOT_GIVEN) tell_seen();
        judge(now_done, now_begun);
        calls_at(first, &done, &begun);
        now_after = done == n_calls;
        if (first != last) judge(done, begun);
        now_after = now_done == n_calls;
        if (full) make_room();
        write_new();
        remove_all();
        unmount_it();
        if (m.checker && (p.at != NOT_GIVEN || n_visited % p.check_every == 0)) {
            int code = shell(m.checker);
            if (code) found(CHECKER, false, "the checker exits with %d", code);
        }
    }
    if (p.at != NOT_GIVEN) tell_kernel();
}

enum { AGAIN = 16 }; /* places at which a recovery is cut, and writes that are then left out: at most so many, evenly */

/* ---- all states -------------------------------------------------------------------------------------------------- */
/* All states that a second cut leaves while the file system recovers from this one. Its own log is the first one's
 * longer by what the recovery writes. */
static void cut_again(const struct state *s) {
    char why[96];
    uint32_t events_before = n_events, fixed = n_picks, own = n_states, own_proposed = n_proposed,
             own_from = from_event;
    struct state outer = *s, *own_states = states;
    tell_disk("resume");
    if (!recover(why, sizeof why)) {
        tell_disk("stop");
        unmount_it();
    } else tell_disk("stop");
    read_log();
    states = NULL;
    room_states = 0;
    open_subsets();
    enumerate(events_before, fixed, AGAIN);
    for (uint32_t i = 0; i < n_states; i++) {
        if (p.again_at != NOT_GIVEN && p.again_at != i) continue;
        now_again = i + 1;
        split(states[i].first);
        pick(states[i].first, states[i].how, states[i].which);
        make_state(picks, n_picks);
        judge_state(outer.first, outer.last);
    }
    char text[32];
    snprintf(text, sizeof text, "forget %u", events_before);
    tell_disk(text);
    free(states);
    n_events = events_before;
    states = own_states;
    room_states = n_states = own;
    n_proposed = own_proposed;
    from_event = own_from;
    n_fixed = now_again = 0;
}

static void save_image(void) {
    char line[32], page[4096];
    FILE *to = fopen(p.image, "we"), *list;
    int disk = open(m.device, O_RDONLY | O_CLOEXEC);
    tell_disk("pages");
    list = fopen(CONTROL, "re");
    if (!to || !list || disk < 0) exit(broken("cannot write %s: %s", p.image, reason(errno)));
    while (fgets(line, sizeof line, list)) {
        uint64_t number = strtoull(line, NULL, 10);
        if (pread(disk, page, sizeof page, (off_t)(number * sizeof page)) != sizeof page)
            exit(broken("cannot read the disk"));
        fwrite(&number, sizeof number, 1, to);
        fwrite(page, sizeof page, 1, to);
    }
    if (fclose(to)) exit(broken("cannot write %s: %s", p.image, reason(errno)));
    fclose(list);
    close(disk);
}

static void tell_state(const struct state *s) {
    for (int q = 1; q <= n_calls; q++)
        printf("CALL %d: %s %s %s %s\n", q, calls[q].word[0], calls[q].word[1], calls[q].word[2], calls[q].word[3]);
    for (uint32_t e = 0; e < n_events; e++) {
        const struct event *v = &events[e];
        if (v->kind == 'm')
            printf(
                "LOG %u: call %llu %s\n", e, (unsigned long long)v->number / 2, v->number % 2 ? "returns" : "begins");
        else if (v->kind == 'f') printf("LOG %u: flush\n", e);
        else
            printf("LOG %u: write of %u sectors at %llu%s\n", e, v->sectors, (unsigned long long)v->number,
                v->fua ? ", at once" : "");
    }
    printf("STATE after %u events (the same until %u), of what was not flushed: %s", s->first, s->last,
        subset_words[s->how]);
    if (s->how > EVERY) printf(", event %u", open_writes[s->which]);
    printf("; on the disk:");
    for (uint32_t i = 0; i < n_picks; i++) {
        bool torn = picks[i].sectors != events[picks[i].event].sectors;
        printf(torn ? " %u (%u sectors)" : " %u", picks[i].event, picks[i].sectors);
    }
    printf("\n");
}

static void explore(void) {
    for (uint32_t i = 0; i < n_states; i++) {
        const struct state *s = &states[i];
        if (p.at != NOT_GIVEN && p.at != i) continue;
        now_at = i;
        split(s->first);
        pick(s->first, s->how, s->which);
        make_state(picks, n_picks);
        if (p.at != NOT_GIVEN) tell_state(s);
        if (p.image) save_image();
        if (p.again_at == NOT_GIVEN) judge_state(s->first, s->last);
        if ((!p.again || i % p.again) && p.again_at == NOT_GIVEN) continue;
        split(s->first);
        pick(s->first, s->how, s->which);
        make_state(picks, n_picks);
        cut_again(s);
        split(s->first);
    }
    if (p.at != NOT_GIVEN && p.at >= n_states)
        exit(broken("the sequence has %u states: --at is at most %u", n_states, n_states - 1));
}

static int remount(void) {
    char why[96];
    unmount_it();
    if (mount_it(why, sizeof why)) exit(broken("it cannot be mounted again, without a cut: %s", why));
    return 0;
}

/* Whether everything is as the calls made it, before any cut. */
static void judge_now(void) {
    now_done = now_begun = n_calls;
    now_after = true;
    for (int i = 0; i < 2 * FINDINGS; i++) tallies[i / 2][i % 2].here = false;
    look();
    for (int n = 0; n < n_names; n++) {
        const char *why = unlike(n, worlds[n_calls].at[n], n_calls);
        if (why) found(WRONG, true, "%s %s", names[n], why);
    }
    if (*odd) found(WRONG, true, "%s", odd);
}

static char failure[64]; /* of the first call that failed */
static int record_call(const char *text) {
    int said = next_call(AS_CALL(text));
    if (said) exit(said);
    struct call *c = &calls[n_calls];
    mark((unsigned)n_calls * 2);
    bool again = !strcmp(c->word[0], "remount");
    int error = MAINTAIN(text) again ? remount() : do_call(c, node_before(c, &worlds[n_calls - 1]), n_calls);
    if (error && !*failure) snprintf(failure, sizeof failure, "%s: %.40s", c->word[0], words_for(error));
    mark((unsigned)n_calls * 2 + 1);
    bool is_short = error == EIO && strstr(c->word[0], "write"); /* what write_bytes says of a short write */
    if (!full || (error != ENOSPC && !is_short)) return error;
    call_failed();
    return 0;
}

static void one_sequence(const char *sequence) {
    /* What is there before is as old for the first sequence as for the last: none begins with its time stamps. */
    static const struct timespec apart = {.tv_sec = 5};
    nanosleep(&apart, NULL);
    uint64_t began = now_ns();
    int names_before = n_names, nodes_before = n_nodes;
    char why[96];
    n_calls = 0;
    n_states = n_proposed = n_visited = now_again = 0;
    memset(tallies, 0, sizeof tallies);
    memset(torn_at, 0, sizeof torn_at);
    *failure = 0;
    tell_disk("record");
    if (mount_it(why, sizeof why)) exit(broken("the base cannot be mounted again: %s", why));
    sync();
    bool possible = !for_calls(sequence, record_call);
    tell_disk("stop");
    if (possible) judge_now();
    unmount_it();
    read_log();
    if (possible) {
        open_subsets();
        enumerate(0, 0, UINT32_MAX);
        explore();
    }
    if (p.at == NOT_GIVEN) report(sequence, failure, began);
    n_names = names_before;
    n_nodes = nodes_before;
}

/* What is there before. An earlier phase of the trial may have made it: then it is only known. */
static int make_before(const char *text) {
    static enum { UNKNOWN, MADE, NEW } there;
    struct call c;
    char room[PATH_MAX];
    if (read_call(text, &c)) return 2;
    if (there == UNKNOWN) there = access(path_of(c.word[1], room), F_OK) ? NEW : MADE;
    struct world *w = &worlds[0];
    int node = node_before(&c, w);
    apply(&c, w, BEFORE);
    int error = there == NEW ? do_call(&c, node, BEFORE) : 0;
    return error ? broken("before: %s: %s", text, reason(error)) : 0;
}

/* As much as a file can have, in pieces that become smaller; written where it cannot be allocated. Returns its end. */
static off_t take_bytes(int fd, off_t at) {
    static const uint8_t zeros[1 << 20];
    bool writes = false;
    for (off_t piece = LARGEST_PIECE; piece >= SMALLEST_PIECE;) {
        if (writes) {
            off_t n = piece < (off_t)sizeof zeros ? piece : (off_t)sizeof zeros;
            ssize_t done = pwrite(fd, zeros, (size_t)n, at);
            at += done > 0 ? done : 0;
            piece = done < n ? n / 2 : piece;
        } else if (!fallocate(fd, 0, at, piece)) at += piece;
        else if (errno == EOPNOTSUPP) writes = true;
        else piece /= 2;
    }
    fsync(fd); /* what it cannot write is not there */
    return at;
}

static int fill_bytes(const char *path) {
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);
    off_t at = 0, before = -1;
    if (fd < 0) return broken("%s cannot be made: %s", path, reason(errno));
    for (; at > before; sync()) { /* what is freed late, or was kept for metadata */
        before = at;
        at = take_bytes(fd, at);
    }
    if (p.room && ftruncate(fd, at > (off_t)p.room ? at - (off_t)p.room : 0))
        return broken("%s cannot be made shorter: %s", path, reason(errno));
    close(fd);
    sync();
    return 0;
}

static int fill_inodes(char *path) {
    if (mkdir(path, 0755)) return broken("%s cannot be made: %s", path, reason(errno));
    int i = 1, error;
    while (i <= MOST_INODES && !(error = create(filler(path, i)))) i++;
    sync();
    if (i > MOST_INODES) return broken("there are more than %d inodes: --full inodes is of no use", MOST_INODES);
    return error == ENOSPC ? 0 : broken("a file cannot be made: %s", reason(error));
}

/* An earlier phase of the trial may have done so. */
static int fill(void) {
    char path[PATH_MAX];
    if (!full || !access(filler(path, 0), F_OK)) return 0;
    return full == FULL_OF_BYTES ? fill_bytes(path) : fill_inodes(path);
}

static int run(void) {
    char *copy = strdup(p.sequences), *rest = copy, *one, why[96], cached[32] = "";
    if (!m.mountpoint || !(m.mount ? m.unmount : m.type && m.options ? m.type : NULL))
        return wrong("--mountpoint, and --type with --options or --mount with --unmount, must be given");
    if (!getcwd(top, sizeof top) || chdir("/")) return broken("the folder cannot be left: %s", reason(errno));
    FILE *f = fopen("/sys/block/crashdisk/queue/write_cache", "re");
    durable = f && fgets(cached, sizeof cached, f) && !strncmp(cached, "write through", 13);
    if (f) fclose(f);
    m.aloud = p.at != NOT_GIVEN;
    int said = for_calls(p.before, make_before);
    if (said) return said;
    sync();
    if ((said = fill())) return said;
    unmount_first();
    while ((one = next_sequence(&rest))) one_sequence(one);
    free(copy);
    tell_disk("plain");
    if (mount_it(why, sizeof why)) return broken("the base cannot be mounted again: %s", why);
    return 0;
}

const struct program program = {PROGRAM_NAME,
    "Every state in which a power cut may leave a disk, and what a file system makes of it.", OPTIONS(options), prepare,
    check, run};
#endif
