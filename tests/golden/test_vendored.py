"""The page's libraries are what was locked, with their licences, and nothing else is there."""

from __future__ import annotations

import json

from tests.golden import vendored


def test_vendored_files_are_the_ones_that_were_locked() -> None:
    found = {
        path.name: vendored.digest(path.read_bytes())
        for path in vendored.VENDOR.iterdir()
        if path != vendored.CHECKSUMS
    }

    assert found == json.loads(vendored.CHECKSUMS.read_text())


def test_every_package_has_its_licence_and_all_of_its_files_are_there() -> None:
    names = {name for package in vendored.PACKAGES for name in package.files}

    assert names == set(json.loads(vendored.CHECKSUMS.read_text()))
    for package in vendored.PACKAGES:
        licences = [name for name in package.files if name.endswith(".LICENSE.txt")]
        assert len(licences) == 1, package.name
        assert "opyright" in (vendored.VENDOR / licences[0]).read_text()
