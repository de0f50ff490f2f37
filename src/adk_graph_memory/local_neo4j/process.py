"""Run a server as a child process that ends with this process, unless it shall outlive it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from adk_graph_memory import errors

# Ask Linux for SIGTERM when the parent ends, exit if it has ended already, then exec the command. This is a separate
# program because preexec_fn, the other way to run code in the child, can deadlock in a process with threads.
LAUNCHER_CODE = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(143)
os.execv(sys.argv[2], sys.argv[2:])
"""


def check_platform() -> None:
    """Refuse Windows, where a server could be neither tied to its parent process nor stopped gently.

    Raises:
        errors.UnsupportedPlatform: this is Windows.
    """
    if sys.platform == "win32":
        raise errors.UnsupportedPlatform(platform="Windows")


class ServerProcess:
    """A command that runs in its own session, with its output in a file.

    Linux regards the thread that forked a process as its parent, so a thread of its own forks it and waits for its end.

    Args:
        command: The program's absolute path and its arguments.
        log: The file for its output, which is overwritten.
        outlive: Leave it running when this process ends; else it ends too (on Linux, however this process ends).
    """

    def __init__(self, command: Sequence[str], log: Path, *, outlive: bool = False) -> None:
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER_CODE, str(os.getpid())]
        self._command = list(command) if outlive else [*launcher, *command]
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
            with suppress(ProcessLookupError):  # it may have ended just now
                os.kill(self.pid, signal)
        return self._exit_code.result(seconds)


def find_process(arguments: Sequence[str]) -> int | None:
    """Find this user's process whose command line ends with these arguments; return its id.

    Raises:
        errors.UnsupportedPlatform: this is Windows.
    """
    check_platform()
    ending = " ".join(arguments)
    return next((pid for pid, line in _list_command_lines() if line.endswith(ending)), None)


def _list_command_lines() -> Iterator[tuple[int, str]]:
    if not Path("/proc/self/cmdline").exists():
        ps = subprocess.run(["ps", "-xww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        for line in ps.stdout.splitlines():
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
