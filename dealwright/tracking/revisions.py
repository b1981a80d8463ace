"""Which state of the code and the data something was made from."""

import hashlib
import subprocess
from pathlib import Path


def git_revision() -> str | None:
    """Return the commit that is checked out, with `-dirty` where tracked files differ from it; None outside git."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}-dirty" if _git("status", "--porcelain", "--untracked-files=no") else commit


def dvc_revision() -> str | None:
    """Return a short hash of dvc.lock, which names every input and output; None before the first `dvc repro`."""
    lock = Path("dvc.lock")
    return hash_file(lock)[:16] if lock.is_file() else None


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path) -> str:
    """Return the SHA-256 over the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        finished = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return finished.stdout.strip() if finished.returncode == 0 else None
