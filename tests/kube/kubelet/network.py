"""The addresses of a machine: of a network device that goes with its owner, or of loopback.

The API server's proxy to pods refuses addresses of loopback. A process that may make a device (root
with ``/dev/net/tun``) has one for each machine, and the kernel takes it away when the process ends,
however it ends. All addresses of its network are this machine's, and nothing goes out by it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

_TUN: Final = "/dev/net/tun"
_NAME: Final = "kubelet"
_NETWORKS: Final = 512
"""Of 24 bits in 198.18.0.0/15, which is for tests of networks and leads nowhere."""
_BITS: Final = 24
_NO_IPV6: Final = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
# From linux/if_tun.h, linux/sockios.h and linux/if.h.
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN_NO_PI: Final = 0x1001
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 0x1
# From linux/netlink.h and linux/rtnetlink.h.
_NEW_ROUTE: Final = 24
_REQUEST_ACK_CREATE: Final = 0x1 | 0x4 | 0x400
_TABLE_LOCAL: Final = 255
_STATIC: Final = 4
_SCOPE_HOST: Final = 254
_KIND_LOCAL: Final = 2
_DESTINATION: Final = 1
_BY_DEVICE: Final = 4


class Network:
    """The addresses of one machine and its pods, which begin alike.

    Attributes:
        is_loopback: they are of loopback, because no device could be made.
    """

    def __init__(self) -> None:
        self._device: int | None = None
        with suppress(OSError):
            self._device, self._prefix = _made()
        self.is_loopback = self._device is None
        if self._device is None:
            # All of 127/8 is this machine; two runs of the tests at once must not meet there.
            self._prefix = f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(256)}"

    def address(self, number: int) -> str:
        """Return one of them; by the same number the same one."""
        return f"{self._prefix}.{number}"

    def close(self) -> None:
        """Have no address any more."""
        if self._device is not None:
            os.close(self._device)
            self._device = None


def _made() -> tuple[int, str]:
    """Make a device; return what holds it, and how its addresses begin.

    Raises:
        OSError: this process may not.
    """
    device = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
    try:
        # The kernel takes the least number that is free: no two devices have the same network.
        asked = struct.pack("16sH22x", f"{_NAME}%d".encode(), _IFF_TUN_NO_PI)
        name = fcntl.ioctl(device, _TUNSETIFF, asked)[:16].rstrip(b"\0").decode()
        high, low = divmod(int(name.removeprefix(_NAME)) % _NETWORKS, 256)
        prefix = f"198.{18 + high}.{low}"
        with suppress(OSError):
            Path(_NO_IPV6.format(name)).write_text("1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            up = struct.pack("16sH22x", name.encode(), _IFF_UP)
            fcntl.ioctl(any_socket, _SIOCSIFFLAGS, up)
        _be_at(f"{prefix}.0", name)
    except OSError:
        os.close(device)
        raise
    return device, prefix


def _be_at(network: str, name: str) -> None:
    """Have all addresses of a network as this machine's own, for as long as a device is there.

    A browser that runs here would begin its requests anew for each address that is added alone.

    Raises:
        OSError: the kernel refuses.
    """
    kind = (_TABLE_LOCAL, _STATIC, _SCOPE_HOST, _KIND_LOCAL)
    route = struct.pack("BBBBBBBBI", socket.AF_INET, _BITS, 0, 0, *kind, 0)
    index = struct.pack("i", socket.if_nametoindex(name))
    for of, value in ((_DESTINATION, socket.inet_aton(network)), (_BY_DEVICE, index)):
        route += struct.pack("HH", 4 + len(value), of) + value
    head = struct.pack("IHHII", 16 + len(route), _NEW_ROUTE, _REQUEST_ACK_CREATE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(head + route)
        [error] = struct.unpack_from("i", kernel.recv(4_096), 16)
    if error:
        raise OSError(-error, os.strerror(-error))
