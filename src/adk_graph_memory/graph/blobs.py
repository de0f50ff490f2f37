"""Store content that is too large for the graph in a directory or a bucket, under its owner's key and an id."""

from __future__ import annotations

import asyncio
import io
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname
from uuid import uuid4

from adk_graph_memory import errors
from adk_graph_memory.runtime.environment import get_data_home

_PAGE_SIZE = 500
_READ_BYTES = 65_536
"""Minimum bytes per read."""


class BlobStore:
    """A directory or a bucket of blobs.

    Args:
        url: ``file:///…``, ``s3://bucket/prefix``, ``gs://…``, ``az://…``, or a path. Cloud credentials are read
            from where the cloud's own tools look for them.
    """

    def __init__(self, url: str) -> None:
        self.url = url if "://" in url else Path(url).expanduser().absolute().as_uri()

    def open_substore(self, name: str) -> BlobStore:
        """Open the part of the store under the prefix ``name``."""
        return BlobStore(f"{self.url.rstrip('/')}/{name}")

    def contains(self, url: str) -> bool:
        """Whether a URL leads to this store or a part of it; no link in a directory leads out of it."""
        if self._is_directory and url.startswith("file://"):
            try:
                return _locate_folder(url).resolve().is_relative_to(_locate_folder(self.url).resolve())
            except (OSError, ValueError):
                return False
        inside = url.removeprefix(f"{self.url.rstrip('/')}/")
        is_plain = {"", ".", ".."}.isdisjoint(unquote(inside).split("/")) and {"?", "#"}.isdisjoint(unquote(inside))
        return url == self.url or (inside != url and is_plain)

    @property
    def _is_directory(self) -> bool:
        return self.url.startswith("file://")

    @cached_property
    def _store(self) -> _Directory | _Bucket:
        return _Directory(_locate_folder(self.url)) if self._is_directory else _Bucket(self.url)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as error:
            reason = f'{error.name} is not installed: pip install "adk-graph-memory[buckets]"'
            raise errors.ArtifactStoreUnusable(url=self.url, reason=reason) from error
        except _list_store_errors() as error:
            reason = str(error).partition("\n")[0]
            raise errors.ArtifactStoreUnusable(url=self.url, reason=reason) from error

    async def put_blob(self, owner: str, id: str, content: bytes) -> None:
        """Write a blob; it is complete when this returns.

        Raises:
            errors.ArtifactStoreUnusable: it could not be written.
        """
        with self._translate_errors():
            await self._store.put(_join_path(owner, id), content)

    async def get_blob(self, owner: str, id: str) -> bytes:
        """Read a blob.

        Raises:
            errors.ContentMissing: there is no such blob.
            errors.ArtifactStoreUnusable: it could not be read.
        """
        with self._translate_errors():
            try:
                return await self._store.get(_join_path(owner, id))
            except FileNotFoundError as error:
                raise errors.ContentMissing(id=id, url=self.url) from error

    async def delete_blobs(self, contents: Iterable[tuple[str, str]]) -> None:
        """Delete blobs by owner and id; a missing blob is no error.

        Raises:
            errors.ArtifactStoreUnusable: some could not be deleted.
        """
        with self._translate_errors():
            deletions = [self._delete(owner, id) for owner, id in contents]
            for result in await asyncio.gather(*deletions, return_exceptions=True):
                if isinstance(result, BaseException) and not isinstance(result, FileNotFoundError):
                    raise result

    async def _delete(self, owner: str, id: str) -> None:
        await self._store.delete(_join_path(owner, id))

    async def list_blobs(self, *, until: datetime) -> AsyncIterator[list[tuple[str, str]]]:
        """Yield pages of (owner, id) of all blobs last modified by ``until``, including unfinished ones."""
        with self._translate_errors():
            async for page in self._store.list(until):
                yield [(owner, id) for owner, _, id in (path.rpartition("/") for path in page)]


