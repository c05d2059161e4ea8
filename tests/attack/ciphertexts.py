"""Tampered plans, keys, circuits, requests and answers, most of them with a right checksum."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
import torch

from pinets import CCP
from pinets.encrypted import Circuit, Client, EncryptedError, Plan, Server, make_keys, plan_network
from pinets.encrypted.circuit import circuit_from_container, circuit_to_container
from pinets.encrypted.container import Container
from tests.attack.tally import Tally, cases

__all__ = ["attack"]


@dataclass
class Round:
    """All that client and server exchange for one input, as bytes, and the outputs."""

    plan: Plan
    circuit: Circuit
    files: dict[str, bytes]
    outputs: np.ndarray


def attack(seconds: float, seed: int) -> Tally:
    """A tampered file is refused with an error of ours, or evaluated: nothing else is raised, and nothing hangs."""
    tally = Tally()
    for name, random in cases(seconds, seed):
        tally.cases += 1
        made = exchange(random.choice(["latency", "throughput"]))
        kind = random.choice(sorted(made.files))
        change = random.choice([flip, cut, grow, repeat, header, part, parts])
        changed = change(made.files[kind], random)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = use(made, {**made.files, kind: changed})
        except (EncryptedError, MemoryError):
            continue
        except Exception as error:
            tally.failures.append(f"{name}: {kind}, {change.__name__}: {type(error).__name__}: {error}"[:300])
            continue
        # a plan is JSON without a checksum: its identity, which all other files carry, is one of what is agreed on
        harmless = changed == made.files[kind] or change in (header, part, parts) or kind == "plan"
        tally.check(harmless, f"{name}: {kind}, {change.__name__}: a wrong checksum was not noticed")
        if changed == made.files[kind]:
            tally.check(np.allclose(outputs, made.outputs, atol=1e-3), f"{name}: {kind}: the outputs differ")
    return tally


@cache
def exchange(packing: Any) -> Round:
    torch.manual_seed(0)
    inputs = torch.rand(30, 3, dtype=torch.float64)
    network = CCP(3, 2, rank=2, order=2).double().requires_grad_(False)
    small = {"rings": (1024,), "insecure": True, "estimate_time": False}
    plan, circuit = plan_network(network, inputs, packing=packing, **small)
    secret, keys = (one.to_bytes() for one in make_keys(plan))
    client, server = Client(plan, secret), Server(plan, circuit, workers=1)
    request = client.encrypt(inputs[:1].numpy())
    files = {
        "plan": json.dumps(plan.to_json()).encode(),
        "circuit": circuit_to_container(circuit, plan.identity).to_bytes(),
        "secret key": secret,
        "evaluation keys": keys,
        "inputs": request,
        "outputs": server.evaluate(request, server.load_keys(keys)),
    }
    return Round(plan, circuit, files, client.decrypt(files["outputs"]))


def use(made: Round, files: dict[str, bytes]) -> np.ndarray:
    """Use each file as client and server do."""
    plan = made.plan
    if files["plan"] != made.files["plan"]:
        plan = read_plan(files["plan"])
    if files["outputs"] != made.files["outputs"] or files["secret key"] != made.files["secret key"]:
        return Client(plan, files["secret key"]).decrypt(files["outputs"])
    container = Container.from_bytes(files["circuit"], "circuit", "circuit").require(plan=plan.identity)
    server = Server(plan, circuit_from_container(container, "circuit"), workers=1)
    answer = server.evaluate(files["inputs"], server.load_keys(files["evaluation keys"]))
    return Client(plan, files["secret key"]).decrypt(answer)


def read_plan(content: bytes) -> Plan:
    """A changed plan, with which keys are made and an input is encrypted."""
    try:
        plan = Plan.from_json(json.loads(content))
    except (ValueError, RecursionError) as error:  # as pinets.encrypted.read_plan does
        raise EncryptedError(str(error)) from error
    if plan.parameters.ring <= 4096 and plan.parameters.levels <= 8 and len(plan.rotations) <= 16:
        secret, _ = make_keys(plan)
        Client(plan, secret.to_bytes()).encrypt(np.zeros((1, *plan.input_shape)))
    return plan


# Changes


def flip(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content))
    return content[:at] + bytes([content[at] ^ random.randrange(1, 256)]) + content[at + 1 :]


def cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def grow(content: bytes, random: Random) -> bytes:
    return content + random.randbytes(random.randrange(1, 100))


def repeat(content: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(content)) for _ in range(2))
    return content[:end] + content[start:] + b"."


def header(content: bytes, random: Random) -> bytes:
    """Change a value in the JSON header of a container, or in a plan; the checksum is right."""
    if content[:1] == b"{":
        return json.dumps(changed_value(json.loads(content), random)).encode()
    start = content.index(b"\n") + 9  # the magic, and the length of the header
    end = start + int.from_bytes(content[start - 8 : start], "little")
    text = json.dumps(changed_value(json.loads(content[start:end]), random)).encode()
    body = content[: start - 8] + len(text).to_bytes(8, "little") + text + content[end:-32]
    return body + hashlib.sha256(body).digest()


def part(content: bytes, random: Random) -> bytes:
    """Change the bytes of a part of a container; the checksum is right."""
    if content[:1] == b"{":
        return header(content, random)
    made = opened(content)
    name = random.choice(sorted(made.parts))
    if not made.parts[name]:
        return content
    change: Callable[[bytes, Random], bytes] = random.choice([flip, cut, grow, repeat])
    return replace(made, parts={**made.parts, name: change(made.parts[name], random)}).to_bytes()


def parts(content: bytes, random: Random) -> bytes:
    """Leave out, double, exchange or rename parts of a container; the checksum is right."""
    if content[:1] == b"{":
        return header(content, random)
    made = opened(content)
    names = sorted(made.parts)
    random.shuffle(names)
    kept = names[: random.randrange(len(names) + 1)]
    values = [made.parts[random.choice(names)] for _ in kept]
    if random.random() < 0.5:
        kept = [f"{name}x" for name in kept]
    return replace(made, parts=dict(zip(kept, values, strict=True))).to_bytes()


def opened(content: bytes) -> Container:
    for kind in ("secret key", "evaluation keys", "inputs", "outputs", "circuit"):
        try:
            return Container.from_bytes(content, kind, kind)
        except EncryptedError:
            continue
    raise AssertionError("not a container")


STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "0",
    [],
    [[]],
    {},
    [1, 2],
    {"a": 1},
]


def changed_value(value: Any, random: Random) -> Any:
    """A JSON value in which one value is another, or is missing."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(sorted(value))
        if random.random() < 0.1:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: changed_value(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.8:
        at = random.randrange(len(value))
        return [*value[:at], changed_value(value[at], random), *value[at + 1 :]]
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.4:
        return value + random.choice([-1, 1, 0.5, value])
    return random.choice(STRANGE)
