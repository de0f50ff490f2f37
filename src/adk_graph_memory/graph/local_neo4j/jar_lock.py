"""Write the lock file of the runtime jars that Maven resolves for a Neo4j version.

python -m adk_graph_memory.graph.local_neo4j.jar_lock VERSION
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from adk_graph_memory.graph.local_neo4j import jars

# Importing Neo4j's parent POM selects the versions that Neo4j was built with; otherwise Maven picks some older ones.
POM_TEMPLATE = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>lock</groupId><artifactId>lock</artifactId><version>1</version><packaging>pom</packaging>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.neo4j</groupId><artifactId>parent</artifactId><version>{version}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.neo4j</groupId><artifactId>neo4j</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def resolve_jars(version: str, folder: Path) -> None:
    """Let Maven copy the runtime jars of a Neo4j version into ``folder``/jars, in a repository's layout."""
    maven = shutil.which("mvn")
    if not maven:
        sys.exit("A lock is made with Maven, and there is no `mvn` on the PATH: install Maven 3.8 or newer.")
    pom = folder / "pom.xml"
    pom.write_text(POM_TEMPLATE.format(version=version), "utf-8")
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-Dmdep.useRepositoryLayout=true"]
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), *goal, f"-DoutputDirectory={folder}/jars"]
    if code := subprocess.run(command).returncode:
        sys.exit(f"Maven could not resolve org.neo4j:neo4j:{version}; it ended with exit code {code}.")


def read_jar(path: Path, repository: Path) -> jars.Jar:
    """Make the lock's entry for a jar in a Maven repository."""
    *group, artifact, version, _ = path.relative_to(repository).parts
    classifier = path.stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
    data = path.read_bytes()
    return jars.Jar(".".join(group), artifact, version, classifier, len(data), hashlib.sha256(data).hexdigest())


def write_lock(version: str) -> Path:
    """Write the lock file of a full Neo4j version and return its path."""
    with tempfile.TemporaryDirectory() as temporary:
        resolve_jars(version, Path(temporary))
        repository = Path(temporary) / "jars"
        entries = sorted(read_jar(path, repository) for path in repository.rglob("*.jar"))
    rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    lock_path = jars.get_lock_path(version)
    lock_path.write_text(f'{{"neo4j":"{version}","jars":[\n{rows}\n]}}\n', "utf-8")
    return lock_path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m adk_graph_memory.graph.local_neo4j.jar_lock VERSION, for example 2026.08.1")
    print(write_lock(sys.argv[1]))
