"""``pinets encrypt``: a network evaluated by a server that can read neither its input nor its output."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, example_input, gigabytes, positive, read_array, resolve_model, shape
from pinets.cli.encrypt_service import add_predict, add_serve
from pinets.cli.parser import Parser, UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets.encrypted import Plan, Preparation, Source

__all__ = ["add_parser"]

_LARGEST = 1e38  # limit of --range: inputs are drawn in single precision


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
            pinets encrypt serve runs/mnist_ccp4-small/seed-0
            pinets encrypt predict http://localhost:8000 digit.png
        """,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    _add_plan(actions)
    _add_keygen(actions)
    _add_encrypt(actions)
    _add_evaluate(actions)
    _add_decrypt(actions)
    _add_run(actions)
    add_serve(actions, _add_planning, _write_folders)
    add_predict(actions)


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
        choices=["auto", "latency", "throughput", "grid"],
        default="auto",
        help="one input per ciphertext, one feature of many inputs, or channels x height x width "
        "(default: what is fastest for --inputs)",
    )
    parser.add_argument("--inputs", type=positive, help=f"how many there will be (default: {inputs})")
    parser.add_argument(
        "--precision",
        type=float,
        default=1e-4,
        help="largest deviation, relative to the largest output (default: 1e-4)",
    )
    parser.add_argument("--ring", type=positive, help="this ring size, instead of the smallest that works")
    parser.add_argument(
        "--room",
        choices=["range", "inputs"],
        default="range",
        help="numbers must fit for every input in the range, or for typical inputs with a margin (default: range)",
    )
    parser.add_argument(
        "--prove",
        action="store_true",
        help="accept only what is proven to fit, and bound the deviation, for every input",
    )
    parser.add_argument("--memory", metavar="GB", type=_bytes, help="the server's (default: what is free)")


def run_plan(args: argparse.Namespace) -> int:
    plan = _plan(args, Path(args.out) if args.out else None)
    print(json.dumps(plan.to_json(), indent=1) if args.json else plan)
    return 0


def _write_folders(args: argparse.Namespace, folder: Path) -> Path:
    """Plan, and write the client's and the server's folder; gives the server's."""
    _plan(args, folder)
    return folder / "server"


def _plan(args: argparse.Namespace, folder: Path | None) -> Plan:
    from pinets.encrypted import write_plan, write_preparation

    source, preparation = _source(args)
    plan, circuit = source.plan(inputs=args.inputs or 1, **_options(args))
    if folder is not None:
        write_plan(plan, circuit, client=folder / "client", server=folder / "server")
        for side in ("client", "server"):
            write_preparation(preparation, folder / side)
    return plan


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the planner."""
    rings = {"rings": (args.ring,)} if args.ring else {}
    asked = {"packing": args.packing, "precision": args.precision, "proof": args.prove, "room": args.room}
    return {**asked, "memory": args.memory, **rings}


def _source(args: argparse.Namespace) -> tuple[Source, Preparation]:
    """The network that RUN stands for, with inputs to plan with and to test with, and how inputs are prepared."""
    import torch

    from pinets.encrypted import Preparation, draw_source, split_source

    found = resolve_model(args.source, data_dir=args.data)
    is_run = found.recipe is not None  # of a run, or of trained weights
    if args.range and (is_run or args.calibrate):
        other = "--calibrate" if args.calibrate else "a run folder"
        raise UsageError(f"--range is for a model alone: {other} brings inputs to plan with, leave one of them out")
    typical = torch.from_numpy(read_array(args.calibrate)).float() if args.calibrate else None
    if is_run:
        from pinets.tasks import ClassificationRecipe

        if not isinstance(found.recipe, ClassificationRecipe):
            raise UsageError(f"{args.source} is not the run of a classifier: there are no images or clips to plan with")
        preparation = Preparation.of(found.classes, found.preprocessing)
        if typical is None:
            return split_source(found.network, found.data.read), preparation
        source = draw_source(found.network, tuple(example_input(found, args.input).shape[1:]), typical=typical)
        # the dataset is read by those who test, so that a plan does not need it
        return replace(source, held_out=lambda count: found.data.read("test", count)), preparation
    low, high = args.range or (-1.0, 1.0)
    size = tuple(example_input(found, args.input).shape[1:])
    return draw_source(found.network, size, low, high, typical=typical), Preparation()


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
    from pinets.encrypted import PlanError, make_key_files, read_plan

    if read_plan(args.client).parameters.insecure:
        raise PlanError("the plan is for tests and not secure: anybody with the ciphertexts could read them")
    target = Path(args.server) / "evaluation.keys"
    make_key_files(args.client, target)
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
    parser.add_argument("--prove", action="store_true", help="refuse a plan that was made without --prove")
    parser.add_argument(
        "--allow", action="store_true", help="warn of inputs outside a proven range, do not refuse them"
    )


def run_encrypt(args: argparse.Namespace) -> int:
    from pinets.encrypted import encrypt_file

    if args.prove:
        _require_proof(args.client)
    encrypt_file(read_array(args.inputs), args.client, args.out, source=args.inputs, allow=args.allow)
    print(f"{args.out}: {Path(args.out).stat().st_size:,} bytes")
    return 0


def _require_proof(folder: str) -> None:
    from pinets.encrypted import PlanError, read_plan

    if read_plan(folder).proven_deviation is None:
        raise PlanError(f"the plan in {folder} has no proof: make one with `pinets encrypt plan ... --prove`")


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
    parser.add_argument("--prove", action="store_true", help="refuse a plan that was made without --prove")


def run_evaluate(args: argparse.Namespace) -> int:
    from pinets.encrypted import evaluate_file

    if args.prove:
        _require_proof(args.server)
    evaluate_file(args.inputs, args.server, args.out, workers=args.workers)
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
    from pinets.encrypted import decrypt_file

    outputs = decrypt_file(args.outputs, args.client, args.out)
    if args.out:
        print(f"{args.out}: {outputs.shape[0]} x {outputs.shape[1]}")
    else:
        print(json.dumps(outputs.tolist()))
    return 0


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
    parser.add_argument("--mirror", action="store_true", help="average each image's outputs with its mirror image's")
    parser.add_argument("--workers", type=positive, help="the server's processes (default: one for each core)")
    parser.add_argument("--out", metavar="DIR", help="keep the folders client and server here")
    parser.add_argument("--json", action="store_true", help="print plan and outcome as JSON")


def run_all(args: argparse.Namespace) -> int:
    from pinets._progress import Progress
    from pinets.encrypted import run_trial

    source, _ = _source(args)
    plan, circuit = source.plan(inputs=args.inputs or args.images, **_options(args))
    if not args.json:
        print(f"{plan}\n", flush=True)
    inputs, labels = source.held_out(args.images)
    with (
        tempfile.TemporaryDirectory(prefix="pinets-") as temporary,
        Progress("encrypted", len(inputs), unit="input") as bar,
    ):
        trial = run_trial(
            *(plan, circuit, source.network, inputs, args.out or temporary),
            labels=labels,
            mirror=args.mirror,
            workers=args.workers,
            memory=args.memory,
            done=bar.advance,
        )
    print(json.dumps({"plan": plan.to_json(), "trial": trial.to_json()}, indent=1) if args.json else trial)
    return 0


def _bytes(text: str) -> int:
    """Read gigabytes."""
    return int(gigabytes(text) * 1e9)


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
