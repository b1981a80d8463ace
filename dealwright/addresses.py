"""Addresses of servers as they may be shown and asked."""

from urllib.parse import urlsplit


def without_password(address: str) -> str:
    """Return an address without the name and the password that may stand in it."""
    host = urlsplit(address).netloc
    return address.replace(host, host.rpartition("@")[2]) if host else address
