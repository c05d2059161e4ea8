"""``pinets encrypt``: a network evaluated by a server that can read neither its input nor its output."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from pinets.cli.arguments import MODEL_HELP, positive, read_array
from pinets.cli.encrypt_planning import add_planning, make_plan, planner_options, planning_source
from pinets.cli.encrypt_service import add_predict, add_serve
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]


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
    add_serve(actions)
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
    add_planning(parser, inputs="1")
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument("--out", metavar="DIR", help="write DIR/client and DIR/server")


def run_plan(args: argparse.Namespace) -> int:
    plan = make_plan(args, Path(args.out) if args.out else None)
    print(json.dumps(plan.to_json(), indent=1) if args.json else plan)
    return 0


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
        details=(
            "INPUTS is an array with a batch axis, prepared as the network takes it.\n"
            "Images themselves are taken by pinets encrypt predict, from a service."
        ),
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
    add_planning(parser, inputs="as --images")
    parser.add_argument("--images", type=positive, default=100, help="test images (default: 100)")
    parser.add_argument("--mirror", action="store_true", help="average each image's outputs with its mirror image's")
    parser.add_argument("--workers", type=positive, help="the server's processes (default: one for each core)")
    parser.add_argument("--out", metavar="DIR", help="keep the folders client and server here")
    parser.add_argument("--json", action="store_true", help="print plan and outcome as JSON")


def run_all(args: argparse.Namespace) -> int:
    from pinets._progress import Progress
    from pinets.encrypted import run_trial

    source, _ = planning_source(args)
    plan, circuit = source.plan(inputs=args.inputs or args.images, **planner_options(args))
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
