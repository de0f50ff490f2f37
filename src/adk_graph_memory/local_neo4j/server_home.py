"""One server's folder: options go in; its configuration, its password, its command and its last words come out."""

from __future__ import annotations

import fcntl
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

# No paths: Neo4j finds its folders in --home-dir, but garbles a neo4j.conf that is not ASCII.
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
}

SECURITY_SETTINGS = {
    "dbms.security.allow_csv_import_from_file_urls": "false",
    "internal.dbms.cypher_ip_blocklist": "0.0.0.0/0,::/0",
    "dbms.security.procedures.allowlist": "db.*,dbms.*",
}
"""No statement reads a file of this machine or an address of a network (LOAD CSV), and no plug-in is called."""

# Without its quiet period Bolt's listener closes at once: a stop takes 0.3 s instead of 10.
SETTINGS_5 = {"internal.dbms.bolt.netty_server_shutdown_quiet_period": "0"}
SETTINGS_2026 = {
    "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration": "0s",
    "db.query.default_language": "CYPHER_25",
    "server.fleet_discovery.enabled": "false",
}

EXIT_STORE_IN_USE = 2
MIN_DISK_SPACE = "50 MB"


def get_log_path(home: Path) -> Path:
    """What the server last started in this home has printed."""
    return home / "logs" / "console.log"


def read_log_tail(home: Path) -> str:
    """The end of that."""
    return get_log_path(home).read_text("utf-8", errors="replace")[-3_000:]


def is_store_missing(home: Path) -> bool:
    """Whether no server has made a store in this home yet."""
    return not (home / "data" / "databases" / "neo4j").exists()


def is_store_locked(home: Path) -> bool:
    """Whether a server holds the store's lock, asked as Neo4j itself does."""
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
    """Whether there is no space left; a server may take minutes to say so, or have no room to say it."""
    return shutil.disk_usage(home).free < 2**20


def write_private_file(path: Path, text: str) -> None:
    """Put text into a file that nobody else can read at any moment, replacing an older one in one step."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    part.touch(mode=0o600, exist_ok=False)
    part.write_text(text, "utf-8")
    part.replace(path)


def ensure_password(home: Path) -> str:
    """The password of user neo4j in this home; the first call makes one and leaves it for the store to come."""
    kept = home / "password"
    if kept.exists():
        return kept.read_text("utf-8")
    made = secrets.token_urlsafe(24)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "data" / "dbms").mkdir(parents=True, exist_ok=True)
    write_private_file(home / "data" / "dbms" / "auth.ini", hash_password(made))
    write_private_file(kept, made)
    return made


def hash_password(password: str) -> str:
    """What `neo4j-admin dbms set-initial-password` writes, so that no server ever listens with a default password.

    Source: org.neo4j.server.security.SystemGraphCredential, in neo4j-security. Should it change, no server of
    tests/integration/test_local_neo4j.py lets anybody in.
    """
    salt = secrets.token_bytes(32)
    digest = salt + password.encode()
    for _ in range(1024):
        digest = hashlib.sha256(digest).digest()
    return f"neo4j:SHA-256,{digest.hex()},{salt.hex()},1024:\n"


def write_configuration(home: Path, *, version: str, port: int, page_cache: str, conf: Mapping[str, str]) -> None:
    """Make the folders and write conf/neo4j.conf anew; where `conf` names a setting of ours, it wins.

    Raises:
        errors.DiskFull: there is no room even for that.
    """
    ours = {
        name: value.format(port=port, page_cache=page_cache)
        for name, value in (BASE_SETTINGS | SECURITY_SETTINGS).items()
    }
    lines = ours | (SETTINGS_5 if jars.is_line_5(version) else SETTINGS_2026) | dict(conf)
    with folders.translate_disk_full(home, needed=MIN_DISK_SPACE):
        ensure_password(home)
        for folder in ("conf", "logs", "import", "plugins", "run"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        (home / "conf" / "neo4j.conf").write_text(text, "utf-8")


def make_command(home: Path, *, version: str, java: Java, classpath: Sequence[Path], heap: str) -> list[str]:
    """The server's command line."""
    flags = [*JVM_FLAGS, f"-Xms{heap}", f"-Xmx{heap}", "-classpath", f'"{os.pathsep.join(map(str, classpath))}"']
    if java.version >= 24:
        flags.insert(0, "--sun-misc-unsafe-memory-access=allow")
    with folders.translate_disk_full(home, needed=MIN_DISK_SPACE):
        (home / "conf" / "java.args").write_text("\n".join(flags), "utf-8")
    main = "CommunityEntryPoint" if jars.is_line_5(version) else "Neo4jCommunity"
    return [str(java.path), f"@{home}/conf/java.args", f"org.neo4j.server.{main}", *make_home_arguments(home)]


def make_home_arguments(home: Path) -> list[str]:
    """The end of the command line; no server of another home has the same."""
    return [f"--home-dir={home}", f"--config-dir={home}/conf", "--console-mode"]


def diagnose_failure(home: Path, port: int, code: int) -> errors.LocalServerError:
    """Why the server in this home ended while it was starting, by its exit code and its last words."""
    said = read_log_tail(home)
    if is_disk_full(home) or "Disk quota exceeded" in said:
        return errors.DiskFull(home=home, needed=MIN_DISK_SPACE)
    if "BindException" in said or "Address already in use" in said:
        return errors.PortTaken(port=port)
    if code == EXIT_STORE_IN_USE or "FileLockException" in said:
        return errors.StoreInUse(home=home)
    return errors.ServerStartFailed(code=code, log=get_log_path(home), tail=said)
