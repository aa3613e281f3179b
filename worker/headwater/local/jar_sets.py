"""Which jars make up Kafka, its tools, the Streams yardstick, Avro, the Java compiler, Spark's.

The lock files beside this module are written by ``python -m headwater.local.jar_sets NAME...``
and committed. They hold no address: where jars come from is jgo's configuration, whether they are
the right ones is decided here.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

KAFKA_VERSION = "4.3.1"
SPARK_VERSION = "4.2.0"
_SLF4J = "org.slf4j:slf4j-simple:1.7.36"

# What to ask for; jgo adds the run-time dependencies when a lock is written.
ROOTS: dict[str, tuple[str, ...]] = {
    f"kafka-{KAFKA_VERSION}": (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", _SLF4J),
    f"streams-{KAFKA_VERSION}": (
        f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}",
        _SLF4J,
    ),
    f"tools-{KAFKA_VERSION}": (
        f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
        f"org.apache.kafka:kafka-server-common:{KAFKA_VERSION}",
        "com.fasterxml.jackson.core:jackson-core:2.21.2",
        "com.fasterxml.jackson.core:jackson-annotations:2.21",
        "com.fasterxml.jackson.core:jackson-databind:2.21.2",
        "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.21.2",
        "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2",
        "net.sf.jopt-simple:jopt-simple:5.0.4",
        _SLF4J,
        "org.slf4j:slf4j-api:1.7.36",
    ),
    "ecj-3.42.0": ("org.eclipse.jdt:ecj:3.42.0",),
    "avro-1.12.2": ("org.apache.avro:avro:1.12.2", _SLF4J),
    f"spark-kafka-{SPARK_VERSION}": (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        "org.scala-lang.modules:scala-parallel-collections_2.13:1.2.0",
        "com.google.code.findbugs:jsr305:3.0.2",
    ),
}
# Locked as they are. The registry lacks the token provider that the connector names, and whatever
# else it depends on comes with Spark. Kafka's tools depend on all of Connect.
_WITHOUT_DEPENDENCIES = frozenset({f"spark-kafka-{SPARK_VERSION}", f"tools-{KAFKA_VERSION}"})


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked jar: ``group:artifact:version`` with the SHA-256 of its bytes."""

    coordinates: str
    sha256: str

    @property
    def path(self) -> Path:
        """Place of the jar below the cache's jar directory."""
        group, artifact, version = self.coordinates.split(":")
        return Path(group, artifact, version, f"{artifact}-{version}.jar")


@dataclass(frozen=True, slots=True)
class JarSet:
    """A class path as it was locked.

    Attributes:
        name: ``<what>-<version>``, also the name of the lock file.
        jars: the jars in class-path order.
        digest: identifies this very lock.
    """

    name: str
    jars: tuple[Jar, ...]
    digest: str


KAFKA = f"kafka-{KAFKA_VERSION}"
STREAMS = f"streams-{KAFKA_VERSION}"
TOOLS = f"tools-{KAFKA_VERSION}"
ECJ = "ecj-3.42.0"
AVRO = "avro-1.12.2"
SPARK_KAFKA = f"spark-kafka-{SPARK_VERSION}"


def load(name: str) -> JarSet:
    """Read the committed lock of one jar set."""
    text = resources.files("headwater.local").joinpath("locks", f"{name}.lock.toml").read_bytes()
    jars = tomllib.loads(text.decode())["jars"]
    return JarSet(
        name=name,
        jars=tuple(Jar(coordinates, sha256) for coordinates, sha256 in jars.items()),
        digest=hashlib.sha256(text).hexdigest()[:16],
    )


def write(name: str) -> Path:
    """Resolve the run-time dependencies of a jar set and write its lock; needs the network."""
    import jgo  # noqa: PLC0415 - of the extra `local`, and slow to import
    from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
    from jgo.maven import MavenContext  # noqa: PLC0415

    lines = [
        f"# Written by `python -m headwater.local.jar_sets {name}`; do not edit.",
        f"roots = [{', '.join(repr(root) for root in ROOTS[name])}]".replace("'", '"'),
        "",
        "[jars]",
    ]
    if name in _WITHOUT_DEPENDENCIES:
        context = MavenContext(remote_repos={"central": MAVEN_CENTRAL_URL})
        parts = [root.split(":") for root in ROOTS[name]]
        found = [context.project(g, a).at_version(v).artifact() for g, a, v in parts]
    else:
        found = jgo.resolve("+".join(ROOTS[name]))
    for artifact in found:
        coordinates = f"{artifact.groupId}:{artifact.artifactId}:{artifact.version}"
        sha256 = hashlib.sha256(artifact.resolve().read_bytes()).hexdigest()
        lines.append(f'"{coordinates}" = "{sha256}"')
    target = Path(__file__).parent / "locks" / f"{name}.lock.toml"
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target


if __name__ == "__main__":
    for chosen in sys.argv[1:] or sorted(ROOTS):
        sys.stdout.write(f"{write(chosen)}\n")
