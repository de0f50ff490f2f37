"""``python -m adk_graph_memory.local_neo4j.jar_lock VERSION``: locks the runtime jars that Maven resolves for Neo4j."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from adk_graph_memory.local_neo4j import jars

# The import takes the versions that Neo4j was built with; without it, Maven takes older ones of some.
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
    """Have Maven put the runtime jars of a Neo4j version into a folder, in a repository's layout."""
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
    """The line of the lock for a jar in a Maven repository."""
    *group, artifact, version, _ = path.relative_to(repository).parts
    classifier = path.stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
    data = path.read_bytes()
    return jars.Jar(".".join(group), artifact, version, classifier, len(data), hashlib.sha256(data).hexdigest())


def write_lock(version: str) -> Path:
    """Make the lock of a Neo4j version anew."""
    with tempfile.TemporaryDirectory() as temporary:
        resolve_jars(version, Path(temporary))
        repository = Path(temporary) / "jars"
        found = sorted(read_jar(path, repository) for path in repository.rglob("*.jar"))
    rows = ",\n".join(json.dumps(jar, separators=(",", ":")) for jar in found)
    path = jars.get_lock_path(version)
    path.write_text(f'{{"neo4j":"{version}","jars":[\n{rows}\n]}}\n', "utf-8")
    return path


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m adk_graph_memory.local_neo4j.jar_lock VERSION, for example 2026.08.1")
    print(write_lock(sys.argv[1]))
