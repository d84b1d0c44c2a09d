/* What a network between two hosts does, without a file system.
 *
 *   round-trips  COUNT datagrams of BYTES, each answered by one of the same size, one at a time
 *   requests     COUNT requests of 128 bytes over one connection, each answered by BYTES, one at a time
 *   stream       COUNT messages of BYTES over one connection; the receiver answers each by a byte, so that at most
 *                --window of them are under way, and times the second half of them
 *
 * --from and --to are files of network namespaces (/run/hosts/c1.net). Without them the caller's own is used, with
 * 127.0.0.1. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 7000, REQUEST = 128, WARM_UP = 16, BYTES_MAX = 1 << 20, DATAGRAM_MAX = 1400, PATIENCE_S = 30 };
enum { ROUND_TRIPS, REQUESTS, STREAM };
static const char *const tests[] = {"round-trips", "requests", "stream", NULL};

static struct {
    unsigned test;
    uint64_t count, bytes, window;
    const char *from, *to, *address;
    struct { uint64_t start, end; } *heard; /* by the receiver of a stream; shared */
} n = {.address = "127.0.0.1", .window = 16};
static uint8_t buffer[BYTES_MAX];

static const struct option options[] = {
    WORD("--from", n.from, "network namespace of the sender"),
    WORD("--to", n.to, "network namespace of the receiver"),
    WORD("--address", n.address, "of the receiver"),
    NUMBER("--window", n.window, 0, UINT64_MAX, "messages of a stream under way at most"),
    CHOICE("test", n.test, tests, "what is tested"),
    NUMBER("count", n.count, 0, UINT64_MAX, "messages"),
    NUMBER("bytes", n.bytes, 0, UINT64_MAX, "of a message or an answer"),
};

static int prepare(void) {
    uint64_t most = n.test == ROUND_TRIPS ? DATAGRAM_MAX : BYTES_MAX;
    if (!n.window || n.window > 1 << 20)
        return wrong("--window must be from 1 to 1M, not %llu", (unsigned long long)n.window);
    if (n.count < 2 || n.count > 1 << 30)
        return wrong("the count must be from 2 to 1G, not %llu", (unsigned long long)n.count);
    if (!n.bytes || n.bytes > most)
        return wrong("the bytes of %s must be from 1 to %llu, not %llu", tests[n.test], (unsigned long long)most,
            (unsigned long long)n.bytes);
    return 0;
}

static int check(void) { return needs(0, 0); }

/* A socket belongs to the namespace in which it was made, whoever uses it. */
static int socket_in(const char *netns, int type) {
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = -1, made = -1;
    if (here >= 0 && netns && (there = open(netns, O_RDONLY | O_CLOEXEC)) < 0) goto done;
    if (there >= 0 && setns(there, CLONE_NEWNET)) goto done;
    made = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (there >= 0 && setns(here, CLONE_NEWNET)) made = -1;
done:;
    int error = errno;
    if (here >= 0) close(here);
    if (there >= 0) close(there);
    errno = error;
    return made;
}

static bool read_whole(int fd, uint64_t bytes) {
    for (ssize_t r; bytes; bytes -= (uint64_t)r)
        if ((r = read(fd, buffer, bytes)) <= 0) return false;
    return true;
}
static bool write_whole(int fd, uint64_t bytes) {
    for (ssize_t r; bytes; bytes -= (uint64_t)r)
        if ((r = send(fd, buffer, bytes, MSG_NOSIGNAL)) <= 0) return false;
    return true;
}

/* The other end; returns its exit code. */
static int answer(int fd) {
    if (n.test == ROUND_TRIPS) {
        struct sockaddr_storage peer;
        for (socklen_t size = sizeof peer;; size = sizeof peer) {
            ssize_t r = recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &size);
            if (r < 0 || sendto(fd, buffer, (size_t)r, 0, (struct sockaddr *)&peer, size) != r) return 1;
        }
    }
    int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC), on = 1;
    if (one < 0 || setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) return 1;
    if (n.test == REQUESTS) {
        while (read_whole(one, REQUEST))
            if (!write_whole(one, n.bytes)) return 1;
        return 0;
    }
    for (uint64_t i = 0; i < n.count; i++) {
        if (i == n.count / 2) n.heard->start = now_ns();
        if (!read_whole(one, n.bytes)) return 1;
        n.heard->end = now_ns(); /* before the sender can know */
        if (!write_whole(one, 1)) return 1;
    }
    return read_whole(one, 1) ? 1 : 0; /* until the sender has every answer */
}

