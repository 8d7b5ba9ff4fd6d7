"""Locks of bytes, of processes and of open files: one path on two mounts, as two machines have it."""
import errno, fcntl, os, struct, sys

here, there = (os.open(path, os.O_RDWR) for path in sys.argv[1:3])


KINDS = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}


def wanted(kind, first, count):
    # struct flock of 64-bit Linux.
    return struct.pack("hhqqi4x", KINDS[kind], os.SEEK_SET, first, count, 0)


def process_lock(file, kind, first, count):
    fcntl.fcntl(file, fcntl.F_SETLK, wanted(kind, first, count))


def file_lock(file, kind, first, count):
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, wanted(kind, first, count))


def refused(lock, *arguments):
    try:
        lock(*arguments)
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.EACCES), error
        return
    raise AssertionError(f"{lock.__name__}{arguments} was given")


for lock in (process_lock, file_lock):
    lock(here, fcntl.LOCK_EX, 0, 10)
    refused(lock, there, fcntl.LOCK_EX, 5, 10)
    refused(lock, there, fcntl.LOCK_SH, 9, 1)
    lock(there, fcntl.LOCK_EX, 10, 10)
    refused(lock, here, fcntl.LOCK_SH, 0, 0)
    # Without its middle it is two.
    lock(here, fcntl.LOCK_UN, 4, 2)
    lock(there, fcntl.LOCK_EX, 4, 2)
    refused(lock, there, fcntl.LOCK_EX, 3, 1)
    refused(lock, there, fcntl.LOCK_EX, 6, 1)
    # Several read.
    lock(here, fcntl.LOCK_SH, 100, 10)
    lock(there, fcntl.LOCK_SH, 105, 10)
    refused(lock, there, fcntl.LOCK_EX, 105, 10)
    # Those of flock(2) are of the whole file, and keep out those of bytes on other machines.
    refused(fcntl.flock, there, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for file in (here, there):
        lock(file, fcntl.LOCK_UN, 0, 0)
    fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
    refused(lock, there, fcntl.LOCK_EX, 0, 1)
    fcntl.flock(here, fcntl.LOCK_UN)
