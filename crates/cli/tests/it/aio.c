/* Asynchronous direct writes beside readers through the page cache: `aio FILE ROUNDS`.
 *
 * When io_getevents says that a write is done, read(2) and a mapping must show it. Exits with 1 and says what was old.
 * The system calls are made without libaio, which need not be installed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 32
#define BYTES (PAGE * PAGES)

static volatile int done;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static void *read_all_the_time(void *path) {
    int file = open(path, O_RDONLY);
    if (file < 0) fail("open to read");
    char *bytes = malloc(BYTES);
    while (!done) {
        for (int page = 0; page < PAGES; page++)
            if (pread(file, bytes, PAGE, (off_t)page * PAGE) < 0) fail("pread");
    }
    close(file);
    return 0;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    char *path = arguments[1];
    int rounds = atoi(arguments[2]);
    int cached = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    int direct = open(path, O_RDWR | O_DIRECT);
    if (cached < 0 || direct < 0) fail("open");
    char *buffer, *seen = malloc(BYTES);
    if (posix_memalign((void **)&buffer, PAGE, BYTES)) return 2;
    memset(buffer, 0, BYTES);
    if (pwrite(cached, buffer, BYTES, 0) != BYTES) fail("pwrite");
    volatile char *map = mmap(0, BYTES, PROT_READ, MAP_SHARED, cached, 0);
    if (map == MAP_FAILED) fail("mmap");
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, PAGES, &context) < 0) fail("io_setup");
    pthread_t readers[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&readers[i], 0, read_all_the_time, path)) return 2;
    int stale = 0;
    for (int round = 1; round <= rounds && !stale; round++) {
        memset(buffer, round & 127, BYTES);
        struct iocb requests[PAGES], *all[PAGES];
        memset(requests, 0, sizeof requests);
        for (int page = 0; page < PAGES; page++) {
            requests[page].aio_fildes = direct;
            requests[page].aio_lio_opcode = IOCB_CMD_PWRITE;
            requests[page].aio_buf = (unsigned long)(buffer + (size_t)page * PAGE);
            requests[page].aio_nbytes = PAGE;
            requests[page].aio_offset = (long long)page * PAGE;
            all[page] = &requests[page];
        }
        for (int sent = 0; sent < PAGES;) {
            long more = syscall(SYS_io_submit, context, PAGES - sent, all + sent);
            if (more < 0) fail("io_submit");
            sent += more;
        }
        struct io_event events[PAGES];
        for (int got = 0; got < PAGES;) {
            long more = syscall(SYS_io_getevents, context, 1, PAGES - got, events, 0);
            if (more < 0) fail("io_getevents");
            for (int i = 0; i < more; i++)
                if (events[i].res != PAGE) {
                    fprintf(stderr, "a write of %d bytes gave %lld\n", PAGE, (long long)events[i].res);
                    exit(2);
                }
            got += more;
        }
        if (pread(cached, seen, BYTES, 0) != BYTES) fail("pread");
        for (int page = 0; page < PAGES; page++) {
            char read = seen[page * PAGE], mapped = map[page * PAGE], wanted = round & 127;
            if (read != wanted || mapped != wanted) {
                fprintf(stderr, "round %d, page %d: read %d, mapped %d\n", round, page, read, mapped);
                stale = 1;
            }
        }
    }
    done = 1;
    for (int i = 0; i < 3; i++) pthread_join(readers[i], 0);
    return stale;
}
