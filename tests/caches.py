"""`make caches`: fills the caches that tests read, and says what it fetches.

    python -m tests.caches [--all] [--kube-node FOLDER]

Kafka's jars, Java Kafka Streams, the Java compiler, Avro, a schema registry, Spark's Kafka
connector and the compiled programs of ``tests/java`` always; with ``--all`` the Kubernetes
programs, a browser and Prometheus, too; with a tool that runs a real node also what its images are
made of. What is there is not fetched again. This is the only step that fetches: a test that would
has an error that names it (``NO_FETCH``).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import LocalKafkaError
from headwater.local import class_data, jar_sets, jars
from headwater.local.java import find_java
from tests import debian
from tests.java import registry
from tests.java.tool import JavaTool
from tests.support import spark_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[1]
COMMAND = "make caches"
NO_FETCH = {
    jars.NO_FETCH_VARIABLE: COMMAND,
    "PIP_NO_INDEX": "1",
    "GOPROXY": "off",
}
"""The environment of a test: nothing in it reaches a registry by its ordinary client."""
JAR_SETS = (
    jar_sets.KAFKA,
    jar_sets.STREAMS,
    jar_sets.TOOLS,
    jar_sets.ECJ,
    jar_sets.AVRO,
    jar_sets.SPARK_KAFKA,
)
JAVA_SOURCES = {
    ROOT / "tests" / "java" / "oracle": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "apps": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "serdes": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "mock": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "metrics": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "api": jar_sets.STREAMS,
    ROOT / "tests" / "java" / "avro": jar_sets.AVRO,
    ROOT / "tests" / "java" / "tools": jar_sets.TOOLS,
}
"""Directories of Java programs, with the jars that each is compiled with."""


def fill() -> None:
    """Fetch what needs only Java, and compile the programs of ``tests/java``.

    Raises:
        LocalKafkaError: there is no Java, or a jar cannot be fetched.
    """
    found = jars.class_path(*JAR_SETS)
    class_data.prepare()
    java = find_java()
    registry.prepare()
    classes = [JavaTool(one, jar_set=needed).compile() for one, needed in JAVA_SOURCES.items()]
    spark_classes.write()
    print(
        f"{len(found)} jars are in {jars.store()}, the compiled programs of the tests in "
        f"{classes[0].parent}; Java is {java}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the caches; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--all", action="store_true", help="the Kubernetes programs, too")
    parser.add_argument(
        "--kube-node", default="", metavar="FOLDER", help="a tool that runs a node (tests.e2e.node)"
    )
    known = parser.parse_args(arguments)
    for name in NO_FETCH:  # of a test that calls this: here things are fetched
        os.environ.pop(name, None)
    try:
        fill()
    except LocalKafkaError as error:
        print(f"{COMMAND}: {error}", file=sys.stderr)
        return 1
    if not known.all:
        return 0
    if (status := debian.main()) != 0:
        return status
    from tests.e2e import node
    from tests.kube import build
    from tests.kube.programs import OF_A_NODE, PRODUCTS

    status = build.main([*PRODUCTS, OF_A_NODE] if known.kube_node else PRODUCTS)
    if status == 0:
        versions = ", ".join(product.label for product in PRODUCTS)
        print(f"the Kubernetes programs of the tests are there: {versions}")
    if status == 0 and known.kube_node:
        return node.prepare(Path(known.kube_node))
    return status


if __name__ == "__main__":
    sys.exit(main())