static bool exchange(int fd) {
    if (n.test == ROUND_TRIPS)
        return send(fd, buffer, n.bytes, 0) == (ssize_t)n.bytes && recv(fd, buffer, n.bytes, 0) == (ssize_t)n.bytes;
    return write_whole(fd, REQUEST) && read_whole(fd, n.bytes);
}

/* The two ends: where messages come from, and where the other end, a process of its own, waits for them. */
struct ends { int here, there; };

static int open_ends(struct ends *e, int type) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int on = 1;
    e->there = socket_in(n.to, type), e->here = socket_in(n.from, type);
    const char *where = e->there < 0 ? n.to : n.from;
    if (e->there < 0 || e->here < 0)
        return broken("cannot make a socket in %s: %s", where ? where : "this network", strerror(errno));
    if (setsockopt(e->there, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(e->there, (struct sockaddr *)&any, sizeof any) || (type == SOCK_STREAM && listen(e->there, 1)))
        return broken("cannot listen on port %d: %s", PORT, strerror(errno));
    return 0;
}

static int reach(int here, int type, const struct sockaddr_in *to) {
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int on = 1;
    if (setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        connect(here, (const struct sockaddr *)to, sizeof *to) ||
        (type == SOCK_STREAM && setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)))
        return broken("cannot reach %s: %s", n.address, strerror(errno));
    return 0;
}

/* What was measured: `done` messages between two readings of the clock. */
struct measured { uint64_t done, start, end; };

static int send_stream(int here, struct measured *m) {
    uint64_t sent = 0, answered = 0;
    for (ssize_t r; answered < n.count; answered += (uint64_t)r) {
        while (sent < n.count && sent - answered < n.window && write_whole(here, n.bytes)) sent++;
        if ((r = read(here, buffer, sent - answered)) <= 0) break;
    }
    if (answered < n.count)
        return broken("the stream broke off after %llu messages: %s", (unsigned long long)sent, strerror(errno));
    *m = (struct measured){n.count - n.count / 2, n.heard->start, n.heard->end};
    return 0;
}

static int exchange_all(int here, struct measured *m) {
    for (uint64_t i = 0; i < WARM_UP + n.count; i++) {
        if (i == WARM_UP) m->start = now_ns(); /* addresses are known, the connection has its pace */
        if (!exchange(here)) return broken("no answer to message %llu: %s", (unsigned long long)i + 1, strerror(errno));
    }
    m->end = now_ns();
    m->done = n.count;
    return 0;
}

static int run(void) {
    int type = n.test == ROUND_TRIPS ? SOCK_DGRAM : SOCK_STREAM;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct ends e;
    struct measured m = {0};
    if (inet_pton(AF_INET, n.address, &to.sin_addr) != 1) return wrong("%s is no IPv4 address", n.address);
    n.heard = mmap(NULL, sizeof *n.heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n.heard == MAP_FAILED) return broken("no memory: %s", strerror(errno));
    int code = open_ends(&e, type);
    if (code) return code;
    pid_t parent = getpid(), child = fork();
    if (child < 0) return broken("cannot start the other end: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? answer(e.there) : 1);
    }
    code = reach(e.here, type, &to);
    if (!code) code = n.test == STREAM ? send_stream(e.here, &m) : exchange_all(e.here, &m);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (code) return code;
    uint64_t wall = m.end - m.start;
    sample_put(SAMPLE(.name = tests[n.test], .wall_ns = wall, .items = m.done, .bytes = m.done * n.bytes));
    printf("%s: %llu of %llu bytes in %llu ns\n", tests[n.test], (unsigned long long)m.done,
        (unsigned long long)n.bytes, (unsigned long long)wall);
    return 0;
}

const struct program program = {
    "network", "Messages between two hosts, without a file system.", OPTIONS(options), prepare, check, run};
