"""It is uninstalled, and leaves volumes and nothing else."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headwater_operator.spec import custom_resource_definitions
from tests.e2e.site import APP, CRDS, PATIENCE_S, RELEASE, SOURCE
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.e2e.counted import Counted
    from tests.e2e.site import Site


def test_what_is_uninstalled_leaves_volumes_and_nothing_else(site: Site, counted: Counted) -> None:
    counted.until_exact()
    mistakes = [line for line in site.operator_log().splitlines() if " ERROR " in line]
    # As spec.state.retention says when it says nothing, and as the chart's crds.keep.
    # A reset has taken away what lay on the volume of a worker that nobody needed any more.
    claims = {f"persistentvolumeclaim/{APP}-w-{number}-state" for number in range(2)}
    unneeded = f"persistentvolumeclaim/{APP}-w-2-state"
    crd = "customresourcedefinition.apiextensions.k8s.io"
    definitions = {f"{crd}/{name}" for name in custom_resource_definitions()}
    kept = site.before | claims | definitions | {f"configmap/{SOURCE}", unneeded}

    def left() -> set[str]:
        return (site.everything() | site.of_the_cluster()) - kept

    site.kubectl("delete", "streamactions", "--all", f"--timeout={PATIENCE_S}s")
    site.kubectl("delete", "streamapps", "--all", f"--timeout={PATIENCE_S}s")
    site.helm("uninstall", RELEASE, "--wait", f"--timeout={PATIENCE_S}s")
    # What the cluster itself removes follows in its own time.
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not left(), what="the rest to go", timeout_s=180, every_s=2)
    assert left() == set()
    assert site.everything() >= claims
    assert site.of_the_cluster() == definitions

    site.kubectl("delete", "--filename", str(CRDS))
    site.until(lambda: site.of_the_cluster() == set(), "the definitions to go")
    assert mistakes == []
