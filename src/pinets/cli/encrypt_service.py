"""``pinets encrypt serve`` and ``predict``: encrypted inference over HTTP."""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, gigabytes, positive, read_array
from pinets.cli.encrypt_planning import add_planning, make_plan
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pinets.encrypted.service import RemoteClient

__all__ = ["add_predict", "add_serve"]

_QUOTA_GB, _DAYS = 1.0, 7.0


def add_serve(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "serve",
        run_serve,
        summary="serve a network over HTTP, with a page that encrypts in the browser",
        details=(
            "RUN is a server's folder that plan --out wrote, a run folder, or a MODEL. TLS is a proxy's task: see\n"
            f"docs/encrypted.md for one.\n\n{MODEL_HELP}"
        ),
        example="""
            pinets encrypt serve runs/mnist_ccp4-small/seed-0
            pinets encrypt serve mnist/server --port 8080 --token-file token --workers 2
        """,
    )
    add_planning(parser, inputs="1")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=_port, default=8000, help="0 takes a free one (default: 8000)")
    parser.add_argument("--workers", type=positive, help="processes (default: one for each core)")
    parser.add_argument("--token-file", metavar="FILE", help="clients must send the token in this file")
    parser.add_argument("--store", metavar="DIR", help="evaluation keys (default: in the user's cache)")
    parser.add_argument("--quota", type=gigabytes, default=_QUOTA_GB, help="gigabytes of keys on disk (default: 1)")
    parser.add_argument("--days", type=float, default=_DAYS, help="how long unused keys are kept (default: 7)")
    parser.add_argument("--waiting", type=positive, default=32, help="requests that may wait (default: 32)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one ciphertext (default: 60)")
    parser.add_argument("--keys-in-memory", type=positive, help="clients a worker keeps keys of (default: by memory)")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def run_serve(args: argparse.Namespace) -> int:
    from pinets._files import user_cache
    from pinets.encrypted import read_plan
    from pinets.encrypted.machine import available_memory
    from pinets.encrypted.service import Limits, serve
    from pinets.encrypted.service.run import read_token
    from pinets.encrypted.workers import worker_count

    with ExitStack() as stack:
        folder = Path(args.source)
        if not (folder / "network.circuit").is_file():
            temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pinets-")))
            make_plan(args, temporary)
            folder = temporary / "server"
        plan = read_plan(folder)
        workers = worker_count(args.workers)
        # half of the free memory is for keys; the rest is for weights, ciphertexts and everybody else
        fitting = int(available_memory() / 2 / workers / max(plan.key_bytes, 1))
        limits = Limits(
            waiting=args.waiting,
            evaluate_seconds=args.seconds,
            key_quota=int(args.quota * 1e9),
            key_seconds=args.days * 86400,
            keys_in_memory=args.keys_in_memory or max(1, min(fitting, 64)),
        )

        def started(url: str) -> None:
            print(f"{plan}\n\nopen {url} (the workers need a few seconds to start)", flush=True)

        store = Path(args.store or user_cache("served-keys") / plan.identity)
        token = read_token(args.token_file) if args.token_file else None
        serve(
            *(folder, store),
            host=args.host,
            port=args.port,
            workers=workers,
            limits=limits,
            token=token,
            started=started,
        )
    return 0


def add_predict(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "predict",
        run_predict,
        summary="classify images with a service that cannot see them",
        details="Keys are made at the first use and kept, readable by you alone, in your cache.",
        example="""
            pinets encrypt predict http://localhost:8000 digit.png
            pinets encrypt predict https://example.org/digits images.npy --token-file token --json
        """,
    )
    parser.add_argument("url", metavar="URL", help="the address of a service")
    parser.add_argument("inputs", metavar="INPUT", nargs="+", help="images, or .npy files of prepared inputs")
    parser.add_argument("--token-file", metavar="FILE", help="the token that the service wants")
    parser.add_argument("--keys", metavar="DIR", help="where keys are kept (default: in the user's cache)")
    parser.add_argument("--json", action="store_true", help="print all outputs as JSON")


def run_predict(args: argparse.Namespace) -> int:
    import numpy as np

    from pinets.encrypted.service import RemoteClient
    from pinets.encrypted.service.run import read_token

    token = read_token(args.token_file) if args.token_file else None
    client = RemoteClient(args.url, token=token, cache=args.keys)
    arrays = [_read_inputs(path, client) for path in args.inputs]
    outputs = client.predict(np.concatenate(arrays))
    if args.json:
        print(json.dumps(outputs.tolist()))
        return 0
    names = [path for path, array in zip(args.inputs, arrays, strict=True) for _ in array]
    for name, row in zip(names, outputs, strict=True):
        print(f"{name}: {_describe(row, client.preparation.classes)}")
    return 0


def _describe(outputs: NDArray[np.float64], classes: tuple[str, ...]) -> str:
    best = int(outputs.argmax())
    if len(classes) == len(outputs):
        others = ", ".join(f"{classes[at]} {outputs[at]:.2f}" for at in outputs.argsort()[::-1][1:3])
        return f"{classes[best]} (score {outputs[best]:.2f}; then {others})"
    return " ".join(f"{value:.6g}" for value in outputs)


def _read_inputs(path: str, client: RemoteClient) -> Any:
    """The inputs in a file, as the network takes them."""
    if path.endswith(".npy"):
        return read_array(path)
    from pinets.data import CentreCrop
    from pinets.data.formats.images import decode_image

    wanted = client.plan.input_shape
    if len(wanted) != 3 or wanted[0] not in (1, 3) or wanted[1] != wanted[2]:
        raise UsageError(f"the service takes inputs of shape {wanted}, not square images: give a .npy file")
    whole = CentreCrop(wanted[1], resize=wanted[1])  # as `pinets predict` reads it
    pixels = decode_image(Path(path).read_bytes(), path, whole, (), wanted[0])
    return client.preparation(pixels[None].numpy())
