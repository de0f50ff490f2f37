"""Manage a server's home folder: its configuration, password, command line and log."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from adk_graph_memory import errors
from adk_graph_memory.local_neo4j import folders, jars
from adk_graph_memory.local_neo4j.java import Java

JVM_FLAGS = (
    "-XX:+UseG1GC",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:+TrustFinalNonStaticFields",
    "-XX:+DisableExplicitGC",
    "-Djdk.nio.maxCachedBufferSize=1024",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.leakDetection.level=DISABLED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--enable-native-access=ALL-UNNAMED",
    "-Dlog4j2.disable.jmx=true",
    "-Dlog4j.layout.jsonTemplate.maxStringLength=32768",
    "-Dfile.encoding=UTF-8",
)

# Neo4j misreads a neo4j.conf that is not ASCII, so no paths stand here; it finds its folders by --home-dir.
BASE_SETTINGS = {
    "server.default_listen_address": "127.0.0.1",
    "server.bolt.listen_address": "127.0.0.1:{port}",
    "server.bolt.advertised_address": "127.0.0.1:{port}",
    "server.http.enabled": "false",
    "server.https.enabled": "false",
    "dbms.usage_report.enabled": "false",
    "server.memory.pagecache.size": "{page_cache}",
    "db.tx_log.preallocate": "false",
    "db.tx_log.rotation.size": "1m",
    "db.tx_log.rotation.retention_policy": "2 files",
}

SECURITY_SETTINGS = {
    "dbms.security.allow_csv_import_from_file_urls": "false",
    "internal.dbms.cypher_ip_blocklist": "0.0.0.0/0,::/0",
    "dbms.security.procedures.allowlist": "db.*,dbms.*",
}
"""Statements cannot read local files or network addresses (LOAD CSV), nor call procedures of plug-ins."""

# Without a quiet period Bolt's listener closes at once, so that a stop takes 0.3 s instead of 10.
SETTINGS_5 = {"internal.dbms.bolt.netty_server_shutdown_quiet_period": "0"}
SETTINGS_2026 = {
    "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration": "0s",
    "db.query.default_language": "CYPHER_25",
    "server.fleet_discovery.enabled": "false",
}

EXIT_STORE_IN_USE = 2
MIN_DISK_SPACE = "50 MB"


def get_log_path(home: Path) -> Path:
    """The path of the latest server's console output."""
    return home / "logs" / "console.log"


def read_log_tail(home: Path) -> str:
    """The last 3,000 characters of the log."""
    return get_log_path(home).read_text("utf-8", errors="replace")[-3_000:]


def is_store_missing(home: Path) -> bool:
    """Whether no server has created a store in this home yet."""
    return not (home / "data" / "databases" / "neo4j").exists()


def is_store_locked(home: Path) -> bool:
    """Whether a server holds the store's lock, tested as Neo4j itself does."""
    import fcntl  # Windows lacks it; filelock's locks do not conflict with Java's

    lock = home / "data" / "databases" / "store_lock"
    if not lock.exists():
        return False
    with lock.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return True
    return False


def is_disk_full(home: Path) -> bool:
    """Whether less than 1 MiB is free; a server may take minutes to report a full disk, or fail to log it."""
    return shutil.disk_usage(home).free < 2**20


def write_private_file(path: Path, text: str) -> None:
    """Write a file that only its owner can read, replacing an older one atomically."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600, exist_ok=False)
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def ensure_password(home: Path) -> str:
    """The password of user neo4j in this home; the first call creates it, for the server to use at its first start."""
    file = home / "password"
    if file.exists():
        return file.read_text("utf-8")
    password = secrets.token_urlsafe(24)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "data" / "dbms").mkdir(parents=True, exist_ok=True)
    write_private_file(home / "data" / "dbms" / "auth.ini", hash_password(password))
    write_private_file(file, password)
    return password


def hash_password(password: str) -> str:
    """Hash a password as `neo4j-admin dbms set-initial-password` does, so that no server has a default password.

    Source: org.neo4j.server.security.SystemGraphCredential, in neo4j-security. If that changes, every login in
    tests/integration/test_local_neo4j.py fails.
    """
    salt = secrets.token_bytes(32)
    digest = salt + password.encode()
    for _ in range(1024):
        digest = hashlib.sha256(digest).digest()
    return f"neo4j:SHA-256,{digest.hex()},{salt.hex()},1024:\n"


def write_configuration(home: Path, *, version: str, port: int, page_cache: str, conf: Mapping[str, str]) -> None:
    """Create the folders and overwrite conf/neo4j.conf; ``conf`` overrides the default settings.

    Raises:
        errors.DiskFull: there is no space for these files.
    """
    defaults = {
        name: value.format(port=port, page_cache=page_cache)
        for name, value in (BASE_SETTINGS | SECURITY_SETTINGS).items()
    }
    settings = defaults | (SETTINGS_5 if jars.is_line_5(version) else SETTINGS_2026) | dict(conf)
    with folders.translate_disk_full(home, needed=MIN_DISK_SPACE):
        ensure_password(home)
        for folder in ("conf", "logs", "import", "plugins", "run"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (home / "conf" / "neo4j.conf").write_text(text, "utf-8")


def make_command(
    home: Path, *, version: str, java: Java, classpath: Sequence[Path], heap: str, jvm_flags: Sequence[str]
) -> list[str]:
    """Write conf/java.args and return the server's command line."""
    flags = [
        *JVM_FLAGS,
        *jvm_flags,
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-classpath",
        f'"{os.pathsep.join(map(str, classpath))}"',
    ]
    if java.version >= 24:
        flags.insert(0, "--sun-misc-unsafe-memory-access=allow")
    with folders.translate_disk_full(home, needed=MIN_DISK_SPACE):
        (home / "conf" / "java.args").write_text("\n".join(flags), "utf-8")
    main_class = "CommunityEntryPoint" if jars.is_line_5(version) else "Neo4jCommunity"
    return [str(java.path), f"@{home}/conf/java.args", f"org.neo4j.server.{main_class}", *make_home_arguments(home)]


def make_home_arguments(home: Path) -> list[str]:
    """The last arguments of the command line, by which the process of this home is found."""
    return [f"--home-dir={home}", f"--config-dir={home}/conf", "--console-mode"]


def diagnose_failure(home: Path, port: int, code: int) -> errors.LocalServerError:
    """Make the error for a server that ended during its start, from its exit code and its log."""
    tail = read_log_tail(home)
    if is_disk_full(home) or "Disk quota exceeded" in tail:
        return errors.DiskFull(home=home, needed=MIN_DISK_SPACE)
    if "BindException" in tail or "Address already in use" in tail:
        return errors.PortTaken(port=port)
    if code == EXIT_STORE_IN_USE or "FileLockException" in tail:
        return errors.StoreInUse(home=home)
    return errors.ServerStartFailed(code=code, log=get_log_path(home), tail=tail)
