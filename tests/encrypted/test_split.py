"""Requests split into what is evaluated at once, and streams of containers."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from pinets.encrypted import FileError, KeyMismatchError, Server, make_keys, open_client, read_circuit
from pinets.encrypted.container import Container, kind_of, read_containers
from pinets.encrypted.server import key_file_bytes, request_bytes, split_inputs


@pytest.fixture
def request_(folders):
    folder, network, inputs = folders
    plan, circuit = read_circuit(folder / "server")
    client = open_client(folder / "client")
    inputs = inputs.repeat(20, 1)[:513]  # throughput: a full ciphertext and one more
    count = 3 if plan.layout is not None else 513
    return folder, plan, circuit, client, client.encrypt(inputs[:count].numpy()), network(inputs[:count])


def test_parts_are_evaluated_one_by_one(request_):
    folder, plan, circuit, client, request, expected = request_
    groups = split_inputs(request, plan, 64)
    assert len(groups) == (3 if plan.layout is not None else 2)
    server = Server(plan, circuit, workers=1)
    keys = server.load_keys((folder / "server" / "evaluation.keys").read_bytes())
    stream = io.BytesIO(b"".join(server.evaluate(group, keys) for group in groups))
    outputs = [client.decrypt(answer) for answer in read_containers(stream.read, 1 << 24, "answer")]
    np.testing.assert_allclose(np.concatenate(outputs), expected.detach().numpy(), atol=1e-4)


def test_sizes_are_known_before_anything_is_sent(request_):
    _, plan, _, _, request, _ = request_
    _, keys = make_keys(plan)
    assert sum(map(len, keys.parts.values())) == key_file_bytes(plan)
    parts = Container.from_bytes(request, "inputs", "request").parts
    assert sum(map(len, parts.values())) == request_bytes(plan, len(split_inputs(request, plan, 64)))


def test_counts_that_do_not_fit_are_refused(request_):
    _, plan, _, client, request, _ = request_
    container = Container.from_bytes(request, "inputs", "request")
    for facts in ({}, {"count": 0}, {"count": 10**6}, {"count": 10**400}, {"count": True}, {"count": "3"}):
        changed = Container("inputs", container.plan, container.keys, container.parts, facts)
        with pytest.raises(FileError, match="do not fit"):
            split_inputs(changed.to_bytes(), plan, 64)
    answer = replace(container, kind="outputs", facts={"count": 10**400})
    with pytest.raises(FileError, match="ciphertexts for 1000"):
        client.decrypt(answer.to_bytes())
    with pytest.raises(KeyMismatchError, match="another plan"):
        split_inputs(Container("inputs", "other", "", {}).to_bytes(), plan, 64)


def test_streams_that_are_cut_or_too_large_are_refused():
    whole = Container("outputs", "plan", "keys", {"0": bytes(100)}).to_bytes()
    assert list(read_containers(io.BytesIO(2 * whole).read, 1000, "it")) == [whole, whole]
    assert list(read_containers(io.BytesIO(whole[:-1]).read, 1000, "it")) == [whole[:-1]]  # its checksum tells
    for content, message in (
        (whole[:50], "malformed header, or was cut off"),
        (whole + b"x", "not a stream"),
        (b"<html>" * 20, "not a stream"),
        (whole[:17] + b"\xff" * 8 + whole[25:], "too long"),
        (whole.replace(b'["0", 100]', b'["0",1000]'), "at most 500 are expected"),
    ):
        with pytest.raises(FileError, match=message):
            list(read_containers(io.BytesIO(content).read, 500, "it"))
    assert kind_of(whole) == "outputs"
    assert kind_of(whole[:40]) is None


def test_a_header_of_many_empty_parts_is_refused_before_it_is_read(request_):
    _, plan, _, _, request, _ = request_
    container = Container.from_bytes(request, "inputs", "request")
    parts = {str(number): b"" for number in range(100_000)}
    hostile = Container("inputs", plan.identity, container.keys, parts, {"count": 100_000 * plan.batch}).to_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"has a header of .* bytes, and at most"):
            split_inputs(hostile, plan, 16)
        assert tracemalloc.get_traced_memory()[1] < len(hostile)
    finally:
        tracemalloc.stop()


def test_keys_with_a_long_header_are_refused_before_it_is_read(request_):
    _, plan, circuit, _, _, _ = request_
    _, keys = make_keys(plan)
    many = {str(number): b"" for number in range(10_000)}
    for extra in ({"facts": {"long": "x" * 100_000}}, {"parts": {**keys.parts, **many}}):
        with pytest.raises(FileError, match=r"has a header of .* bytes, and at most"):
            Server(plan, circuit, workers=1).load_keys(replace(keys, **extra).to_bytes())
