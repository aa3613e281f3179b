"""What an application may set of its RocksDB databases: ``rocksdb.config.setter``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class RocksDBConfigSetter:
    """Sets options of RocksDB; ``rocksdb.config.setter`` names a class of its kind.

    A new instance is made for each store that is opened, in the process that opens it.
    """

    def set_config(self, store_name: str, options: Any, configs: Mapping[str, object]) -> None:
        """Change the options of a store before it is opened.

        Args:
            store_name: of the store.
            options: a ``rocksdict.Options`` with what Headwater sets. The databases are in its raw
                mode, which has to stay.
            configs: the application's configuration, as it was given.
        """

    def close(self, store_name: str, options: Any) -> None:
        """Release what ``set_config`` made for the store; called when it is closed."""
