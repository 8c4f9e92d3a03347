"""The moment between fork and the program: ``launch.py PARENT SIGNAL LIFELINE UID GID PROGRAM [ARGUMENT]...``.

Run by path and alone (it imports nothing of this package), so it costs 20 ms. It ties the program's life to its
parent's, becomes another user where PostgreSQL needs that, and then replaces itself with the program. Doing this in a
process of its own instead of in ``preexec_fn`` keeps it safe in a parent that has threads.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP = 28, 1 << 2
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522


def main() -> None:
    """Prepare this process and become the program."""
    parent, death_signal, lifeline, uid, gid = (int(word) for word in sys.argv[1:6])
    program = sys.argv[6:]
    if uid >= 0:
        become(uid, gid)
    if lifeline >= 0:
        watch(lifeline, os.getpid(), death_signal)
    else:
        # After the change of user, which clears it; the exec keeps it.
        prctl(PR_SET_PDEATHSIG, death_signal)
        if os.getppid() != parent:  # it died before the kernel knew that we care
            os._exit(1)
    # Python ignores these two, and what is ignored stays so across an exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - the very purpose
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}")


def prctl(*arguments: int) -> None:
    """Call Linux's prctl(2); a refusal is an OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    padded = (*arguments, 0, 0, 0, 0)[:5]
    if libc.prctl(*(ctypes.c_ulong(argument) for argument in padded)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def become(uid: int, gid: int) -> None:
    """Change user for good, but go on reading and writing wherever root may.

    PostgreSQL refuses to run as root, while root's projects and virtual environments often lie below a directory that
    nobody else may enter. Keeping this one capability spares opening those directories to everyone.
    """
    linux = sys.platform == "linux"
    if linux:
        prctl(PR_SET_KEEPCAPS, 1)
        try:
            # initdb asks access(2) for its own program, which ignores an ordinary user's capabilities otherwise.
            prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)
        except OSError:
            pass  # a container without CAP_SETPCAP
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if linux:
        try:
            keep_file_access()
        except OSError:
            pass  # a container without this capability: it works where the paths are open


def keep_file_access() -> None:
    """Reduce the capabilities to CAP_DAC_OVERRIDE and let it survive the exec (capset(2), capabilities(7))."""
    mask = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask, 0, 0, 0)  # effective, permitted, inheritable; then the high words
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE)


def watch(lifeline: int, program: int, death_signal: int) -> None:
    """Leave a process behind that signals the program when the parent's end of the pipe closes.

    It is nobody's child (forked twice), because PostgreSQL minds children that it did not start.
    """
    os.set_inheritable(lifeline, False)
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    while True:
        parent_died = bool(select.select([lifeline], [], [], 1.0)[0])
        try:
            os.kill(program, death_signal if parent_died else 0)
        except ProcessLookupError:
            os._exit(0)
        if parent_died:
            os._exit(0)


if __name__ == "__main__":
    main()
