"""Where servers of this command may listen."""

from __future__ import annotations

import errno
import ipaddress
import socket

from knowledge_worker.errors import ConfigurationError


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening_socket(host: str, port: int, option: str, variable: str) -> socket.socket:
    """A socket that listens, so that a port in use is noticed before anything else starts.

    Args:
        host: an address or a name of this machine.
        port: 0 for any free one.
        option: what to change, for the message.
        variable: the same.

    Raises:
        ConfigurationError: it is in use, forbidden, or no address of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _refused(error, host, port, option, variable) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as error:
        listener.close()
        raise _refused(error, host, port, option, variable) from None
    return listener


def _refused(error: OSError, host: str, port: int, option: str, variable: str) -> ConfigurationError:
    """What to say when listening failed."""
    if error.errno == errno.EADDRINUSE:
        return ConfigurationError(f"Port {port} on {host} is in use: choose another with {option} or {variable}.")
    if error.errno == errno.EACCES:
        return ConfigurationError(f"This user may not listen on port {port}: choose one above 1023 with {option}.")
    return ConfigurationError(f"Nothing can listen on {host}, port {port}: {error.strerror or 'no such address'}.")
