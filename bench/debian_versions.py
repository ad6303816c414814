"""Several versions of the same documentation, as Debian packages them: true revisions, exact copies, shared templates.

Packages are downloaded through apt and unpacked into .corpus/versions, not installed; a version is a host. Nothing of
them is kept in the repository.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crawl_pipeline.core import page

FOLDER = Path(__file__).parent.parent / ".corpus" / "versions"
PACKAGES = (
    "clang-13-doc", "clang-14-doc", "clang-15-doc", "clang-16-doc", "libboost1.74-doc", "libboost1.81-doc",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Version:
    """The pages of one package by their paths, in order."""

    name: str
    paths: list[str]
    pages: list[page.Page]


def unpacked() -> bool:
    """Have the packages, from the cache or by apt; tell whether that could be done."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    FOLDER.mkdir(parents=True, exist_ok=True)
    return all((FOLDER / name).exists() or _unpack(name) for name in PACKAGES)


def _unpack(name: str) -> bool:
    done = subprocess.run(["apt-get", "download", "-q", name], cwd=FOLDER, capture_output=True, text=True, check=False)
    found = sorted(FOLDER.glob(f"{name}_*.deb"))
    if done.returncode or not found:
        print(f"neardup: apt-get could not download {name}: {done.stderr.strip()[-200:]}")
        return False
    subprocess.run(["dpkg-deb", "-x", str(found[-1]), str(FOLDER / f"{name}.new")], check=True)
    (FOLDER / f"{name}.new").rename(FOLDER / name)
    return True


def versions() -> Iterator[Version]:
    """Read every page."""
    for name in PACKAGES:
        files = [file for file in sorted((FOLDER / name).rglob("*.html")) if file.is_file() and not file.is_symlink()]
        paths = [str(file.relative_to(FOLDER / name)) for file in files]
        pages = [page.read(file.read_bytes(), f"https://{name}.example/") for file in files]
        yield Version(name, paths, pages)
