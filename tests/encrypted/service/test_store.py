"""The store of keys: quota, time to live, and what is in use."""

from __future__ import annotations

import os

import pytest

from pinets.encrypted.service.store import KeyStore, StoreFullError


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


def add(store, clock, size=10):
    """Put keys into the store, and let a second pass."""
    with store.upload(size) as upload:
        upload.write(bytes(size))
        upload.finish()
        name = upload.keep()
    os.utime(store.folder / f"{name}.keys", (clock.now, clock.now))
    clock.now += 1
    return name


def is_there(store, name):
    try:
        with store.using(name):
            return True
    except KeyError:
        return False


def test_the_longest_unused_goes_first(tmp_path, clock):
    store = KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    first, second, third = (add(store, clock) for _ in range(3))
    assert is_there(store, first)  # which is a use
    clock.now += 1
    fourth = add(store, clock)
    assert [is_there(store, name) for name in (first, second, third, fourth)] == [True, False, True, True]
    assert store.size == 30


def test_keys_in_use_stay_and_what_is_on_its_way_counts(tmp_path, clock):
    store = KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    first, second = add(store, clock), add(store, clock)
    with store.using(first), store.using(second):
        with pytest.raises(StoreFullError, match="20 bytes of the quota of 30 bytes"):
            add(store, clock, 11)
        with store.upload(10), pytest.raises(StoreFullError, match="30 bytes of the quota"):
            add(store, clock, 1)
    with pytest.raises(StoreFullError, match="31 bytes exceed the quota of 30 bytes"):
        add(store, clock, 31)
    add(store, clock, 30)
    assert len(store) == 1


def test_unused_keys_expire_also_over_a_restart(tmp_path, clock):
    store = KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    first, second = add(store, clock), add(store, clock)
    clock.now += 98.5
    assert is_there(store, second)
    assert not is_there(store, first)
    store = KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    assert is_there(store, second)
    clock.now += 101
    with store.using(add(store, clock)):
        clock.now += 101
        store.remove_expired()
        assert len(store) == 1  # it is in use


def test_what_is_not_kept_leaves_nothing(tmp_path, clock):
    store = KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    with store.upload(10) as upload:
        upload.write(b"half")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "killed.part").write_bytes(b"of a process that was killed")
    KeyStore(tmp_path, quota=30, seconds=100, clock=clock)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "0" * 31, "../" + "0" * 29, "A" * 32, "0" * 32 + "\n"])
def test_only_names_of_the_store_are_looked_up(tmp_path, clock, name):
    (tmp_path / f"{name.strip() or 'x'}.keys".replace("/", "")).write_bytes(b"x")
    with pytest.raises(KeyError), KeyStore(tmp_path, quota=30, seconds=1e12, clock=clock).using(name):
        pass
