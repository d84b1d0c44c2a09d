/* engine network: what a network between two hosts does, without a file system.
 *
 * engine network [--check] [--from NETNS] [--to NETNS] [--address A] [--window N] TEST COUNT BYTES
 *   round-trips  COUNT datagrams of BYTES, each answered by one of the same size, one at a time
 *   requests     COUNT requests of 128 bytes over one connection, each answered by BYTES, one at a time
 *   stream       COUNT messages of BYTES over one connection; the receiver answers each by a byte, so that at most
 *                --window of them (default 16) are under way, and times the second half of them
 *
 * NETNS is a file of a network namespace (/run/hosts/c1.net). Without it the caller's own is used, with 127.0.0.1. */
#define _GNU_SOURCE
#include "programs.h"

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
enum { ROUND_TRIPS, REQUESTS, STREAM, TESTS };
static const char *const tests[TESTS] = {"round-trips", "requests", "stream"};

static struct {
    int test;
    uint64_t count, bytes, window;
    const char *from, *to, *address;
    uint8_t buffer[BYTES_MAX];
    struct { uint64_t start, end; } *heard; /* by the receiver of a stream; shared */
} n = {.address = "127.0.0.1", .window = 16};

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
        if ((r = read(fd, n.buffer, bytes)) <= 0) return false;
    return true;
}
static bool write_whole(int fd, uint64_t bytes) {
    for (ssize_t r; bytes; bytes -= (uint64_t)r)
        if ((r = send(fd, n.buffer, bytes, MSG_NOSIGNAL)) <= 0) return false;
    return true;
}

/* The other end; returns its exit code. */
static int answer(int fd) {
    if (n.test == ROUND_TRIPS) {
        struct sockaddr_storage peer;
        for (socklen_t size = sizeof peer;; size = sizeof peer) {
            ssize_t r = recvfrom(fd, n.buffer, sizeof n.buffer, 0, (struct sockaddr *)&peer, &size);
            if (r < 0 || sendto(fd, n.buffer, (size_t)r, 0, (struct sockaddr *)&peer, size) != r) return 1;
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
        return send(fd, n.buffer, n.bytes, 0) == (ssize_t)n.bytes && recv(fd, n.buffer, n.bytes, 0) == (ssize_t)n.bytes;
    return write_whole(fd, REQUEST) && read_whole(fd, n.bytes);
}

static int run(void) {
    int type = n.test == ROUND_TRIPS ? SOCK_DGRAM : SOCK_STREAM, on = 1, code = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)}, any = to;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    if (inet_pton(AF_INET, n.address, &to.sin_addr) != 1) return wrong("network: %s is no IPv4 address", n.address);
    int there = socket_in(n.to, type), here = socket_in(n.from, type);
    const char *where = there < 0 ? n.to : n.from;
    if (there < 0 || here < 0)
        return broken("network: cannot make a socket in %s: %s", where ? where : "this network", strerror(errno));
    n.heard = mmap(NULL, sizeof *n.heard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n.heard == MAP_FAILED) return broken("network: no memory: %s", strerror(errno));
    if (setsockopt(there, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(there, (struct sockaddr *)&any, sizeof any) || (type == SOCK_STREAM && listen(there, 1)))
        return broken("network: cannot listen on port %d: %s", PORT, strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child < 0) return broken("network: cannot start the other end: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? answer(there) : 1);
    }
    uint64_t done = 0, start = 0, end = 0;
    if (setsockopt(here, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        connect(here, (struct sockaddr *)&to, sizeof to) ||
        (type == SOCK_STREAM && setsockopt(here, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)))
        code = broken("network: cannot reach %s: %s", n.address, strerror(errno));
    else if (n.test == STREAM) {
        uint64_t answered = 0;
        for (ssize_t r; answered < n.count; answered += (uint64_t)r) {
            while (done < n.count && done - answered < n.window && write_whole(here, n.bytes)) done++;
            if ((r = read(here, n.buffer, done - answered)) <= 0) break;
        }
        if (answered < n.count)
            code = broken(
                "network: the stream broke off after %llu messages: %s", (unsigned long long)done, strerror(errno));
        start = n.heard->start;
        end = n.heard->end;
        done = n.count - n.count / 2;
    } else {
        for (uint64_t i = 0; i < WARM_UP + n.count && !code; i++) {
            if (i == WARM_UP) start = now_ns(); /* addresses are known, the connection has its pace */
            if (!exchange(here))
                code = broken("network: no answer to message %llu: %s", (unsigned long long)i + 1, strerror(errno));
        }
        end = now_ns();
        done = n.count;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (code) return code;
    sample_put(SAMPLE(.name = tests[n.test], .wall_ns = end - start, .items = done, .bytes = done * n.bytes));
    printf("%s: %llu of %llu bytes in %llu ns\n", tests[n.test], (unsigned long long)done, (unsigned long long)n.bytes,
        (unsigned long long)(end - start));
    return 0;
}

static int network(int argc, char **argv) {
    bool check = false;
    const char *word[3];
    int words = 0;
    for (int i = 1; i < argc; i++) {
        const char **text = !strcmp(argv[i], "--from") ? &n.from
            : !strcmp(argv[i], "--to")                 ? &n.to
            : !strcmp(argv[i], "--address")            ? &n.address
                                                       : NULL;
        bool window = !strcmp(argv[i], "--window");
        if (!strcmp(argv[i], "--check")) check = true;
        else if ((text || window) && i + 1 == argc) return wrong("network: %s needs a value", argv[i]);
        else if (text) *text = argv[++i];
        else if (window) {
            if (!parse_number(argv[++i], &n.window) || !n.window || n.window > 1 << 20)
                return wrong("network: --window must be from 1 to 1M, not %s", argv[i]);
        } else if (argv[i][0] == '-')
            return wrong("network: unknown option %s; known are --from --to --address --window", argv[i]);
        else if (words == 3) return wrong("network: %s is one argument too many", argv[i]);
        else word[words++] = argv[i];
    }
    if (words < 3)
        return wrong("network: usage: network [--from NETNS] [--to NETNS] [--address A] [--window N] TEST COUNT BYTES");
    while (n.test < TESTS && strcmp(word[0], tests[n.test])) n.test++;
    if (n.test == TESTS) return wrong("network: %s is no test; known are round-trips, requests, stream", word[0]);
    uint64_t most = n.test == ROUND_TRIPS ? DATAGRAM_MAX : BYTES_MAX;
    if (!parse_number(word[1], &n.count) || n.count < 2 || n.count > 1 << 30)
        return wrong("network: the count must be from 2 to 1G, not %s", word[1]);
    if (!parse_number(word[2], &n.bytes) || !n.bytes || n.bytes > most)
        return wrong(
            "network: the bytes of %s must be from 1 to %llu, not %s", word[0], (unsigned long long)most, word[2]);
    if (check) {
        printf("{\"bytes\":0,\"names\":0}\n");
        return 0;
    }
    return run();
}

PROGRAM("network", network);
