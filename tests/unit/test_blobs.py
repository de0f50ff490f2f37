"""Blobs lie in a directory, which needs no library, or in a bucket."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adk_graph_memory import errors
from adk_graph_memory.graph.blobs import BlobStore, delete_contents

EARLIER, LATER = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
CONTENT = b"a picture" * 50_000


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlobStore:
    if request.param == "directory":
        monkeypatch.setitem(sys.modules, "obstore.store", None)
        return BlobStore(str(tmp_path / "new" / "store"))
    return BlobStore("memory:///")  # a bucket of obstore's own, in memory


async def list_all(store: BlobStore, until: datetime) -> list[tuple[str, str]]:
    return sorted([blob async for page in store.list_blobs(until=until) for blob in page])


async def test_what_is_put_can_be_read_listed_and_deleted(store: BlobStore) -> None:
    assert await list_all(store, LATER) == []
    await store.put_blob("one/owner", "a", b"")
    await store.put_blob("one/owner", "b", b"before")
    await store.put_blob("one/owner", "b", CONTENT)
    assert await store.get_blob("one/owner", "b") == CONTENT
    assert await list_all(store, EARLIER) == []
    assert await list_all(store, LATER) == [("one/owner", "a"), ("one/owner", "b")]
    await store.delete_blobs([("one/owner", "b"), ("one/owner", "never was")])
    assert await list_all(store, LATER) == [("one/owner", "a")]
    with pytest.raises(errors.ContentMissing):
        await store.get_blob("one/owner", "b")


async def test_all_pages_are_listed(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_graph_memory.graph.blobs._PAGE_SIZE", 2)
    for number in range(5):
        await store.put_blob("owner", str(number), b"x")
    assert [id for _, id in await list_all(store, LATER)] == ["0", "1", "2", "3", "4"]


async def test_a_directory_is_its_owners_alone(tmp_path: Path) -> None:
    await BlobStore(str(tmp_path / "new" / "store")).put_blob("owner", "a", b"x")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "new", tmp_path / "new" / "store")] == [0o700, 0o700]


async def test_a_directory_that_cannot_be_written_is_named_and_holds_nothing_unfinished(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path / "store"))
    (tmp_path / "store" / "owner" / "a").mkdir(parents=True)
    with pytest.raises(errors.ArtifactStoreUnusable, match="store"):
        await store.put_blob("owner", "a", b"x")
    assert [path.name for path in (tmp_path / "store" / "owner").iterdir()] == ["a"]


async def test_a_bucket_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(errors.ArtifactStoreUnusable, match="nowhere://bucket"):
        await BlobStore("nowhere://bucket").put_blob("owner", "a", b"x")


@pytest.mark.parametrize("call", ["put", "get", "delete", "list"])
async def test_a_bucket_without_its_library_names_the_extra(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    store = BlobStore("s3://bucket/prefix")
    calls = {
        "put": lambda: store.put_blob("owner", "a", b"x"),
        "get": lambda: store.get_blob("owner", "a"),
        "delete": lambda: store.delete_blobs([("owner", "a")]),
        "list": lambda: list_all(store, LATER),
    }
    with pytest.raises(errors.ArtifactStoreUnusable, match=r"adk-graph-memory\[buckets\]"):
        await calls[call]()


@pytest.mark.parametrize(
    ("owner", "id"),
    [
        ("..", "notes"),
        ("one/owner", "../../../notes"),
        ("", "/notes"),
        ("two", "../one/owner/a"),
        ("two/../one/owner", "a"),
        ("two", "..\\one\\owner\\a"),
    ],
)
async def test_no_name_leads_out_of_a_directory(tmp_path: Path, owner: str, id: str) -> None:
    notes = tmp_path / "notes"
    notes.write_bytes(b"mine")
    store = BlobStore(str(tmp_path / "store"))
    await store.put_blob("one/owner", "a", b"x")
    for call in (store.get_blob(owner, id), store.delete_blobs([(owner, id)]), store.put_blob(owner, id, b"x")):
        with pytest.raises(errors.ArtifactStoreUnusable, match="outside"):
            await call
    assert notes.read_bytes() == b"mine"
    assert await store.get_blob("one/owner", "a") == b"x"


def test_a_store_contains_its_parts_and_nothing_beside_it() -> None:
    store = BlobStore("s3://bucket/prefix/")
    assert all(map(store.contains, (store.url, "s3://bucket/prefix/a", "s3://bucket/prefix/a/b")))
    outside = (
        "s3://bucket",
        "s3://bucket/prefixes",
        "s3://bucket/prefix/../x",
        "s3://bucket/prefix/%2e%2e/x",
        "file:///",
    )
    assert not any(map(store.contains, outside))


def test_a_directory_contains_what_its_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "a store" / "part").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "a store" / "out").symlink_to(tmp_path / "victim")
    (tmp_path / "another name").symlink_to(tmp_path / "a store")
    store = BlobStore(str(tmp_path / "a store"))
    inside = store.url, f"{store.url}/part", f"{store.url}/new", (tmp_path / "another name" / "part").as_uri()
    assert all(map(store.contains, inside))
    outside = f"{store.url}/out", f"{store.url}/../victim", f"{store.url}/%00", tmp_path.as_uri(), "s3://bucket/a"
    assert not any(map(store.contains, outside))


async def test_a_blob_that_cannot_be_deleted_holds_up_no_other(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    await store.put_blob("owner", "z", b"x")
    with pytest.raises(errors.ArtifactStoreUnusable):
        await delete_contents([(("owner", "../a"), store.url), (("owner", "z"), store.url)])
    assert not (tmp_path / "owner" / "z").exists()
