"""Files that are damaged, or were changed together with their checksum: refused by name."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinets.deploy.encrypted import Client, FileError, Server, make_client_keys
from pinets.deploy.encrypted.files import Container, read_circuit, read_container, write_container


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_by_name(data, damaged):
    folder, content, path = damaged
    if data.draw(st.booleans(), label="truncate"):
        path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    else:
        at = data.draw(st.integers(0, len(content) - 1))
        path.write_bytes(content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :])
    with pytest.raises(FileError, match="damaged"):
        Server(folder / "server", workers=1).evaluate(path, folder / "never")
    assert not (folder / "never").exists()


@pytest.fixture(scope="module")
def damaged(folders):
    folder, _, _ = folders
    return folder, (folder / "server" / "inputs").read_bytes(), folder / "server" / "damaged"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda header: header.replace(b'"kind"', b'"kinb"'), "no header that can be read"),
        (lambda header: header.replace(b"{", b"[", 1), "no header that can be read"),
        (lambda header: header.replace(b'["0", ', b'["0", 9'), "longer or shorter than its header says"),
        (lambda header: header.replace(b'"version": 1', b'"version": 2'), "of version 2, this is version 1"),
        (lambda header: header.replace(b'["0", ', b'["a"], ["0", '), "no header that can be read"),
        (lambda header: b"[" * 100_000, "no header that can be read"),
    ],
    ids=["a key", "no object", "a size", "a version", "a part without a size", "too deep"],
)
def test_headers_that_were_changed_with_their_checksum_are_refused_too(damaged, change, message):
    folder, content, path = damaged
    start = content.index(b"{")
    end = start + int.from_bytes(content[start - 8 : start], "little")
    header = change(content[start:end])
    changed = content[: start - 8] + len(header).to_bytes(8, "little") + header + content[end:-32]
    path.write_bytes(changed + hashlib.sha256(changed).digest())
    with pytest.raises(FileError, match=rf"damaged.* {message}"):
        Server(folder / "server", workers=1).evaluate(path, folder / "never")


def test_ciphertexts_that_are_no_fresh_inputs_are_refused(folders, tmp_path):
    """What the server answered is of its plan and keys, but has no multiplications left."""
    folder, _, _ = folders
    answered = read_container(folder / "client" / "outputs", "outputs")
    inputs = read_container(folder / "server" / "inputs", "inputs")
    parts = dict.fromkeys(inputs.parts, answered.parts["0"])
    write_container(tmp_path / "inputs", Container("inputs", inputs.plan, inputs.keys, parts, inputs.facts))
    with pytest.raises(FileError, match=r"ciphertext 0 of .*inputs: it has level 0 and scale"):
        Server(folder / "server", workers=1).evaluate(tmp_path / "inputs", tmp_path / "outputs")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_ciphertext_is_named_whichever_process_reads_it(folders, tmp_path, workers):
    folder, _, _ = folders
    inputs = read_container(folder / "server" / "inputs", "inputs")
    write_container(tmp_path / "asked", replace(inputs, parts={**inputs.parts, "1": b"nonsense"}))
    with pytest.raises(FileError, match=r"ciphertext 1 of .*asked: this is no Ciphertext of these parameters"):
        Server(folder / "server", workers=workers).evaluate(tmp_path / "asked", tmp_path / "answered")
    outputs = read_container(folder / "client" / "outputs", "outputs")
    write_container(tmp_path / "answered", replace(outputs, parts={**outputs.parts, "1": b"nonsense"}))
    with pytest.raises(FileError, match=r"ciphertext 1 of .*answered: this is no Ciphertext"):
        Client(folder / "client").decrypt(tmp_path / "answered")


def changed_keys(folder, target, name, kind, **parts):
    """A copy of a folder whose keys have other parts, and the right checksum all the same."""
    shutil.copytree(folder, target)
    container = read_container(folder / name, kind)
    write_container(target / name, replace(container, parts=parts))
    return target


def test_keys_that_were_changed_with_their_checksum_are_refused_by_name(folders, tmp_path):
    folder, _, _ = folders
    client, server = ("secret.key", "secret key"), ("evaluation.keys", "evaluation keys")
    with pytest.raises(FileError, match=r"secret.key has no part 'key'"):
        Client(changed_keys(folder / "client", tmp_path / "1", *client))
    with pytest.raises(FileError, match=r"secret.key: this is no SecretKey"):
        Client(changed_keys(folder / "client", tmp_path / "2", *client, key=b"nonsense"))
    with pytest.raises(FileError, match=r"evaluation.keys has no part 'rotation'"):
        Server(changed_keys(folder / "server", tmp_path / "3", *server, relinearisation=b"nonsense"))
    with pytest.raises(FileError, match=r"evaluation.keys: this is no RelinKeys"):
        Server(changed_keys(folder / "server", tmp_path / "4", *server, relinearisation=b"nonsense", rotation=b""))


def without_products(facts):
    return {"size": facts["size"]}


def with_another_size(facts):
    return {**facts, "size": 5}


def with_values_that_do_not_exist(facts):
    return json.loads(json.dumps(facts).replace('"terms": [[1,', '"terms": [[7,'))


def with_parts_that_do_not_exist(facts):
    return json.loads(json.dumps(facts).replace('"constant": "1"', '"constant": "99"'))


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: {},
        without_products,
        with_another_size,
        with_values_that_do_not_exist,
        with_parts_that_do_not_exist,
    ],
)
def test_a_circuit_that_does_not_fit_together_is_refused_by_name(folders, tmp_path, change):
    folder, _, _ = folders
    circuit = read_container(folder / "server" / "network.circuit", "circuit")
    write_container(tmp_path / "forged", replace(circuit, facts=change(circuit.facts)))
    with pytest.raises(FileError, match=r"forged holds no circuit that can be read"):
        read_circuit(tmp_path / "forged", circuit.plan)


def test_a_plan_with_values_of_other_types_is_refused_by_name(folders, tmp_path):
    folder, _, _ = folders
    content = json.loads((folder / "client" / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**content, "rotations": "12"}))
    with pytest.raises(FileError, match=r"plan.json is not a plan: rotations of the plan must be a list, got '12'"):
        make_client_keys(tmp_path, tmp_path / "evaluation.keys")
