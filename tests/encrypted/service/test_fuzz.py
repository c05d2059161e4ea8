"""Bodies that are broken in every way: each gets an answer, and the service stays as it was."""

from __future__ import annotations

import hashlib
import http.client
import random

import numpy as np
import pytest

from pinets.encrypted.container import _DIGEST


def mutations(valid: bytes, random_: random.Random):
    """Endlessly: cuts, changed bytes, repeated and swapped pieces; half of them with the right checksum again."""
    while True:
        body = bytearray(valid)
        for _ in range(random_.randint(1, 4)):
            at = random_.choice([random_.randrange(len(body) + 1), random_.randrange(min(400, len(body) + 1))])
            kind = random_.randrange(5)
            if kind == 0:
                body = body[:at]
            elif kind == 1 and at < len(body):
                body[at] = random_.randrange(256)
            elif kind == 2:
                body[at:at] = random_.randbytes(random_.randint(1, 50))
            elif kind == 3:
                del body[at : at + random_.randint(1, 50)]
            else:
                body[at : at + 8] = random_.choice([b"\xff" * 8, bytes(8), b'"parts":', b"[[[[[[[["])
        if random_.random() < 0.5:
            body[-_DIGEST:] = hashlib.sha256(bytes(body[:-_DIGEST])).digest()
        yield bytes(body)


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_malformed_bodies_are_answered_and_change_nothing(running, images, count):
    client, random_ = running.client(), random.Random(0)
    expected = client.predict(images)
    workers, stored = running.service.pool.process_ids, len(running.service.store)
    request = client._client.encrypt(client.preparation(images[:1]))
    keys = (client.folder / "evaluation.keys").read_bytes()
    cases = {
        f"/evaluate/{client._key_id(renew=False)}": mutations(request, random_),
        "/keys": mutations(keys, random_),
    }
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    seen = {}
    for number in range(count):
        path, bodies = list(cases.items())[number % 10 == 0]  # most of them ciphertexts
        connection.request("POST", path, body=next(bodies))
        answer = connection.getresponse()
        answer.read()
        seen[answer.status] = seen.get(answer.status, 0) + 1
    connection.close()
    # 200: the change hit a coefficient and the checksum was made right, which nobody can tell
    assert set(seen) <= {200, 201, 400, 409, 413}, seen
    assert seen[400] > count / 2
    assert running.service.pool.process_ids == workers
    assert running.service._waiting == running.service._uploads == 0
    assert len(running.service.store) <= stored + seen.get(201, 0)
    np.testing.assert_allclose(client.predict(images), expected, atol=1e-3)
