"""What the operator's image starts where pods are processes.

A pod's token lies in a directory of its own on this machine, and not where every pod has it. So the
kubeconfig that is made of it is named to the operator; everything else it is told by the chart.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from tests.kube.kubeconfig import kubeconfig, write_kubeconfig
from tests.kube.kubelet.cluster import python_image
from tests.kube.kubelet.environment import Image

_TOKEN_DIR: Final = "OPERATOR_TOKEN_DIR"
_MOUNTED_AT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def image() -> Image:
    """The image."""
    return Image(
        command=[sys.executable, "-m", __name__],
        # As Dockerfile.operator says it.
        environment={**python_image().environment, "USER": "headwater"},
    )


def variables() -> list[dict[str, Any]]:
    """What the chart's ``extraEnv`` has to be so that pods are told apart on one machine."""
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    return [
        {"name": "HEADWATER_HTTP_HOST", "valueFrom": address},
        {"name": _TOKEN_DIR, "value": _MOUNTED_AT},
    ]


def main() -> None:
    """Become the operator."""
    account = Path(os.environ[_TOKEN_DIR])
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    token = (account / "token").read_text(encoding="ascii")
    document = kubeconfig(f"https://{host}:{port}", account / "ca.crt", token=token)
    path = write_kubeconfig(Path.cwd() / "operator.kubeconfig", document)
    command = [sys.executable, "-m", "headwater_operator", *sys.argv[1:]]
    os.execv(sys.executable, [*command, f"--kubeconfig={path}"])


if __name__ == "__main__":
    main()
