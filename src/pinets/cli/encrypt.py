"""``pinets encrypt``: a network evaluated by a server that can read neither its input nor its output."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, example_input, positive, read_array, read_model, shape
from pinets.cli.parser import Parser, UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pinets.deploy.encrypted import Circuit, Plan

__all__ = ["add_parser", "read_run"]

_CALIBRATION = 2000  # training images that the range of a plan is taken from
_DRAWN = 256  # random inputs to plan with, where there are no images
_LARGEST = 1e38  # number in an input; they are drawn in single precision


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "encrypt",
        None,
        summary="evaluate a network on encrypted inputs",
        details=(
            "Client and server are separate: the client keeps the secret key, the server the network.\n"
            "plan says beforehand whether it works; run does all steps in two folders and compares."
        ),
        example="""
            pinets encrypt plan runs/mnist_ccp4-small/seed-0 --out mnist
            pinets encrypt keygen --client mnist/client --server mnist/server
            pinets encrypt encrypt images.npy --client mnist/client --out asked
            pinets encrypt evaluate asked --server mnist/server --out answered
            pinets encrypt decrypt answered --client mnist/client --out scores.npy
            pinets encrypt run runs/mnist_ccp4-small/seed-0 --images 100
        """,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    _add_plan(actions)
    _add_keygen(actions)
    _add_encrypt(actions)
    _add_evaluate(actions)
    _add_decrypt(actions)
    _add_run(actions)


def _add_plan(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "plan",
        run_plan,
        summary="find parameters that work, and what to expect of them",
        details=f"RUN is a run folder, or a MODEL.\n\n{MODEL_HELP}",
        example="""
            pinets encrypt plan runs/mnist_ccp4-small/seed-0 --out mnist
            pinets encrypt plan "CCP(16, 4, rank=8, order=3)" --range -1,1
        """,
    )
    _add_planning(parser, inputs="1")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--out", metavar="DIR", help="write DIR/client and DIR/server")


def _add_planning(parser: Parser, inputs: str) -> None:
    parser.add_argument("source", metavar="RUN", help="a run folder, or a model")
    parser.add_argument("--input", metavar="SHAPE", type=shape, help="shape of one input without the batch, as 3,32,32")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    parser.add_argument("--range", metavar="LOW,HIGH", type=_range, help="of a model's inputs (default: -1,1)")
    parser.add_argument(
        "--calibrate", metavar="FILE", help="typical inputs as .npy, instead of training images or --range"
    )
    parser.add_argument(
        "--packing",
        choices=["auto", "latency", "throughput"],
        default="auto",
        help="one input per ciphertext, or one feature of many inputs (default: what is faster for --inputs)",
    )
    parser.add_argument("--inputs", type=positive, help=f"how many there will be (default: {inputs})")
    parser.add_argument(
        "--precision",
        type=float,
        default=1e-4,
        help="largest deviation, relative to the largest output (default: 1e-4)",
    )
    parser.add_argument("--ring", type=positive, help="this ring size, instead of the smallest that works")


def run_plan(args: argparse.Namespace) -> int:
    plan, circuit, _ = _plan(args, args.inputs or 1)
    if args.out:
        from pinets.deploy.encrypted import write_plan

        write_plan(plan, circuit, client=Path(args.out) / "client", server=Path(args.out) / "server")
    print(json.dumps(plan.to_json(), indent=1) if args.json else plan)
    return 0


def _plan(args: argparse.Namespace, inputs: int) -> tuple[Plan, Circuit, Source]:
    import torch

    from pinets.deploy.encrypted import plan_network

    is_run = Path(args.source).is_dir()
    if args.range and (is_run or args.calibrate):
        other = "--calibrate" if args.calibrate else "a run folder"
        raise UsageError(f"--range is for a model alone: {other} brings inputs to plan with, leave one of them out")
    source = read_run(args.source, args.data) if is_run else _read_expression(args)
    if args.calibrate:
        given = torch.from_numpy(read_array(args.calibrate)).float()
        wanted = tuple(source.calibration.shape[1:])
        if tuple(given.shape[1:]) != wanted:
            raise UsageError(
                f"{args.calibrate} must hold inputs of shape {wanted} with a batch axis, got {tuple(given.shape)}"
            )
        source = replace(source, calibration=given)
        if not is_run:
            source = replace(source, held_out=partial(_draw_rows, given))
    options: dict[str, Any] = {"rings": (args.ring,)} if args.ring else {}
    plan, circuit = plan_network(
        source.network,
        source.calibration,
        packing=args.packing,
        inputs=inputs,
        precision=args.precision,
        **options,
    )
    return plan, circuit, source


@dataclass(frozen=True, eq=False)
class Source:
    """A network, inputs to plan with, and inputs to test with."""

    network: nn.Module
    calibration: Tensor
    held_out: Callable[[int], tuple[Tensor, Tensor | None]]


def read_run(path: str, data_dir: str | None) -> Source:
    """A trained classifier; its training images to plan with, its test images to test with."""
    from pinets import recipes
    from pinets.recipes.provenance import data_folder
    from pinets.train.run import RunFolder

    found = recipes.trained(path, data_dir=data_dir)
    if not isinstance(found.recipe, recipes.ClassificationRecipe):
        raise UsageError(f"{path} is no run of a classifier, which images or clips could be tried with")
    inputs = found.recipe.data.load(data_folder(RunFolder(path), data_dir))
    calibration, _ = _read(inputs.splits.train, inputs.evaluation, _CALIBRATION)
    return Source(found.network, calibration, lambda count: _read(inputs.splits.test, inputs.evaluation, count))


def _read_expression(args: argparse.Namespace) -> Source:
    """A model; inputs from its range, at random and the two extremes."""
    import torch

    network = read_model(args.source).eval()
    size = example_input(network, args.input).shape[1:]
    low, high = args.range or (-1.0, 1.0)

    def draw(count: int, seed: int) -> Tensor:
        return torch.empty(count, *size).uniform_(low, high, generator=torch.Generator().manual_seed(seed))

    calibration = draw(_DRAWN, seed=0)
    calibration[-2].fill_(low)
    calibration[-1].fill_(high)
    return Source(network, calibration, lambda count: (draw(count, seed=1), None))


def _draw_rows(inputs: Tensor, count: int) -> tuple[Tensor, None]:
    """Some of the inputs, at random; a model has no others that are typical."""
    import torch

    return inputs[torch.randint(len(inputs), (count,), generator=torch.Generator().manual_seed(1))], None


def _read(samples: Any, transform: Any, count: int) -> tuple[Tensor, Tensor]:
    import torch

    chosen = torch.arange(min(count, len(samples)))
    return transform(samples.read(chosen, torch.zeros(len(chosen), samples.draws))), samples.labels[chosen]


def _add_keygen(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "keygen",
        run_keygen,
        summary="make the keys for a plan",
        details="The secret key stays with the client; the server gets keys that multiply and rotate, not decrypt.",
        example="pinets encrypt keygen --client mnist/client --server mnist/server",
    )
    parser.add_argument("--client", metavar="DIR", required=True, help="with plan.json; gets secret.key")
    parser.add_argument("--server", metavar="DIR", required=True, help="gets evaluation.keys")


def run_keygen(args: argparse.Namespace) -> int:
    from pinets.deploy.encrypted import PlanError, make_client_keys, read_plan

    if read_plan(args.client).parameters.insecure:
        raise PlanError(
            "the plan gives up security, to try things in Python: whoever has the ciphertexts could read them"
        )
    target = Path(args.server) / "evaluation.keys"
    make_client_keys(args.client, target)
    print(f"{Path(args.client) / 'secret.key'} stays here; {target} is for the server, {target.stat().st_size:,} bytes")
    return 0


def _add_encrypt(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "encrypt",
        run_encrypt,
        summary="encrypt inputs",
        details="INPUTS is an array with a batch axis, prepared as the network wants it.",
        example="pinets encrypt encrypt images.npy --client mnist/client --out asked",
    )
    parser.add_argument("inputs", metavar="INPUTS", help="a .npy file")
    parser.add_argument("--client", metavar="DIR", required=True, help="with plan.json and secret.key")
    parser.add_argument("--out", metavar="FILE", required=True, help="for the server")


def run_encrypt(args: argparse.Namespace) -> int:
    from pinets.deploy.encrypted import Client

    _require_other_file(args.out, made_from=args.inputs, beside=args.client)
    Client(args.client).encrypt(read_array(args.inputs), args.out)
    print(f"{args.out}: {Path(args.out).stat().st_size:,} bytes")
    return 0


def _add_evaluate(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "evaluate",
        run_evaluate,
        summary="evaluate the network on encrypted inputs",
        example="pinets encrypt evaluate asked --server mnist/server --out answered",
    )
    parser.add_argument("inputs", metavar="INPUTS", help="what the client encrypted")
    parser.add_argument("--server", metavar="DIR", required=True, help="with plan, network and evaluation keys")
    parser.add_argument("--out", metavar="FILE", required=True, help="for the client")
    parser.add_argument("--workers", type=positive, help="processes (default: one for each core)")


def run_evaluate(args: argparse.Namespace) -> int:
    from pinets.deploy.encrypted import Server

    _require_other_file(args.out, made_from=args.inputs, beside=args.server)
    Server(args.server, workers=args.workers).evaluate(args.inputs, args.out)
    print(f"{args.out}: {Path(args.out).stat().st_size:,} bytes")
    return 0


def _add_decrypt(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "decrypt",
        run_decrypt,
        summary="decrypt outputs",
        example="pinets encrypt decrypt answered --client mnist/client --out scores.npy",
    )
    parser.add_argument("outputs", metavar="OUTPUTS", help="what the server evaluated")
    parser.add_argument("--client", metavar="DIR", required=True, help="with plan.json and secret.key")
    parser.add_argument("--out", metavar="FILE", help="write a .npy file (default: print)")


def run_decrypt(args: argparse.Namespace) -> int:
    from pinets.deploy.encrypted import Client

    if args.out:
        _require_other_file(args.out, made_from=args.outputs, beside=args.client)
    outputs = Client(args.client).decrypt(args.outputs)
    if args.out:
        write_array(args.out, outputs)
        print(f"{args.out}: {outputs.shape[0]} x {outputs.shape[1]}")
    else:
        print(json.dumps(outputs.tolist()))
    return 0


def _require_other_file(out: str, *, made_from: str, beside: str) -> None:
    """Refuse to replace what is read, and keys and plans, without which nothing can be decrypted any more."""
    target = Path(out).resolve()
    if target == Path(made_from).resolve():
        raise UsageError(f"--out {out} would replace what it is made from")
    if target.exists() and target.parent == Path(beside).resolve():
        raise UsageError(f"--out {out} would replace a file beside the keys and the plan; name another")


def _add_run(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "run",
        run_all,
        summary="all steps in two folders, compared with the plain network",
        details=f"RUN is a run folder, or a MODEL.\n\n{MODEL_HELP}",
        example="""
            pinets encrypt run runs/mnist_ccp4-small/seed-0 --images 100
            pinets encrypt run runs/mnist_ccp4-small/seed-0 --images 4096 --packing throughput
        """,
    )
    _add_planning(parser, inputs="as --images")
    parser.add_argument("--images", type=positive, default=100, help="test images (default: 100)")
    parser.add_argument("--workers", type=positive, help="the server's processes (default: one for each core)")
    parser.add_argument("--out", metavar="DIR", help="keep the folders client and server here")
    parser.add_argument("--json", action="store_true", help="print plan and outcome as JSON")


def run_all(args: argparse.Namespace) -> int:
    from pinets.deploy.encrypted import run_trial

    plan, circuit, source = _plan(args, args.inputs or args.images)
    if not args.json:
        print(f"{plan}\n", flush=True)
    inputs, labels = source.held_out(args.images)
    with tempfile.TemporaryDirectory(prefix="pinets-") as temporary:
        folder = args.out or temporary
        trial = run_trial(plan, circuit, source.network, inputs, folder, labels=labels, workers=args.workers)
    print(json.dumps({"plan": plan.to_json(), "trial": trial.to_json()}, indent=1) if args.json else trial)
    return 0


def write_array(path: str, array: Any) -> None:
    """Write a .npy file."""
    import io

    import numpy as np

    from pinets._files import write_bytes

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def _range(text: str) -> tuple[float, float]:
    """Read ``-1,1``."""
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected two numbers as -1,1, got {text!r}") from None
    if not all(abs(number) <= _LARGEST for number in (low, high)):
        raise argparse.ArgumentTypeError(f"numbers must be finite and at most {_LARGEST:g} in size, got {text!r}")
    if not low < high:
        raise argparse.ArgumentTypeError(f"the first number must be the smaller one, got {text!r}")
    return low, high
