"""A server's process: a command goes in, a process that ends with us (or outlives us, if asked) comes out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

# Asks Linux for SIGTERM at the parent's end, ends if that was too late, becomes the command. It is a program of its
# own because preexec_fn, the other way to run this in the child, can deadlock beside threads.
LAUNCHER_CODE = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(143)
os.execv(sys.argv[2], sys.argv[2:])
"""


class ServerProcess:
    """A command that runs in a session of its own, with its output in a file.

    To Linux the parent of a process is the thread that forked it: so here a thread does, and waits for its end.

    Args:
        command: The program, with its whole path, and its arguments.
        log: Replaced by what it prints.
        outlive: Leave it running when this process ends; else it ends too (on Linux, however this process ends).
    """

    def __init__(self, command: Sequence[str], log: Path, *, outlive: bool = False) -> None:
        tied = [sys.executable, "-I", "-S", "-c", LAUNCHER_CODE, str(os.getpid())]
        self._command = list(command) if outlive else [*tied, *command]
        self._log = log
        self._pid: Future[int] = Future()
        self._exit_code: Future[int] = Future()
        threading.Thread(target=self._spawn_and_wait, name="local-neo4j", daemon=True).start()
        self.pid = self._pid.result()

    def _spawn_and_wait(self) -> None:
        try:
            with self._log.open("wb") as log:
                popen = subprocess.Popen(
                    self._command,
                    cwd=self._log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._pid.set_exception(error)
            return
        self._pid.set_result(popen.pid)
        self._exit_code.set_result(popen.wait())

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._exit_code.result() if self._exit_code.done() else None

    def signal_and_wait(self, signal: int, seconds: float) -> int:
        """Send a signal and wait for the exit code.

        Raises:
            TimeoutError: it still runs.
        """
        if not self._exit_code.done():
            with suppress(ProcessLookupError):  # it may end by itself at this very moment
                os.kill(self.pid, signal)
        return self._exit_code.result(seconds)


def find_process(arguments: Sequence[str]) -> int | None:
    """The id of this user's process whose command line ends with these arguments."""
    ending = " ".join(arguments)
    return next((pid for pid, line in _list_command_lines() if line.endswith(ending)), None)


def _list_command_lines() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self/cmdline").exists():
        told = subprocess.run(["ps", "-xww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        for line in told.stdout.splitlines():
            pid, _, command = line.strip().partition(" ")
            yield int(pid), command.strip()
        return
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid == os.getuid():
                line = (folder / "cmdline").read_text("utf-8", errors="replace")
                yield int(folder.name), line.rstrip("\0").replace("\0", " ")
        except OSError:
            continue
