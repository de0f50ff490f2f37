"""Bytes that are too many for a graph lie in a directory or a bucket, each under its owner's key and an id."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from functools import cached_property
from itertools import starmap
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from obstore.exceptions import BaseError
from obstore.store import ObjectStore, from_url

from adk_graph_memory import errors

_PAGE_SIZE = 500
_READ_BYTES = 65_536
"""Bytes read at a time, at least."""
_UNFINISHED_MARK = "#"
"""Stands before a number in the names of files that obstore is still writing."""


class BlobStore:
    """A store of contents.

    Args:
        url: ``file:///…``, ``s3://bucket/prefix``, ``gs://…``, ``az://…``, or a path; credentials of a cloud are taken
            from where its own tools look for them.
    """

    def __init__(self, url: str) -> None:
        self.url = url if "://" in url else Path(url).expanduser().absolute().as_uri()

    def open_substore(self, name: str) -> BlobStore:
        """A part of the store, apart from all others."""
        return BlobStore(f"{self.url.rstrip('/')}/{name}")

    @cached_property
    def _folder(self) -> Path | None:
        return Path(url2pathname(urlsplit(self.url).path)) if self.url.startswith("file://") else None

    @cached_property
    def _store(self) -> ObjectStore:
        try:
            if self._folder is not None:
                self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder.mkdir(mode=0o700, exist_ok=True)
            return from_url(self.url)
        except (BaseError, OSError, ValueError) as error:
            raise errors.ArtifactStoreUnusable(url=self.url, reason=_get_first_line(error)) from error

    async def put_blob(self, owner: str, id: str, content: bytes) -> None:
        """Stores a content; when this returns it is whole.

        Raises:
            errors.ArtifactStoreUnusable: it could not be written.
        """
        try:
            await self._store.put_async(f"{owner}/{id}", content)
        except (BaseError, OSError) as error:
            raise errors.ArtifactStoreUnusable(url=self.url, reason=_get_first_line(error)) from error

    async def get_blob(self, owner: str, id: str) -> bytes:
        """A content, read piece by piece, so that it is held once.

        Raises:
            errors.ContentMissing: it is not there.
            errors.ArtifactStoreUnusable: it could not be read.
        """
        read = io.BytesIO()
        try:
            async for piece in (await self._store.get_async(f"{owner}/{id}")).stream(_READ_BYTES):
                read.write(piece)
        except FileNotFoundError as error:
            raise errors.ContentMissing(id=id, url=self.url) from error
        except (BaseError, OSError) as error:
            raise errors.ArtifactStoreUnusable(url=self.url, reason=_get_first_line(error)) from error
        return read.getvalue()

    async def delete_blobs(self, contents: Iterable[tuple[str, str]]) -> None:
        """Deletes contents, each by its owner and id; one that is gone already is no error.

        Raises:
            errors.ArtifactStoreUnusable: some could not be deleted.
        """
        results = await asyncio.gather(*starmap(self._delete_blob, contents), return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, FileNotFoundError):
                raise errors.ArtifactStoreUnusable(url=self.url, reason=_get_first_line(error)) from error

    async def _delete_blob(self, owner: str, id: str) -> None:
        if self._folder is not None and _UNFINISHED_MARK in id:
            await asyncio.to_thread((self._folder / owner / id).unlink)
        else:
            await self._store.delete_async(f"{owner}/{id}")

    async def list_blobs(self, *, until: datetime) -> AsyncIterator[list[tuple[str, str]]]:
        """Owners and ids of all contents that were stored by then, some hundreds at a time."""
        try:
            async for page in self._store.list(chunk_size=_PAGE_SIZE):
                paths = (str(found["path"]).rpartition("/") for found in page if found["last_modified"] <= until)
                yield [(owner, id) for owner, _, id in paths]
            if unfinished := await asyncio.to_thread(self._list_unfinished, until):
                yield unfinished
        except (BaseError, OSError) as error:
            raise errors.ArtifactStoreUnusable(url=self.url, reason=_get_first_line(error)) from error

    def _list_unfinished(self, until: datetime) -> list[tuple[str, str]]:
        """What a process was writing into a directory when it was killed; obstore hides it."""
        folder = self._folder
        found = folder.rglob(f"*{_UNFINISHED_MARK}*") if folder else ()
        old = (path for path in found if datetime.fromtimestamp(path.stat().st_mtime, UTC) <= until)
        return [(path.parent.relative_to(folder).as_posix(), path.name) for path in old if folder]


def _get_first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
