"""Client and server with nothing but their folders."""

from __future__ import annotations

import json
import shutil
import stat
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from pinets import CCP
from pinets.deploy.encrypted import (
    Client,
    EncryptedError,
    FileError,
    KeyMismatchError,
    RangeWarning,
    Server,
    make_client_keys,
    plan_network,
    read_plan,
    run_trial,
    write_plan,
)
from pinets.deploy.encrypted import client as client_module
from pinets.deploy.encrypted import server as server_module
from pinets.deploy.encrypted.files import read_circuit, read_container, write_container
from pinets.deploy.encrypted.seal import SealDecryptor, SealScheme


def test_a_round_gives_the_networks_outputs(folders):
    folder, network, inputs = folders
    outputs = Client(folder / "client").decrypt(folder / "client" / "outputs")
    np.testing.assert_allclose(outputs, network(inputs[:12]).detach().numpy(), atol=1e-4)


def test_several_processes_give_the_same(folders):
    folder, network, inputs = folders
    answered = folder / "client" / "from two processes"
    Server(folder / "server", workers=2).evaluate(folder / "server" / "inputs", answered)
    outputs = Client(folder / "client").decrypt(answered)
    np.testing.assert_allclose(outputs, network(inputs[:12]).detach().numpy(), atol=1e-4)


def test_the_server_cannot_decrypt(folders):
    folder, _, _ = folders
    server = folder / "server"
    with pytest.raises(FileNotFoundError, match=r"secret.key"):
        Client(server)
    secret = read_container(folder / "client" / "secret.key", "secret key").parts["key"]
    for path in server.iterdir():
        assert secret not in path.read_bytes()
        with pytest.raises(FileError):
            read_container(path, "secret key")
    scheme = SealScheme(read_plan(server).parameters)
    for part in read_container(server / "evaluation.keys", "evaluation keys").parts.values():
        with pytest.raises(FileError, match="no SecretKey"):
            SealDecryptor(scheme, part)


def test_another_secret_key_reads_nothing(folders, tmp_path):
    folder, network, inputs = folders
    shutil.copytree(folder / "client", tmp_path / "client")
    (tmp_path / "client" / "secret.key").unlink()
    make_client_keys(tmp_path / "client", tmp_path / "evaluation.keys")
    with pytest.raises(KeyMismatchError, match="belongs to other keys"):
        Client(tmp_path / "client").decrypt(folder / "client" / "outputs")
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
        Server(tmp_path / "server", workers=1).evaluate(folder / "server" / "inputs", tmp_path / "out")
    shutil.copy(folder / "client" / "secret.key", tmp_path / "client" / "secret.key")
    with pytest.raises(KeyMismatchError, match="belongs to another plan"):
        Client(tmp_path / "client")
    with pytest.raises(KeyMismatchError, match="belongs to another plan"):
        read_circuit(folder / "server" / "network.circuit", "0" * 64)


def test_planning_again_keeps_what_is_encrypted_readable(folders, tmp_path):
    """What is measured differs each time; the plan is the same."""
    folder, _, _ = folders
    shutil.copytree(folder, tmp_path / "copy")
    client, server = tmp_path / "copy" / "client", tmp_path / "copy" / "server"
    plan = read_plan(client)
    circuit = read_circuit(server / "network.circuit", plan.identity)
    write_plan(replace(plan, seconds=0.123, deviation=2 * plan.deviation), circuit, client=client, server=server)
    assert read_plan(client).seconds == 0.123
    assert len(Client(client).decrypt(client / "outputs")) == 12
    Server(server, workers=1)


@pytest.mark.parametrize("keys", ["client/secret.key", "server/evaluation.keys"])
def test_another_plan_is_not_written_where_there_are_keys(folders, tmp_path, keys):
    folder, _, _ = folders
    shutil.copytree(folder, tmp_path / "copy")
    client, server = tmp_path / "copy" / "client", tmp_path / "copy" / "server"
    for other in {"client/secret.key", "server/evaluation.keys"} - {keys}:
        (tmp_path / "copy" / other).unlink()
    plan = read_plan(client)
    circuit = read_circuit(server / "network.circuit", plan.identity)
    before = {path: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match=f"{keys} belongs to the plan in .*, which this one differs from"):
        write_plan(replace(plan, high=9.0), circuit, client=client, server=server)
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "copy" / keys).unlink()
    write_plan(replace(plan, high=9.0), circuit, client=client, server=server)
    assert read_plan(client).high == 9.0


