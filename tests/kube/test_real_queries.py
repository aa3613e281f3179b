"""Real workers are asked for what their stores hold, through the API server's proxy, by a token."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kube.shell import Shell
from tests.kube.story import APP, Counting, explained, step, until_shared

if TYPE_CHECKING:
    from tests.kube.journey import Installation, Journey
    from tests.kube.kubelet.cluster import Cluster

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.usefixtures("crds"),
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "callers"},
    "stringData": {"token": "s3cret"},
}


def test_kubectl_headwater_reads_state_with_the_token_of_the_secret_and_with_no_other(
    bootstrap_servers: str,
    unique_name: str,
    journey: Journey,
    own_installation: Installation,
    cluster: Cluster,
) -> None:
    if not cluster.has_proxy:
        pytest.skip("the API server's proxy needs a network device: root makes it of /dev/net/tun")
    counting = Counting(bootstrap_servers, unique_name, partitions=4)
    shell = Shell(journey, journey.kubectl.kubeconfig)
    with explained(journey, own_installation.process("first"), cluster):
        with step("two workers that ask for a token"):
            journey.kubectl("create", "--filename=-", stdin=json.dumps(SECRET))
            asks = {"authentication": {"secretRef": {"name": "callers"}, "protects": "All"}}
            journey.apply(counting.app(replicas=2, http=asks))
            until_shared(journey, 2)
            counting.feed([*(f"key-{number}" for number in range(40)), "key-7"])
        with step("each key is found, whichever worker has it"):
            for number in range(8):
                found = shell.document(f"query counts key-{number} --app {APP}")
                assert (found["key"], found["value"]) == (f"key-{number}", 1 + (number == 7))
            shell.run(f"query counts nobody --app {APP}", code=1)
        with step("another token opens nothing"):
            other = own_installation.directory / "other"
            other.write_text("guessed")
            said = shell.run(f"query counts key-7 --app {APP} --token-file {other}", code=2)
            assert "this token is wrong" in said
