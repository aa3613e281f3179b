"""The StreamImageCatalog: worker images by version, in one place for many StreamApps.

    kind: StreamImageCatalog                   kind: StreamApp
    metadata: {name: shop}                     spec:
    spec:                                        imageCatalogRef: {name: shop, version: "1.4"}
      images:
      - {version: "1.4", image: registry.example.com/shop:1.4.2}

As the ImageCatalog of CloudNativePG: a StreamApp names a version, and whoever publishes images says
what that means today.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.errors import SpecError
from headwater.model.codec import decode
from headwater.model.fields import meta
from headwater.model.streamapp_kafka import NAME_MEANING, NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = meta(
    pattern="[A-Za-z0-9]([-A-Za-z0-9_.+]*[A-Za-z0-9])?",
    meaning="a version: letters, digits, '.', '-', '_' and '+'",
    max_length=63,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCatalogRef:
    """A version of a StreamImageCatalog in the StreamApp's namespace.

    Attributes:
        name: the StreamImageCatalog.
        version: which of its images; in quotes if it looks like a number.
    """

    name: str = field(metadata=meta(pattern=NAME_PATTERN, meaning=NAME_MEANING, max_length=253))
    version: str = field(metadata=_VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogImage:
    """What a version stands for.

    Attributes:
        version: by which StreamApps name it.
        image: the worker image, with a tag or digest.
    """

    version: str = field(metadata=_VERSION)
    image: str = field(metadata=meta(pattern="[!-~]+", meaning="an image"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamImageCatalogSpec:
    """The images there are.

    Attributes:
        images: each version with its image. If you change the image of a version, the StreamApps
            that name it are rolled out.
    """

    images: tuple[CatalogImage, ...] = field(metadata=meta(keys=("version",), max_items=100))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamImageCatalog:
    """Worker images by version, for the StreamApps of a namespace."""

    name: str
    spec: StreamImageCatalogSpec


def image_of(reference: ImageCatalogRef, manifest: Mapping[str, Any] | None) -> str:
    """Return the image that a StreamApp asks for.

    Args:
        reference: what it names.
        manifest: the StreamImageCatalog as it is stored; ``None`` if there is none.

    Raises:
        SpecError: there is no such catalogue or version; the message says which there are.
    """
    if manifest is None:
        raise SpecError(
            f"spec.imageCatalogRef: there is no StreamImageCatalog {reference.name!r} in this "
            "namespace; create it, or correct the reference"
        )
    spec = decode(
        StreamImageCatalogSpec,
        manifest.get("spec") or {},
        path=f"StreamImageCatalog {reference.name}: spec",
        strict=False,
    )
    found = {each.version: each.image for each in spec.images}
    if reference.version not in found:
        known = ", ".join(found) or "none"
        raise SpecError(
            f"spec.imageCatalogRef: StreamImageCatalog {reference.name!r} has no version "
            f"{reference.version!r}; it has: {known}. Add it there, or name another one"
        )
    return found[reference.version]
