"""Files that are damaged, or were changed together with their checksum: refused by name."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pinets import CCP
from pinets.encrypted import (
    FileError,
    KeyMismatchError,
    Server,
    compile_network,
    decrypt_file,
    evaluate_file,
    make_key_files,
    make_keys,
    open_client,
    read_circuit,
    read_plan,
)
from pinets.encrypted.container import Container
from pinets.encrypted.folders import read_container, write_container


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
        evaluate_file(path, folder / "server", folder / "never", workers=1)
    assert not (folder / "never").exists()


@pytest.fixture(scope="module")
def damaged(folders):
    folder, _, _ = folders
    return folder, (folder / "server" / "inputs").read_bytes(), folder / "server" / "damaged"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda header: header.replace(b'"kind"', b'"kinb"'), "malformed header"),
        (lambda header: header.replace(b"{", b"[", 1), "malformed header"),
        (lambda header: header.replace(b'["0", ', b'["0", 9'), "longer or shorter than its header says"),
        (lambda header: header.replace(b'"version": 2', b'"version": 1'), "of version 1, this is version 2"),
        (lambda header: header.replace(b'["0", ', b'["a"], ["0", '), "malformed header"),
        (lambda header: b"[" * 100_000, "malformed header"),
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
        evaluate_file(path, folder / "server", folder / "never", workers=1)


def test_ciphertexts_that_are_no_fresh_inputs_are_refused(folders, tmp_path):
    """What the server answered is of its plan and keys, but has no multiplications left."""
    folder, _, _ = folders
    answered = read_container(folder / "client" / "outputs", "outputs")
    inputs = read_container(folder / "server" / "inputs", "inputs")
    parts = dict.fromkeys(inputs.parts, answered.parts["0"])
    write_container(tmp_path / "inputs", Container("inputs", inputs.plan, inputs.keys, parts, inputs.facts))
    with pytest.raises(FileError, match=r"ciphertext 0 of .*inputs: it has level 0 and scale"):
        evaluate_file(tmp_path / "inputs", folder / "server", tmp_path / "outputs", workers=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_ciphertext_is_named_whichever_process_reads_it(folders, tmp_path, workers):
    folder, _, _ = folders
    inputs = read_container(folder / "server" / "inputs", "inputs")
    write_container(tmp_path / "asked", replace(inputs, parts={**inputs.parts, "1": b"nonsense"}))
    with pytest.raises(FileError, match=r"ciphertext 1 of .*asked: this is not a Ciphertext for these parameters"):
        evaluate_file(tmp_path / "asked", folder / "server", tmp_path / "answered", workers=workers)
    outputs = read_container(folder / "client" / "outputs", "outputs")
    write_container(tmp_path / "answered", replace(outputs, parts={**outputs.parts, "1": b"nonsense"}))
    with pytest.raises(FileError, match=r"ciphertext 1 of .*answered: this is not a Ciphertext"):
        decrypt_file(tmp_path / "answered", folder / "client")


def test_keys_that_were_changed_with_their_checksum_are_refused_by_name(folders, tmp_path):
    folder, _, _ = folders

    def changed(side, name, kind, **parts):
        """A copy of a folder whose keys have other parts, and the right checksum all the same."""
        target = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(folder / side, target)
        write_container(target / name, replace(read_container(folder / side / name, kind), parts=parts))
        return target

    def evaluate(**parts):
        server = changed("server", "evaluation.keys", "evaluation keys", **parts)
        evaluate_file(folder / "server" / "inputs", server, tmp_path / "never")

    with pytest.raises(FileError, match=r"secret.key has no part 'key'"):
        open_client(changed("client", "secret.key", "secret key"))
    with pytest.raises(FileError, match=r"secret.key: this is not a SecretKey"):
        open_client(changed("client", "secret.key", "secret key", key=b"nonsense"))
    with pytest.raises(FileError, match=r"evaluation.keys has no part 'rotation'"):
        evaluate(relinearisation=b"nonsense")
    with pytest.raises(FileError, match=r"evaluation.keys: these are not 1 keys for these parameters"):
        evaluate(relinearisation=b"nonsense", rotation=b"")


def changed(old, new):
    """Circuits in which one text of the header is another."""

    def change(facts):
        text = json.dumps(facts)
        assert old in text
        return json.loads(text.replace(old, new, 1))

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: {},
        lambda facts: {"size": facts["size"]},
        lambda facts: {**facts, "size": 5},
        lambda facts: {**facts, "size": 10**12},  # must not be allocated
        lambda facts: {**facts, "size": float("inf")},
        lambda facts: {**facts, "size": True},
        lambda facts: {**facts, "products": 3},
        lambda facts: {**facts, "products": [[]]},
        lambda facts: {**facts, "products": [7]},
        lambda facts: {**facts, "output": []},
        lambda facts: {**facts, "output": {**facts["output"], "terms": []}},
        changed('"terms": [[1,', '"terms": [[7,'),
        changed('"terms": [[1,', '"terms": [[-1,'),
        changed('"terms": [[1,', '"terms": [["1",'),
        changed('"terms": [[0,', '"terms": [[1,'),  # of itself
        changed('"constant": "1"', '"constant": "99"'),
        changed('"constant": "1"', '"constant": ["1"]'),
    ],
)
def test_a_circuit_that_does_not_fit_together_is_refused_by_name(folders, tmp_path, change):
    folder, _, _ = folders
    circuit = read_container(folder / "server" / "network.circuit", "circuit")
    shutil.copy(folder / "server" / "plan.json", tmp_path)
    write_container(tmp_path / "network.circuit", replace(circuit, facts=change(circuit.facts)))
    with pytest.raises(FileError, match=r"network.circuit holds no valid circuit"):
        read_circuit(tmp_path)


@pytest.mark.parametrize("content", [b"", b"1234567", np.full(4, np.nan).tobytes(), np.full(5, 1.0).tobytes()])
def test_weights_that_are_cut_or_not_finite_are_refused_by_name(folders, tmp_path, content):
    folder, _, _ = folders
    circuit = read_container(folder / "server" / "network.circuit", "circuit")
    shutil.copy(folder / "server" / "plan.json", tmp_path)
    write_container(tmp_path / "network.circuit", replace(circuit, parts={**circuit.parts, "1": content}))
    with pytest.raises(FileError, match=r"network.circuit holds no valid circuit"):
        read_circuit(tmp_path)


def test_a_circuit_of_another_shape_than_the_plan_is_refused(folders):
    folder, _, _ = folders
    plan, _ = read_circuit(folder / "server")
    other = compile_network(CCP(5, 3, rank=4, order=3), torch.zeros(1, 5))
    with pytest.raises(KeyMismatchError, match="the circuit maps 5 numbers to 3, the plan 6 to 3"):
        Server(plan, other)
    deeper = compile_network(CCP(6, 3, rank=4, order=9), torch.zeros(1, 6))
    with pytest.raises(KeyMismatchError, match=r"the circuit takes 6 levels, the plan has \d"):
        Server(plan, deeper)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"layout": {"period": 6, "copies": 10**9, "shift": 1}}, "does not fit 6 numbers into 512 slots"),
        ({"layout": {"period": 0, "copies": 1, "shift": 1}}, "does not fit 6 numbers into 512 slots"),
        ({"input_shape": [-1]}, r"got shape \(-1,\)"),
        ({"input_shape": [10**12]}, "from 1 to 16777216 numbers"),
        ({"outputs": 0}, "got 0"),
        ({"outputs": 4}, "a weight for each of the 4 outputs"),
        ({"depth": 99}, "a depth of 99 does not fit"),
        ({"degree": 10**400}, "0 takes more than . multiplications in a row"),
        ({"rotations": [0]}, "rotations are steps below 512"),
        ({"output_scale": 0.0}, "output_scale must be positive, got 0.0"),
        ({"low": 3.0, "high": 2.0}, "the range must not be empty, got 3.0 to 2.0"),
        ({"key_bytes": -5}, "key_bytes must be a number of bytes, got -5"),
    ],
)
def test_a_plan_with_values_that_no_planner_gives_is_refused_by_name(folders, tmp_path, change, message):
    folder, _, _ = folders
    content = json.loads((folder / "client" / "plan.json").read_text())
    if content["layout"] is None and "layout" in change:
        pytest.skip("a layout belongs to the latency packing")
    (tmp_path / "plan.json").write_text(json.dumps({**content, **change}))
    with pytest.raises(FileError, match=rf"plan.json is not a plan: .*{message}"):
        read_plan(tmp_path)


@pytest.mark.parametrize("change", [{"ring": 2**40}, {"scale_bits": 10**6}, {"prime_bits": [60] * 5 + [-1]}])
def test_parameters_that_no_planner_gives_are_refused_by_name(folders, tmp_path, change):
    folder, _, _ = folders
    content = json.loads((folder / "client" / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**content, "parameters": {**content["parameters"], **change}}))
    with pytest.raises(FileError, match=r"plan.json is not a plan"):
        read_plan(tmp_path)


def test_keys_for_fewer_rotations_than_the_plan_has_are_refused(folders):
    folder, _, _ = folders
    plan, circuit = read_circuit(folder / "server")
    if not plan.rotations:
        pytest.skip("the throughput packing has no rotations")
    keys = replace(make_keys(replace(plan, rotations=(1,)))[1], plan=plan.identity)
    with pytest.raises(FileError, match=rf"not {len(plan.rotations)} keys for these parameters"):
        Server(plan, circuit, workers=1).load_keys(keys.to_bytes())


def test_a_plan_with_values_of_other_types_is_refused_by_name(folders, tmp_path):
    folder, _, _ = folders
    content = json.loads((folder / "client" / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**content, "rotations": "12"}))
    with pytest.raises(FileError, match=r"plan.json is not a plan: plan\.rotations must be a list"):
        make_key_files(tmp_path, tmp_path / "evaluation.keys")
