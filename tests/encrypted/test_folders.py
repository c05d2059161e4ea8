"""Client and server with nothing but their folders."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import stat
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import pinets.encrypted.client as client_module
import pinets.encrypted.folders as folders_module
import pinets.encrypted.server as server_module
from pinets import CCP
from pinets.encrypted import (
    EncryptedError,
    FileError,
    KeyMismatchError,
    RangeWarning,
    Server,
    decrypt_file,
    encrypt_file,
    evaluate_file,
    make_key_files,
    make_keys,
    open_client,
    plan_network,
    read_circuit,
    read_plan,
    run_trial,
    write_plan,
)
from pinets.encrypted.container import Container
from pinets.encrypted.folders import read_container
from pinets.encrypted.seal import SealDecryptor, SealScheme


def test_a_round_gives_the_networks_outputs(folders):
    folder, network, inputs = folders
    outputs = decrypt_file(folder / "client" / "outputs", folder / "client")
    np.testing.assert_allclose(outputs, network(inputs[:12]).detach().numpy(), atol=1e-4)


def test_several_processes_give_the_same(folders):
    folder, network, inputs = folders
    answered = folder / "client" / "from two processes"
    evaluate_file(folder / "server" / "inputs", folder / "server", answered, workers=2)
    outputs = decrypt_file(answered, folder / "client")
    np.testing.assert_allclose(outputs, network(inputs[:12]).detach().numpy(), atol=1e-4)


def test_the_server_cannot_decrypt(folders):
    folder, _, _ = folders
    server = folder / "server"
    with pytest.raises(FileNotFoundError, match=r"secret.key"):
        open_client(server)
    secret = read_container(folder / "client" / "secret.key", "secret key").parts["key"]
    for path in server.iterdir():
        assert secret not in path.read_bytes()
        with pytest.raises(FileError):
            read_container(path, "secret key")
    scheme = SealScheme(read_plan(server).parameters)
    for part in read_container(server / "evaluation.keys", "evaluation keys").parts.values():
        with pytest.raises(FileError, match="not a SecretKey"):
            SealDecryptor(scheme, part)


def test_another_secret_key_reads_nothing(folders, tmp_path):
    folder, network, inputs = folders
    shutil.copytree(folder / "client", tmp_path / "client")
    (tmp_path / "client" / "secret.key").unlink()
    make_key_files(tmp_path / "client", tmp_path / "evaluation.keys")
    with pytest.raises(KeyMismatchError, match="belongs to other keys"):
        decrypt_file(folder / "client" / "outputs", tmp_path / "client")
    # and it is the key that protects, not the name on the file
    plan = read_plan(folder / "client")
    key = read_container(tmp_path / "client" / "secret.key", "secret key").parts["key"]
    parts = read_container(folder / "client" / "outputs", "outputs").parts
    garbage = SealDecryptor(SealScheme(plan.parameters), key).decrypt(parts["0"])
    assert np.abs(garbage).mean() > 10 * network(inputs).abs().max().item()


def test_files_of_another_plan_are_refused(folders, set_up, tmp_path):
    folder, _, _ = folders
    set_up(tmp_path, precision=1e-3, inputs=7, packing=read_plan(folder / "client").packing, rings=(2048,))
    with pytest.raises(KeyMismatchError, match="belongs to another plan"):
        evaluate_file(folder / "server" / "inputs", tmp_path / "server", tmp_path / "out", workers=1)
    shutil.copy(folder / "client" / "secret.key", tmp_path / "client" / "secret.key")
    with pytest.raises(KeyMismatchError, match="belongs to another plan"):
        open_client(tmp_path / "client")
    shutil.copy(folder / "server" / "network.circuit", tmp_path / "server")
    with pytest.raises(KeyMismatchError, match="belongs to another plan"):
        read_circuit(tmp_path / "server")


def test_planning_again_keeps_what_is_encrypted_readable(folders, tmp_path):
    """What is measured differs each time; the plan is the same."""
    folder, _, _ = folders
    shutil.copytree(folder, tmp_path / "copy")
    client, server = tmp_path / "copy" / "client", tmp_path / "copy" / "server"
    plan = read_plan(client)
    circuit = read_circuit(server)[1]
    write_plan(replace(plan, seconds=0.123, deviation=2 * plan.deviation), circuit, client=client, server=server)
    assert read_plan(client).seconds == 0.123
    assert len(decrypt_file(client / "outputs", client)) == 12
    Server(*read_circuit(server), workers=1)


@pytest.mark.parametrize("keys", ["client/secret.key", "server/evaluation.keys"])
def test_another_plan_is_not_written_where_there_are_keys(folders, tmp_path, keys):
    folder, _, _ = folders
    shutil.copytree(folder, tmp_path / "copy")
    client, server = tmp_path / "copy" / "client", tmp_path / "copy" / "server"
    for other in {"client/secret.key", "server/evaluation.keys"} - {keys}:
        (tmp_path / "copy" / other).unlink()
    plan = read_plan(client)
    circuit = read_circuit(server)[1]
    before = {path: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match=f"{keys} belongs to .*, which differs from this plan"):
        write_plan(replace(plan, high=9.0), circuit, client=client, server=server)
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "copy" / keys).unlink()
    write_plan(replace(plan, high=9.0), circuit, client=client, server=server)
    assert read_plan(client).high == 9.0


def test_a_trial_changes_nothing_where_there_is_a_key(folders, tmp_path):
    folder, network, inputs = folders
    shutil.copytree(folder, tmp_path / "copy")
    plan = read_plan(folder / "client")
    circuit = read_circuit(folder / "server")[1]
    before = (tmp_path / "copy" / "client" / "plan.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"secret.key exists.* move it away first"):
        run_trial(replace(plan, seconds=9.0), circuit, network, inputs[:2], tmp_path / "copy", workers=1)
    assert (tmp_path / "copy" / "client" / "plan.json").read_bytes() == before


def test_a_full_disk_leaves_no_secret_key_behind(folders, tmp_path, monkeypatch):
    """Keys can be made again: there is none yet that must not be overwritten."""
    folder, _, _ = folders
    (tmp_path / "client").mkdir()
    shutil.copy(folder / "client" / "plan.json", tmp_path / "client")

    def full(container):
        raise OSError("No space left on device")

    monkeypatch.setattr(Container, "pieces", full)
    with pytest.raises(OSError, match="No space left"):
        make_key_files(tmp_path / "client", tmp_path / "server" / "evaluation.keys")
    assert list((tmp_path / "server").iterdir()) == []
    assert not (tmp_path / "client" / "secret.key").exists()


def test_of_several_key_makers_at_once_one_succeeds(set_up, tmp_path, monkeypatch):
    """Its two files belong together; the others say that there is a key, and change nothing."""
    set_up(tmp_path)
    (tmp_path / "client" / "secret.key").unlink()
    context = multiprocessing.get_context("fork")
    barrier, told = context.Barrier(4), context.SimpleQueue()

    def meet(plan):
        """All have seen that there is no key yet when the first of them writes one."""
        keys = make_keys(plan)
        barrier.wait(60)
        return keys

    def work():
        try:
            make_key_files(tmp_path / "client", tmp_path / "server" / "evaluation.keys")
            told.put("made")
        except Exception as error:
            told.put(str(error))

    monkeypatch.setattr(folders_module, "make_keys", meet)
    makers = [context.Process(target=work) for _ in range(4)]
    for maker in makers:
        maker.start()
    outcomes = [told.get() for _ in makers]
    for maker in makers:
        maker.join()
    assert sorted(outcome == "made" for outcome in outcomes) == [False, False, False, True]
    assert all("move it away first" in outcome for outcome in outcomes if outcome != "made")
    secret = read_container(tmp_path / "client" / "secret.key", "secret key")
    assert read_container(tmp_path / "server" / "evaluation.keys", "evaluation keys").keys == secret.keys
    assert len(list((tmp_path / "server").iterdir())) == 3  # nothing is left over


def test_files_of_another_kind_are_refused(folders):
    folder, _, _ = folders
    with pytest.raises(FileError, match="holds inputs, not outputs"):
        decrypt_file(folder / "server" / "inputs", folder / "client")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        decrypt_file(folder / "nowhere", folder / "client")


def test_files_of_another_kind_are_not_replaced(folders, tmp_path):
    folder, _, inputs = folders
    client, server = folder / "client", folder / "server"
    asked, scores, text = tmp_path / "asked", tmp_path / "scores.npy", tmp_path / "text"
    for _ in range(2):  # the same kind is replaced
        encrypt_file(inputs[:1].numpy(), client, asked)
        decrypt_file(client / "outputs", client, scores)
    text.write_text("{}")
    shutil.copytree(client, tmp_path / "client")
    (tmp_path / "client" / "secret.key").unlink()
    attempts = [
        (asked, "inputs", lambda: decrypt_file(client / "outputs", client, asked)),
        (scores, "array", lambda: evaluate_file(server / "inputs", server, scores, workers=1)),
        (text, "something else", lambda: encrypt_file(inputs[:1].numpy(), client, text)),
        (text, "something else", lambda: make_key_files(tmp_path / "client", text)),
    ]
    for target, holds, attempt in attempts:
        before = target.read_bytes()
        with pytest.raises(FileExistsError, match=f"{target.name} would be replaced .* and holds {holds}; name"):
            attempt()
        assert target.read_bytes() == before
    assert not (tmp_path / "client" / "secret.key").exists()
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(FileExistsError, match=r"plan.json would be replaced"):
        write_plan(read_plan(client), read_circuit(server)[1], client=tmp_path, server=tmp_path / "server")
    assert not (tmp_path / "server").exists()


def test_the_secret_key_is_private_and_never_overwritten(folders):
    folder, _, _ = folders
    path = folder / "client" / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="move it away first"):
        make_key_files(folder / "client", folder / "other.keys")
    assert not (folder / "other.keys").exists()


def test_inputs_outside_the_range_are_warned_of_with_what_is_lost(folders, tmp_path):
    folder, _, _ = folders
    client = open_client(folder / "client")
    headroom = client.plan.headroom_bits
    slightly = client.plan.high * 2 ** (0.9 * headroom / 3)  # third powers of it still fit
    with pytest.warns(RangeWarning, match=rf"are outside .* at degree 3 .* grow by {0.9 * headroom:.1f} bits$"):
        client.encrypt(np.full((1, 6), slightly))
    with pytest.warns(RangeWarning, match=r"from 1.5 to 1.5 are outside .* at degree 3 .* grow by 1.\d bits, and"):
        client.encrypt(np.full((1, 6), 1.5))
    with pytest.warns(RangeWarning, match=r"from -0.9 to 0.5 are outside .* grow by [45].\d bits, and"):
        client.encrypt(np.array([[0.5] * 5 + [-0.9]]))  # none is larger, but 2.8 times as far
    with pytest.warns(RangeWarning, match=rf"and {headroom:.1f} bits are free: the outputs can overflow"):
        client.encrypt(np.full((1, 6), 1e6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.encrypt(np.full((1, 6), 0.5))


@pytest.mark.parametrize(
    "inputs, message",
    [
        (np.zeros((2, 5)), r"inputs of shape \(6,\), with a batch axis before it; got \(2, 5\)"),
        (np.zeros(6), "got"),
        (np.zeros((0, 6)), "got"),
        (np.array([[0, 1, np.nan, 0, 0, np.inf]]), "must be finite, got 2 that are not"),
        (np.full((1, 6), -1e300), r"must be below \S+ in size to fit the modulus, got 1e\+300"),
    ],
)
def test_inputs_that_cannot_be(folders, tmp_path, inputs, message):
    folder, _, _ = folders
    with pytest.raises(EncryptedError, match=message):
        encrypt_file(inputs, folder / "client", tmp_path / "asked")
    assert not (tmp_path / "asked").exists()


def test_too_little_memory_is_said_before_keys_are_made(folders, tmp_path, monkeypatch):
    folder, _, _ = folders
    shutil.copytree(folder / "client", tmp_path / "client")
    (tmp_path / "client" / "secret.key").unlink()
    monkeypatch.setattr(client_module, "available_memory", lambda: 1000)
    plan_file = tmp_path / "client" / "plan.json"
    for expected in ({}, {"key_bytes": 0}):  # the second one is a stranger's, who wants the memory
        plan_file.write_text(json.dumps({**json.loads(plan_file.read_text()), **expected}))
        with pytest.raises(MemoryError, match=r"making the keys takes .*, and 1 kB is free"):
            make_key_files(tmp_path / "client", tmp_path / "evaluation.keys")
    monkeypatch.setattr(server_module, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="1 kB is free"):
        Server(*read_circuit(folder / "server"))


def test_a_plan_that_is_no_plan(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no plan.json"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(FileError, match="is not a plan"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(EncryptedError, match="a plan is a JSON object, got list"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps({"format": 4}))
    with pytest.raises(FileError, match=r"plan.json is not a plan: plan\.packing is missing"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_bytes(b"\xff")
    with pytest.raises(FileError, match=r"plan.json is not a plan"):
        read_plan(tmp_path)


def test_at_128_bits(tmp_path):
    """The parameters of real use: an MNIST-sized network of order 4."""
    torch.manual_seed(0)
    network, inputs = CCP(784, 10, rank=16, order=4), torch.rand(50, 784)
    plan, circuit = plan_network(network, inputs, packing="latency", estimate_time=False)
    assert (plan.parameters.ring, plan.parameters.insecure) == (8192, False)
    trial = run_trial(plan, circuit, network, inputs[:2], tmp_path, labels=torch.zeros(2), workers=1)
    assert trial.deviation < 1e-4 * trial.largest
    assert trial.agreement == 1.0
    assert trial.accuracy == trial.plain_accuracy
