"""Store content that is too large for the graph in a directory or a bucket, under its owner's key and an id."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
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
"""Minimum bytes per read."""
_UNFINISHED_MARK = "#"
"""obstore ends the name of a file that it is still writing with this mark and a number."""


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

    @cached_property
    def _folder(self) -> Path | None:
        return Path(url2pathname(urlsplit(self.url).path)) if self.url.startswith("file://") else None

    @cached_property
    def _store(self) -> ObjectStore:
        with self._translate_errors():
            if self._folder is not None:
                self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder.mkdir(mode=0o700, exist_ok=True)
            return from_url(self.url)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise errors.ArtifactStoreUnusable(url=self.url, reason=reason) from error

    async def put_blob(self, owner: str, id: str, content: bytes) -> None:
        """Write a blob; it is complete when this returns.

        Raises:
            errors.ArtifactStoreUnusable: it could not be written.
        """
        with self._translate_errors():
            await self._store.put_async(f"{owner}/{id}", content)

    async def get_blob(self, owner: str, id: str) -> bytes:
        """Read a blob in chunks, so that memory holds it only once.

        Raises:
            errors.ContentMissing: there is no such blob.
            errors.ArtifactStoreUnusable: it could not be read.
        """
        buffer = io.BytesIO()
        with self._translate_errors():
            try:
                async for chunk in (await self._store.get_async(f"{owner}/{id}")).stream(_READ_BYTES):
                    buffer.write(chunk)
            except FileNotFoundError as error:
                raise errors.ContentMissing(id=id, url=self.url) from error
        return buffer.getvalue()

    async def delete_blobs(self, contents: Iterable[tuple[str, str]]) -> None:
        """Delete blobs by owner and id; a missing blob is no error.

        Raises:
            errors.ArtifactStoreUnusable: some could not be deleted.
        """
        results = await asyncio.gather(*starmap(self._delete_blob, contents), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, FileNotFoundError):
                with self._translate_errors():
                    raise result

    async def _delete_blob(self, owner: str, id: str) -> None:
        if self._folder is not None and _UNFINISHED_MARK in id:
            await asyncio.to_thread((self._folder / owner / id).unlink)
        else:
            await self._store.delete_async(f"{owner}/{id}")

    async def list_blobs(self, *, until: datetime) -> AsyncIterator[list[tuple[str, str]]]:
        """Yield pages of (owner, id) of all blobs last modified by ``until``, including unfinished ones."""
        with self._translate_errors():
            async for page in self._store.list(chunk_size=_PAGE_SIZE):
                paths = (str(blob["path"]).rpartition("/") for blob in page if blob["last_modified"] <= until)
                yield [(owner, id) for owner, _, id in paths]
            if unfinished := await asyncio.to_thread(self._list_unfinished, until):
                yield unfinished

    def _list_unfinished(self, until: datetime) -> list[tuple[str, str]]:
        """List the files that a process was writing into a directory when it was killed; obstore hides them."""
        if self._folder is None:
            return []
        paths = self._folder.rglob(f"*{_UNFINISHED_MARK}*")
        old_paths = (path for path in paths if datetime.fromtimestamp(path.stat().st_mtime, UTC) <= until)
        return [(path.parent.relative_to(self._folder).as_posix(), path.name) for path in old_paths]
