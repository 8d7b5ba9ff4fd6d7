// Preloaded into fsx: every file it opens for writing is opened with O_DIRECT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    if ((flags & O_ACCMODE) == O_RDWR) {
        flags |= O_DIRECT;
    }
    return next(path, flags, mode);
}