def open_configured_store(url: str | None) -> BlobStore:
    """Open the store that the setting ``artifact_store`` names, or the one beside the local data."""
    return BlobStore(url or str(get_data_home() / "artifacts"))


async def delete_contents(contents: Iterable[tuple[tuple[str, str], str]]) -> None:
    """Delete blobs, each given by its owner and id and the URL of its store; all are tried before an error is raised.

    Raises:
        errors.ArtifactStoreUnusable: some could not be deleted.
    """
    by_store = defaultdict[str, list[tuple[str, str]]](list)
    for content, url in contents:
        by_store[url].append(content)
    first_error: errors.ArtifactStoreUnusable | None = None
    for url in sorted(by_store):
        try:
            await BlobStore(url).delete_blobs(by_store[url])
        except errors.ArtifactStoreUnusable as error:
            first_error = first_error or error
    if first_error:
        raise first_error


def list_trusted_stores(url: str | None, former_urls: Iterable[str]) -> list[BlobStore]:
    """List the stores where contents of ours may lie: those of the settings, and the one beside the local data."""
    return [open_configured_store(url), *map(BlobStore, former_urls), open_configured_store(None)]


def _locate_folder(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))


def _join_path(owner: str, id: str) -> str:
    """The path of a blob; no id that an import wrote may lead to another owner's blobs, or out of the store.

    Raises:
        ValueError: owner or id are no names.
    """
    parts = [*owner.split("/"), id]
    if "/" in id or "\\" in id or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"{owner}/{id} lies outside of its owner's part of the store")
    return "/".join(parts)


class _Directory:
    """Blobs as files, by their paths in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _locate(self, path: str) -> Path:
        """Find the file of a path; a link among the folders must not lead out of the store."""
        file = (self._folder / path).resolve()
        if not file.is_relative_to(self._folder.resolve()):
            raise ValueError(f"{path!r} lies outside of the folder")
        return file

    async def put(self, path: str, content: bytes) -> None:
        await asyncio.to_thread(self._write_file, self._locate(path), content)

    def _write_file(self, path: Path, content: bytes) -> None:
        self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}#{uuid4().hex}")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    async def get(self, path: str) -> bytes:
        return await asyncio.to_thread(self._locate(path).read_bytes)

    async def delete(self, path: str) -> None:
        await asyncio.to_thread(self._locate(path).unlink)

    async def list(self, until: datetime) -> AsyncIterator[list[str]]:
        paths = await asyncio.to_thread(lambda: list(self._iterate_paths(until)))
        for start in range(0, len(paths), _PAGE_SIZE):
            yield paths[start : start + _PAGE_SIZE]

    def _iterate_paths(self, until: datetime) -> Iterator[str]:
        for file in self._folder.rglob("*"):
            with suppress(FileNotFoundError):  # it was finished or deleted meanwhile
                if file.is_file() and datetime.fromtimestamp(file.stat().st_mtime, UTC) <= until:
                    yield file.relative_to(self._folder).as_posix()


class _Bucket:
    """Blobs in a bucket, by obstore."""

    def __init__(self, url: str) -> None:
        from obstore.store import from_url

        self._store = from_url(url)

    async def put(self, path: str, content: bytes) -> None:
        await self._store.put_async(path, content)

    async def get(self, path: str) -> bytes:
        buffer = io.BytesIO()  # so that memory holds the content only once
        async for chunk in (await self._store.get_async(path)).stream(_READ_BYTES):
            buffer.write(chunk)
        return buffer.getvalue()

    async def delete(self, path: str) -> None:
        await self._store.delete_async(path)

    async def list(self, until: datetime) -> AsyncIterator[list[str]]:
        async for page in self._store.list(chunk_size=_PAGE_SIZE):
            yield [str(blob["path"]) for blob in page if blob["last_modified"] <= until]


def _list_store_errors() -> tuple[type[Exception], ...]:
    """What a store raises; obstore's own errors only where a bucket is in use."""
    module = sys.modules.get("obstore.exceptions")
    return (OSError, ValueError, module.BaseError) if module else (OSError, ValueError)
