"""One seed a conversation: a batch holds the same prompt several times, and equal seeds would give equal samples."""

import hashlib


def conversation_seed(seed: int, index: int) -> int:
    """Return the seed of one conversation of a call: 31 bits, which every server accepts."""
    digest = hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
