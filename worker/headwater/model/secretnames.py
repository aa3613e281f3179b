"""Which options hold something secret, by their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headwater.model.streamapp import StreamApp

_SECRET: Final = re.compile(
    r"(?i)secret|password|token|credential|jaas|access[.]?key|private[.]?key|ssl[.]key[.]pem"
    r"|ssl[.]keystore[.]key|user[.]info"
)
_PLACES: Final = (".url", ".location", ".uri")


def is_secret(option: str) -> bool:
    """Whether the value of an option, of Kafka or of Spark, is to be seen by nobody."""
    return _SECRET.search(option.replace("_", ".")) is not None


def written_secrets(app: StreamApp) -> list[str]:
    """Return the options that a StreamApp gives secrets to, for whoever reads it."""
    names = {*app.spec.config, *app.spec.kafka.config, *app.spec.spark.config}
    return sorted(name for name in names if is_secret(name) and not name.endswith(_PLACES))