def test_a_trial_changes_nothing_where_there_is_a_key(folders, tmp_path):
    folder, network, inputs = folders
    shutil.copytree(folder, tmp_path / "copy")
    plan = read_plan(folder / "client")
    circuit = read_circuit(folder / "server" / "network.circuit", plan.identity)
    before = (tmp_path / "copy" / "client" / "plan.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"secret.key exists.* move it away first"):
        run_trial(replace(plan, seconds=9.0), circuit, network, inputs[:2], tmp_path / "copy", workers=1)
    assert (tmp_path / "copy" / "client" / "plan.json").read_bytes() == before


def test_a_full_disk_leaves_no_secret_key_behind(folders, tmp_path, monkeypatch):
    """Keys can be made again: there is none yet that must not be overwritten."""
    folder, _, _ = folders
    (tmp_path / "client").mkdir()
    shutil.copy(folder / "client" / "plan.json", tmp_path / "client")

    def full(path, container, **options):
        if container.kind == "evaluation keys":
            raise OSError("No space left on device")
        write_container(path, container, **options)

    monkeypatch.setattr(client_module, "write_container", full)
    with pytest.raises(OSError, match="No space left"):
        make_client_keys(tmp_path / "client", tmp_path / "evaluation.keys")
    assert not (tmp_path / "client" / "secret.key").exists()


def test_files_of_another_kind_are_refused(folders):
    folder, _, _ = folders
    with pytest.raises(FileError, match="holds inputs, not outputs"):
        Client(folder / "client").decrypt(folder / "server" / "inputs")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        Client(folder / "client").decrypt(folder / "nowhere")


def test_the_secret_key_is_private_and_never_overwritten(folders):
    folder, _, _ = folders
    path = folder / "client" / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="move it away first"):
        make_client_keys(folder / "client", folder / "other.keys")
    assert not (folder / "other.keys").exists()


def test_inputs_outside_the_range_are_warned_of_with_what_is_lost(folders, tmp_path):
    folder, _, _ = folders
    client = Client(folder / "client")
    headroom = client.plan.headroom_bits
    with pytest.warns(RangeWarning, match=r"from 1.5 to 1.5 are outside .* at degree 3 .* grow by 1.\d bits$"):
        client.encrypt(np.full((1, 6), 1.5), tmp_path / "asked")
    with pytest.warns(RangeWarning, match=r"from -0.9 to 0.5 are outside .* grow by [45].\d bits, and"):
        client.encrypt(np.array([[0.5] * 5 + [-0.9]]), tmp_path / "asked")  # none is larger, but 2.8 times as far
    with pytest.warns(RangeWarning, match=rf"and {headroom:.1f} bits are free: the outputs can be wrong altogether"):
        client.encrypt(np.full((1, 6), 1e6), tmp_path / "asked")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.encrypt(np.full((1, 6), 0.5), tmp_path / "asked")


@pytest.mark.parametrize(
    "inputs, message",
    [
        (np.zeros((2, 5)), r"inputs of shape \(6,\), with a batch axis before it; got \(2, 5\)"),
        (np.zeros(6), "got"),
        (np.zeros((0, 6)), "got"),
        (np.array([[0, 1, np.nan, 0, 0, np.inf]]), "must be finite, got 2 that are not"),
    ],
)
def test_inputs_that_cannot_be(folders, tmp_path, inputs, message):
    folder, _, _ = folders
    with pytest.raises(EncryptedError, match=message):
        Client(folder / "client").encrypt(inputs, tmp_path / "asked")
    assert not (tmp_path / "asked").exists()


def test_outputs_near_the_largest_that_fits_are_warned_of(set_up, tmp_path):
    network, _ = set_up(tmp_path)
    client = Client(tmp_path / "client")
    far = np.full((1, 6), 2.2)  # outputs grow with the third power
    assert np.abs(network(torch.from_numpy(far)).detach().numpy()).max() > client.plan.output_bound / 2
    with pytest.warns(RangeWarning, match="outside the range"):
        client.encrypt(far, tmp_path / "asked")
    Server(tmp_path / "server", workers=1).evaluate(tmp_path / "asked", tmp_path / "answered")
    with pytest.warns(RangeWarning, match="near the largest that fits"):
        client.decrypt(tmp_path / "answered")


def test_too_little_memory_is_said_before_keys_are_made(folders, tmp_path, monkeypatch):
    folder, _, _ = folders
    shutil.copytree(folder / "client", tmp_path / "client")
    (tmp_path / "client" / "secret.key").unlink()
    monkeypatch.setattr(client_module, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"making the keys takes .*, and 1 kB is there"):
        make_client_keys(tmp_path / "client", tmp_path / "evaluation.keys")
    monkeypatch.setattr(server_module, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="1 kB is there"):
        Server(folder / "server")


def test_a_plan_that_is_no_plan(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no plan.json"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(FileError, match="is not a plan"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(EncryptedError, match="a plan is a JSON object, got list"):
        read_plan(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(FileError, match=r"plan.json is not a plan: .* not complete"):
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
