"""Addresses of servers as they may be shown and asked."""

from urllib.parse import urlsplit

LONGEST = 2000  # characters


def possible(address: str) -> str:
    """Return an address unchanged; raises ValueError for one that cannot be the beginning of what is asked.

    The error does not repeat the address, in which a password may stand.
    """
    try:
        parts = urlsplit(address)
        has_place = bool(parts.hostname) and parts.port != 0  # which is read here, and refused where it is no number
        goes_on = not parts.query and not parts.fragment
    except ValueError:
        has_place = goes_on = False
    if not has_place or len(address) > LONGEST or not address.isprintable() or " " in address:
        raise ValueError(
            "expected an address such as http://127.0.0.1:8000/v1, got a host or port that cannot be; correct it"
        )
    if not goes_on:
        raise ValueError("expected an address such as http://127.0.0.1:8000/v1, got one with ? or #; leave that out")
    return address


def without_password(address: str) -> str:
    """Return an address without the name and the password that may stand in it."""
    host = urlsplit(address).netloc
    return address.replace(host, host.rpartition("@")[2]) if host else address
